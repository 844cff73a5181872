//! Commands that concern the running executable.

use std::path::Path;

/// The command that gives this executable `capability`: `sudo setcap cap_perfmon+ep /usr/bin/rprof`.
pub fn setcap(capability: &str) -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| "rprof".into());
    format!("sudo setcap {capability}+ep {}", quoted(&path))
}

/// `text` with one command for all of `capabilities` in place of that for one of them: a second command would revoke the
/// capabilities that the first one gave.
pub fn with_all(text: &str, capabilities: &[&str]) -> String {
    let all = setcap(&capabilities.join(","));
    capabilities.iter().fold(text.to_owned(), |text, one| text.replace(&setcap(one), &all))
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
    fn one_command_gives_all_capabilities() {
        let both = ["cap_perfmon", "cap_sys_admin"];
        for one in both {
            let text = format!("{}, or run as root", setcap(one));
            let found = with_all(&text, &both);
            assert!(
                found.starts_with("sudo setcap cap_perfmon,cap_sys_admin+ep ") && found.ends_with(", or run as root")
            );
        }
    }

    #[test]
    fn paths_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted(Path::new("/usr/bin/rprof")), "/usr/bin/rprof");
        assert_eq!(quoted(Path::new("/home/a b/rprof")), "'/home/a b/rprof'");
        assert_eq!(quoted(Path::new("/it's/rprof")), r"'/it'\''s/rprof'");
        assert!(setcap("cap_perfmon").contains(std::env::current_exe().unwrap().to_str().unwrap()));
    }
}
