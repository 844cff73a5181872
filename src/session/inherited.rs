//! Descriptors beside the standard ones that a program inherits from rprof, and what a second run gets in their place.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::stat::{SFlag, fstat};

use super::sink;

/// One of them.
#[derive(Debug)]
struct Descriptor {
    number: RawFd,
    kind: SFlag,
    reads_only: bool,
    /// A file's position before the first run.
    offset: u64,
}

/// All of them, as they were before the first run.
#[derive(Debug, Default)]
pub struct Inherited(Vec<Descriptor>);

impl Inherited {
    /// Looks at this process's descriptors.
    pub fn look() -> Inherited {
        let numbers = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
        Inherited(numbers.filter(|number| *number > 2).filter_map(Descriptor::look).collect())
    }

    /// One that the first run may have read to its end: a pipe or socket that an argument of `command` names.
    pub fn read_once(&self, command: &[std::ffi::OsString]) -> Option<RawFd> {
        let named = |number: RawFd| {
            let names = [format!("/dev/fd/{number}"), format!("/proc/self/fd/{number}")];
            command.iter().any(|argument| names.iter().any(|name| argument.to_string_lossy().contains(name)))
        };
        let is_stream = |kind: SFlag| kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK;
        self.0.iter().find(|of| is_stream(of.kind) && named(of.number)).map(|of| of.number)
    }

    /// What a second run gets in the place of each: files from the same offset on, and sinks. Those that cannot be replaced stay as they are
    /// only if nothing can be written to them.
    ///
    /// # Errors
    /// A sink could not be made.
    pub fn for_second_run(&self) -> std::io::Result<Vec<(RawFd, OwnedFd)>> {
        let replaced = self.0.iter().filter(|of| of.kind != SFlag::S_IFDIR);
        replaced.map(|of| Ok((of.number, of.replacement()?))).collect()
    }
}

impl Descriptor {
    fn look(number: RawFd) -> Option<Descriptor> {
        // SAFETY: the number was in the list of open descriptors; if it is gone, the calls fail.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let flags = FdFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GETFD).ok()?);
        if flags.contains(FdFlag::FD_CLOEXEC) {
            return None;
        }
        let mode = OFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GETFL).ok()?);
        let kind = SFlag::from_bits_truncate(fstat(fd).ok()?.st_mode & SFlag::S_IFMT.bits());
        // SAFETY: asks for the offset of a descriptor.
        let offset = unsafe { libc::lseek(number, 0, libc::SEEK_CUR) }.max(0) as u64;
        Some(Descriptor { number, kind, reads_only: mode & OFlag::O_ACCMODE == OFlag::O_RDONLY, offset })
    }

    fn replacement(&self) -> std::io::Result<OwnedFd> {
        // SAFETY: it was open when rprof began, and rprof closes none of those.
        let fd = unsafe { BorrowedFd::borrow_raw(self.number) };
        match self.kind {
            SFlag::S_IFREG if self.reads_only => {
                let mut file = File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
                file.seek(SeekFrom::Start(self.offset))?;
                Ok(file.into())
            }
            SFlag::S_IFCHR if !nix::unistd::isatty(fd).unwrap_or(false) => fd.as_fd().try_clone_to_owned(),
            _ if self.reads_only => Ok(File::open("/dev/null")?.into()),
            _ => sink::like(fd),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn descriptors_are_replaced_by_what_has_no_effect() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "0123").unwrap();
        let mut reader = File::open(file.path()).unwrap();
        let (pipe, _write) = nix::unistd::pipe().unwrap();
        let mut digit = [0];
        reader.read_exact(&mut digit).unwrap();
        for fd in [reader.as_fd(), file.as_file().as_fd(), pipe.as_fd()] {
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        }
        let inherited = Inherited::look();
        let of = |fd: RawFd| inherited.0.iter().find(|of| of.number == fd).unwrap();
        reader.read_exact(&mut digit).unwrap();
        let again = of(reader.as_raw_fd()).replacement().unwrap();
        File::from(again).read_exact(&mut digit).unwrap();
        assert_eq!(digit, *b"1", "as the first run found it");
        File::from(of(file.as_raw_fd()).replacement().unwrap()).write_all(b"x").unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "0123");
        let named = |path: String| inherited.read_once(&["app".into(), path.into()]);
        assert_eq!(named(format!("/dev/fd/{}", pipe.as_raw_fd())), Some(pipe.as_raw_fd()));
        assert_eq!(named(format!("/dev/fd/{}", reader.as_raw_fd())), None);
    }
}
