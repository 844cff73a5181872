//! The files that the arguments of a call name, as rprof reaches them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;

/// Longest path, with its zero.
const PATH: usize = libc::PATH_MAX as usize;

/// The text at `at`, up to its zero; `None` if it cannot be read.
pub fn text_at(memory: &Memory, at: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; PATH];
    let size = memory.read_some(Address::new(at), &mut bytes).ok()?;
    let end = bytes[..size].iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    Some(bytes)
}

/// `path`, which thread `tid` gives from the descriptor `folder` on (`None`: from its working folder), from the root on. Links in it are not
/// followed, and `..` stays.
pub fn absolute(tid: Pid, folder: Option<i32>, path: &[u8]) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    let link = match folder {
        None | Some(libc::AT_FDCWD) => "cwd".to_owned(),
        Some(fd) => format!("fd/{fd}"),
    };
    Some(fs::read_link(format!("/proc/{tid}/{link}")).ok()?.join(path))
}

/// Whether thread `tid` sees the same files under the same names as rprof.
pub fn has_our_files(tid: Pid) -> bool {
    let of = |pid: &str, link: &str| fs::read_link(format!("/proc/{pid}/{link}"));
    let tid = tid.to_string();
    ["root", "ns/mnt"].iter().all(|link| match (of(&tid, link), of("self", link)) {
        (Ok(theirs), Ok(ours)) => theirs == ours,
        _ => false,
    })
}

/// `path` by its true folder: two names of one file that differ only in links and `..` become the same. With `follows`, the last part may be
/// a link, too.
pub fn true_path(path: &Path, follows: bool) -> PathBuf {
    if follows && let Ok(found) = fs::canonicalize(path) {
        return found;
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    let link = fs::read_link(path).ok().filter(|_| follows);
    // A link that leads nowhere is where the file will be.
    let name = link.unwrap_or_else(|| name.into());
    fs::canonicalize(folder).map_or_else(|_| path.to_owned(), |folder| folder.join(name))
}

/// Whether opening `path` gives what the thread has open already, or its own part of /proc.
pub fn is_of_itself(path: &Path, tid: Pid, pid: Pid) -> bool {
    let standard = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];
    let own = [format!("/proc/{tid}"), format!("/proc/{pid}"), "/proc/self".into(), "/proc/thread-self".into()];
    let in_folder = |folder: &str| path.starts_with(folder);
    standard.iter().any(|name| path == Path::new(name)) || in_folder("/dev/fd") || own.iter().any(|own| in_folder(own))
}

/// Whether `path` is the terminal that rprof was started at. The second run's streams are another one.
pub fn is_users_terminal(path: &Path) -> bool {
    let ours = |fd: i32| fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|terminal| terminal == path);
    path == Path::new("/dev/tty")
        || path == Path::new("/dev/console")
        || path.starts_with("/dev/pts") && (0..3).any(ours)
}

/// Devices that discard writes, or compute.
pub fn is_harmless_device(path: &Path) -> bool {
    let named = ["null", "zero", "full", "random", "urandom", "ptmx", "kfd", "shm"];
    let begun = ["nvidia", "dri/", "infiniband/", "pts/"];
    let Ok(rest) = path.strip_prefix("/dev") else { return false };
    let rest = rest.as_os_str().as_bytes();
    named.iter().any(|name| rest == name.as_bytes()) || begun.iter().any(|name| rest.starts_with(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_file_become_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("a")).unwrap();
        fs::write(at("a/file"), "").unwrap();
        std::os::unix::fs::symlink(at("a"), at("b")).unwrap();
        std::os::unix::fs::symlink(at("a/file"), at("link")).unwrap();
        let of = |name: &str, follows| true_path(&at(name), follows);
        assert_eq!(of("b/file", true), of("a/file", true));
        assert_eq!(of("link", true), of("a/file", true));
        assert_ne!(of("link", false), of("a/file", false));
        assert_eq!(of("b/../a/absent", true), of("a/absent", true), "the folder of a new file");
        let own = Pid::this();
        assert!(has_our_files(own));
        assert!(is_of_itself(Path::new("/dev/fd/3"), own, own) && !is_of_itself(Path::new("/dev/null"), own, own));
        assert!(is_harmless_device(Path::new("/dev/nvidia0")) && !is_harmless_device(Path::new("/dev/sda")));
        let here = absolute(own, None, b"x").unwrap();
        assert_eq!(here, std::env::current_dir().unwrap().join("x"));
    }
}
