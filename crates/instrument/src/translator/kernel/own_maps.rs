//! `/proc/PID/maps` as a program would find it without rprof: its text is executable, and rprof's mappings are not there. A program
//! that looks for its own text (to restrict system calls to it, to find code near it) must come to the same result.
//!
//! ```text
//!  open("/proc/self/maps") ─▶ the same call, of a file in memory with the text as it would be
//! ```

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::Pid;

use crate::translator::translate::text_ranges::TextRange;
use rprof_tracee::address::Address;

/// Longest path that is looked at.
pub(crate) const PATH: usize = 64;
/// Column of the names.
const NAMES_AT: usize = 73;

/// `real` with the pieces of `text` executable and without `ours`: (first address, size).
pub(crate) fn as_without_rprof(real: &str, text: &[TextRange], ours: &[(u64, u64)]) -> String {
    let mut told = String::with_capacity(real.len() + 1024);
    for line in real.lines() {
        let Some(line) = Line::of(line) else { continue };
        if ours.iter().any(|&(at, size)| at <= line.start && line.end <= at + size) {
            continue;
        }
        let mut at = line.start;
        for piece in text.iter().filter(|t| t.is_translated_in(Address::new(line.start), Address::new(line.end))) {
            let (from, to) = (piece.start.get().max(line.start), piece.end.get().min(line.end));
            line.write(at, from, false, &mut told);
            line.write(from, to, true, &mut told);
            at = to;
        }
        line.write(at, line.end, false, &mut told);
    }
    told
}

/// A line of maps.
struct Line<'a> {
    start: u64,
    end: u64,
    rights: &'a str,
    offset: u64,
    device: &'a str,
    inode: &'a str,
    name: &'a str,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let hexadecimal = |s: &str| u64::from_str_radix(s, 16).ok();
        Some(Line {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            rights: fields.next()?,
            offset: hexadecimal(fields.next()?)?,
            device: fields.next()?,
            inode: fields.next()?,
            name: fields.next().unwrap_or_default().trim_start(),
        })
    }

    /// The part from `from` to `to`, unless it is empty.
    fn write(&self, from: u64, to: u64, executable: bool, told: &mut String) {
        if from >= to || self.rights.len() != 4 {
            return;
        }
        let (access, shared) = (&self.rights[..2], &self.rights[3..]);
        let execute = if executable { "x" } else { &self.rights[2..3] };
        // Memory without a file has no offset.
        let offset = if self.inode == "0" { self.offset } else { self.offset + (from - self.start) };
        let (device, inode, name) = (self.device, self.inode, self.name);
        let mut line = format!("{from:08x}-{to:08x} {access}{execute}{shared} {offset:08x} {device} {inode} ");
        if !name.is_empty() {
            line = format!("{line:NAMES_AT$}{name}");
        }
        told.push_str(&line);
        told.push('\n');
    }
}

/// A file in memory.
pub(crate) fn file_of(content: &str) -> Option<OwnedFd> {
    let mut file = File::from(memfd_create("maps", MFdFlags::MFD_CLOEXEC).ok()?);
    file.write_all(content.as_bytes()).ok()?;
    Some(file.into())
}

/// Whether descriptor `opened` of thread `tid` is `file`.
pub(crate) fn is_same(file: &OwnedFd, tid: Pid, opened: u64) -> bool {
    let own = std::fs::metadata(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let there = std::fs::metadata(format!("/proc/{tid}/fd/{opened}"));
    own.is_ok_and(|own| there.is_ok_and(|there| (own.dev(), own.ino()) == (there.dev(), there.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translator::translate::text_ranges::Treatment;

    #[test]
    fn text_is_executable_and_ours_is_not_there() {
        let real = "\
00400000-00403000 r--p 00001000 fe:00 77                                 /bin/a b
00500000-00501000 rw-p 00000000 00:00 0 
70000000-74000000 r-xs 00000000 00:01 9                                  /memfd:x (deleted)
7ffd0000-7ffe0000 rw-p 00000000 00:00 0                                  [stack]
";
        let piece = |start, end| TextRange {
            start: Address::new(start),
            end: Address::new(end),
            treatment: Treatment::Translate,
            located: None,
        };
        let text = [piece(0x401000, 0x402000), piece(0x500000, 0x501000)];
        let told = as_without_rprof(real, &text, &[(0x7000_0000, 0x400_0000)]);
        let expected = "\
00400000-00401000 r--p 00001000 fe:00 77                                 /bin/a b
00401000-00402000 r-xp 00002000 fe:00 77                                 /bin/a b
00402000-00403000 r--p 00003000 fe:00 77                                 /bin/a b
00500000-00501000 rwxp 00000000 00:00 0 
7ffd0000-7ffe0000 rw-p 00000000 00:00 0                                  [stack]
";
        assert_eq!(told, expected);
    }
}
