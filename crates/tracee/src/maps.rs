//! The mappings of a process, from `/proc/PID/maps`.

use std::fs;
use std::io;
use std::ops::Range;

use nix::unistd::Pid;

use super::address::{Address, FileOffset};
use super::path_text;

/// One line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: Address,
    /// One past the last address.
    pub end: Address,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// `MAP_SHARED`.
    pub shared: bool,
    /// Offset of `start` in the file.
    pub offset: FileOffset,
    /// Device, as the kernel prints it.
    pub device: String,
    /// Inode; 0 for anonymous memory.
    pub inode: u64,
    /// Path, as [`path_text`] writes it, or `[name]`; empty for anonymous memory.
    pub path: String,
}

impl Mapping {
    /// Whether `at` lies in it.
    pub fn contains(&self, at: Address) -> bool {
        (self.start..self.end).contains(&at)
    }

    /// Its addresses.
    pub fn range(&self) -> Range<Address> {
        self.start..self.end
    }

    /// Whether both are of one file, or of memory of one name.
    pub fn is_of_same_file(&self, other: &Mapping) -> bool {
        (self.inode, &self.device, &self.path) == (other.inode, &other.device, &other.path)
    }

    /// Backed by a file, on disk or in memory (`memfd_create`); not by memory that has a name only.
    pub fn is_file(&self) -> bool {
        self.inode != 0 && self.path.starts_with('/')
    }
}

/// Reads the mappings of `pid`, in order of address.
///
/// # Errors
/// The error of reading `/proc/PID/maps`; the process may be gone.
pub fn read_maps(pid: Pid) -> io::Result<Vec<Mapping>> {
    let text = fs::read(format!("/proc/{pid}/maps"))?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
}

/// The mappings of `pid` that have been made outside of `before`.
///
/// # Errors
/// As [`read_maps`].
pub fn mapped_since(pid: Pid, before: &[Mapping]) -> io::Result<Vec<Mapping>> {
    let is_new = |new: &Mapping| before.iter().all(|old| new.end <= old.start || old.end <= new.start);
    Ok(read_maps(pid)?.into_iter().filter(is_new).collect())
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    // 7f1c0000-7f1c1000 r-xp 00001000 fe:00 1234   /usr/lib/x.so
    let path_at = line.iter().enumerate().filter(|(_, byte)| **byte == b' ').nth(4).map_or(line.len(), |(at, _)| at);
    let (fields, path) = line.split_at(path_at);
    let mut fields = std::str::from_utf8(fields).ok()?.split(' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?.as_bytes();
    let offset = fields.next()?;
    let device = fields.next()?.to_owned();
    let inode = fields.next()?.parse().ok()?;
    // The one character that the kernel escapes.
    let path = path_text::encode(path.trim_ascii_start()).replace("\\012", "\n");
    let hexadecimal = |s: &str| u64::from_str_radix(s, 16).ok();
    Some(Mapping {
        start: Address::new(hexadecimal(start)?),
        end: Address::new(hexadecimal(end)?),
        readable: permissions.first() == Some(&b'r'),
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        shared: permissions.get(3) == Some(&b's'),
        offset: FileOffset::new(hexadecimal(offset)?),
        device,
        inode,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_understood() {
        let m = parse_line(b"7f1c0000-7f1c1000 r-xp 00002000 fe:00 1234       /usr/lib/a b.so").unwrap();
        assert_eq!((m.start.get(), m.end.get(), m.offset.get()), (0x7f1c_0000, 0x7f1c_1000, 0x2000));
        assert!(m.readable && !m.writable && m.executable && !m.shared && m.is_file());
        assert_eq!(m.path, "/usr/lib/a b.so");
        assert_eq!(parse_line(br"1000-2000 r-xp 0 fe:00 1 /a\012b").unwrap().path, "/a\nb");
        assert_eq!(parse_line(b"1000-2000 r-xp 0 fe:00 1 /\xff/b").unwrap().path, "/\\xff/b");
        let memory = parse_line(b"1000-2000 r-xp 0 00:01 7 /memfd:code (deleted)").unwrap();
        assert!(memory.is_file() && memory.path == "/memfd:code (deleted)");
        assert_eq!(parse_line(b"1000-2000 rwxp 0 00:00 0").unwrap().path, "");
        assert_eq!(parse_line(b""), None);
    }

    #[test]
    fn our_own_text_is_mapped() {
        let here = Address::new(our_own_text_is_mapped as *const () as u64);
        let maps = read_maps(Pid::this()).unwrap();
        assert!(maps.iter().find(|m| m.contains(here)).unwrap().executable);
    }
}
