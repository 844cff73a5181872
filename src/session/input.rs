//! Standard input for two runs. rprof reopens a file, records a pipe while the first run reads it and replays it, and does not
//! replay a terminal.
//!
//! ```text
//!            first run                      second run
//!  file      inherited                      reopened at the same offset
//!  pipe      ours ─▶ tee ─▶ its pipe        recording ─▶ its pipe
//!                     └─▶ recording
//!  terminal  inherited                      /dev/null, and a warning if it was read
//!  other     inherited                      /dev/null
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use nix::sys::stat::{SFlag, fstat};

/// Our standard input, as the two runs will see it.
#[derive(Debug)]
pub enum Input {
    /// Regular file or a device that can be opened anew.
    File {
        /// Offset before the first run.
        offset: u64,
    },
    /// A pipe or socket, recorded while the first run reads it.
    Recorded {
        /// The input of the first run.
        recording: File,
        /// Why that is not all of it, although the first run received all.
        failed: Arc<OnceLock<io::Error>>,
        /// Feeds the first run's pipe.
        feeder: Option<JoinHandle<io::Result<()>>>,
    },
    /// A terminal.
    Terminal,
    /// Closed, or nothing that can be replayed.
    Other,
}

impl Input {
    /// Looks at descriptor 0.
    pub fn classify() -> io::Result<Input> {
        let stdin = io::stdin();
        let Ok(stat) = fstat(stdin.as_fd()) else {
            return Ok(Input::Other);
        };
        let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
        if kind == SFlag::S_IFREG {
            // SAFETY: asks for the offset of a descriptor that is open.
            let offset = unsafe { libc::lseek(0, 0, libc::SEEK_CUR) };
            return Ok(Input::File { offset: offset.max(0) as u64 });
        }
        if kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK {
            return Ok(Input::Recorded { recording: unnamed_file()?, failed: Arc::default(), feeder: None });
        }
        if nix::unistd::isatty(stdin.as_fd()).unwrap_or(false) {
            return Ok(Input::Terminal);
        }
        Ok(Input::Other)
    }

    /// Standard input of the first run; `None` inherits ours. Of a pipe, at most `keep` bytes are recorded; `None`: nothing.
    pub fn first(&mut self, keep: Option<u64>) -> io::Result<Option<OwnedFd>> {
        let Input::Recorded { recording, failed, feeder } = self else {
            return Ok(None);
        };
        let Some(most) = keep else { return Ok(None) };
        let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        let source = io::stdin().as_fd().try_clone_to_owned()?;
        let (copy, failed) = (recording.try_clone()?, failed.clone());
        *feeder = Some(std::thread::spawn(move || tee(source.into(), write.into(), (copy, most), &failed)));
        Ok(Some(read))
    }

    /// Whether a second run can have the input that the first one read.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn is_kept(&self) -> Result<(), String> {
        match self {
            Input::Recorded { failed, .. } => failed.get().map_or(Ok(()), |error| Err(error.to_string())),
            Input::File { .. } | Input::Terminal | Input::Other => Ok(()),
        }
    }

    /// Standard input of the second run.
    pub fn second(&mut self) -> io::Result<OwnedFd> {
        match self {
            Input::File { offset } => {
                let reopened = File::open("/proc/self/fd/0");
                match reopened {
                    Ok(mut file) => {
                        file.seek(SeekFrom::Start(*offset))?;
                        Ok(file.into())
                    }
                    Err(_) => {
                        // the file may no longer be opened by name or right: share the descriptor, rewound
                        // SAFETY: moves the offset of a descriptor that is open.
                        unsafe { libc::lseek(0, *offset as i64, libc::SEEK_SET) };
                        Ok(io::stdin().as_fd().try_clone_to_owned()?)
                    }
                }
            }
            Input::Recorded { recording, failed, feeder } => {
                // The feeder may still wait for input that the first run never read: its recording so far is enough.
                drop(feeder.take());
                if let Some(error) = failed.get() {
                    let problem = format!("the input of the first run could not be kept ({error}); give it by a file");
                    return Err(io::Error::new(error.kind(), problem));
                }
                let mut recording = reopen(recording)?;
                let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
                std::thread::spawn(move || io::copy(&mut recording, &mut File::from(write)));
                Ok(read)
            }
            Input::Terminal | Input::Other => Ok(File::open("/dev/null")?.into()),
        }
    }
}

/// Copies `source` into `pipe`, and at most `most` bytes into the `recording`, until the end of the input or until the pipe has no
/// reader.
fn tee(
    mut source: File,
    mut pipe: File,
    (mut recording, mut most): (File, u64),
    failed: &OnceLock<io::Error>,
) -> io::Result<()> {
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let got = match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if got as u64 > most {
            let _ = failed.set(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than what rprof keeps"));
        }
        if failed.get().is_none() {
            most -= got as u64;
            let _ = recording.write_all(&buffer[..got]).map_err(|error| failed.set(error));
        }
        match pipe.write_all(&buffer[..got]) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            other => other?,
        }
    }
}

/// A second open file description of an unnamed file, at offset 0.
fn reopen(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A file without a name in the temporary folder: the input on disk goes away with this process.
pub fn unnamed_file() -> io::Result<File> {
    let unnamed = OpenOptions::new().read(true).write(true).custom_flags_unnamed().open(std::env::temp_dir());
    unnamed.or_else(|_| memfd())
}

fn memfd() -> io::Result<File> {
    // SAFETY: a constant name; the descriptor returned is ours.
    unsafe {
        let fd = libc::memfd_create(c"rprof".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(fd)) }
    }
}

trait Unnamed {
    fn custom_flags_unnamed(&mut self) -> &mut Self;
}

impl Unnamed for OpenOptions {
    fn custom_flags_unnamed(&mut self) -> &mut Self {
        use std::os::unix::fs::OpenOptionsExt;
        self.custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_recorded_is_fed_all_the_same() {
        let mut source = tempfile::tempfile().unwrap();
        source.write_all(&vec![7; 200_000]).unwrap();
        source.rewind().unwrap();
        let recording = File::open("/dev/null").unwrap();
        let mut pipe = tempfile::tempfile().unwrap();
        let failed = OnceLock::new();
        tee(source, pipe.try_clone().unwrap(), (recording, u64::MAX), &failed).unwrap();
        assert_eq!(failed.get().and_then(io::Error::raw_os_error), Some(libc::EBADF), "it was opened to be read");
        pipe.rewind().unwrap();
        assert_eq!(io::read_to_string(pipe).unwrap().len(), 200_000);
        let mut input = Input::Recorded { recording: unnamed_file().unwrap(), failed: Arc::new(failed), feeder: None };
        assert!(input.is_kept().is_err());
        assert!(input.second().unwrap_err().to_string().contains("give it by a file"));
    }

    #[test]
    fn more_than_is_kept_is_fed_and_said() {
        let mut source = tempfile::tempfile().unwrap();
        source.write_all(&vec![7; 200_000]).unwrap();
        source.rewind().unwrap();
        let (recording, mut pipe) = (unnamed_file().unwrap(), tempfile::tempfile().unwrap());
        let failed = OnceLock::new();
        tee(source, pipe.try_clone().unwrap(), (recording.try_clone().unwrap(), 100_000), &failed).unwrap();
        pipe.rewind().unwrap();
        assert_eq!(io::read_to_string(pipe).unwrap().len(), 200_000);
        assert!(failed.get().unwrap().to_string().contains("longer than"));
        assert!(recording.metadata().unwrap().len() <= 100_000);
    }
}
