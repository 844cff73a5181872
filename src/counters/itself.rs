//! Commands that concern the running executable.

use std::path::Path;

/// The command that gives this executable `capability`: `sudo setcap cap_perfmon+ep /usr/bin/rprof`.
pub fn setcap(capability: &str) -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| "rprof".into());
    format!("sudo setcap {capability}+ep {}", quoted(&path))
}

/// A path as a word of a shell's command.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted(Path::new("/usr/bin/rprof")), "/usr/bin/rprof");
        assert_eq!(quoted(Path::new("/home/a b/rprof")), "'/home/a b/rprof'");
        assert_eq!(quoted(Path::new("/it's/rprof")), r"'/it'\''s/rprof'");
        assert!(setcap("cap_perfmon").contains(std::env::current_exe().unwrap().to_str().unwrap()));
    }
}
