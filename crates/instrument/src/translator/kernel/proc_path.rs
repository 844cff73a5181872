//! Files of /proc that show or change the memory of a process.

use nix::unistd::Pid;

/// A file of a process in /proc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcFile {
    /// Its mappings.
    Maps,
    /// Its memory.
    Memory,
}

/// The process and the file that an absolute `path`, up to its first zero, names, as process `own` sees it. Links are not followed.
pub fn proc_file(path: &[u8], own: Pid) -> Option<(Pid, ProcFile)> {
    let path = std::str::from_utf8(path.split(|&byte| byte == 0).next()?).ok()?;
    let mut parts = Vec::new();
    for part in path.strip_prefix('/')?.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let [root, process, rest @ ..] = &parts[..] else { return None };
    let file = match rest {
        [file] | ["task", _, file] if *root == "proc" => match *file {
            "maps" => ProcFile::Maps,
            "mem" => ProcFile::Memory,
            _ => return None,
        },
        _ => return None,
    };
    match *process {
        "self" | "thread-self" => Some((own, file)),
        number => number.parse().ok().map(|number| (Pid::from_raw(number), file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_maps_and_memory() {
        let of = |path: &str| proc_file(path.as_bytes(), Pid::from_raw(7)).map(|(pid, file)| (pid.as_raw(), file));
        for (path, pid) in [
            ("/proc/self/maps\0x", 7),
            ("/proc/thread-self/maps", 7),
            ("/proc/12/maps", 12),
            ("/proc/self/task/9/maps", 7),
            ("//proc/./12//maps", 12),
            ("/proc/12/../self/maps", 7),
        ] {
            assert_eq!(of(path), Some((pid, ProcFile::Maps)), "{path}");
            assert_eq!(of(&path.replace("maps", "mem")), Some((pid, ProcFile::Memory)), "{path}");
        }
        for path in
            ["/proc/self/smaps", "/proc/maps", "/project/self/maps", "proc/self/maps", "/proc/self/fd/maps", "/"]
        {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
