//! The other end of `crates/embedded/programs/loader.rs`: a process of its own that loads libraries and calls their functions.
//!
//! Every request has a time limit. A process that crashed or did not answer in time is ended, and every later request has the
//! same error. None is left behind.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::LoaderError;

/// The program, built by `build.rs`.
use rprof_embedded::LOADER;

/// Limit of requests that call nothing of the library.
const SHORT: Duration = Duration::from_secs(20);
/// Time to end by itself when its input ends.
const TO_END: Duration = Duration::from_secs(5);
/// Bytes that a pipe that is ready takes without blocking.
const PIPE_BUF: usize = 4096;
/// Most arguments of a call, as in the loader.
pub const ARGUMENTS: usize = 16;
/// Most calls of a request, as in the loader.
pub const CALLS: usize = 64;

/// A function in the other process with its arguments.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Address of the function.
    pub function: u64,
    /// Its arguments; pointers are addresses in the other process.
    pub arguments: [u64; ARGUMENTS],
}

impl Call {
    /// A call with up to sixteen arguments.
    pub fn new(function: u64, given: &[u64]) -> Call {
        let mut arguments = [0; ARGUMENTS];
        arguments.iter_mut().zip(given).for_each(|(to, from)| *to = *from);
        Call { function, arguments }
    }
}

/// The results of some calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Index of the call that did not return 0, and its result.
    pub failed: Option<(usize, u32)>,
    /// Time of all rounds.
    pub time: Duration,
}

/// A loaded library.
#[derive(Debug, Clone, Copy)]
pub struct Library(u64);

/// The other process.
pub struct Remote {
    child: Child,
    to: Option<ChildStdin>,
    from: ChildStdout,
    lost: Option<LoaderError>,
}

impl Remote {
    /// Starts it.
    ///
    /// # Errors
    /// [`LoaderError::Start`].
    pub fn start() -> Result<Remote, LoaderError> {
        let failed = |e: io::Error| LoaderError::Start(e.to_string());
        let mut child = in_memory().or_else(|_| in_a_file()).map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(to), Some(from)) => Ok(Remote { child, to: Some(to), from, lost: None }),
            _ => Err(LoaderError::Start("no pipes".into())),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Loads a shared library.
    ///
    /// # Errors
    /// [`LoaderError::Library`] with the linker's text, or the process is lost.
    pub fn open(&mut self, path: &str) -> Result<Library, LoaderError> {
        let what = format!("loading {path}");
        self.ask(&what, SHORT, &with_text(&[1], path))?;
        let handle = self.number(&what, SHORT)?;
        let length = self.number(&what, SHORT)?;
        let text = self.take(&what, SHORT, length.min(1 << 16) as usize)?;
        match handle {
            0 => Err(LoaderError::Library { path: path.into(), reason: String::from_utf8_lossy(&text).into_owned() }),
            handle => Ok(Library(handle)),
        }
    }

    /// The address of a function or variable.
    ///
    /// # Errors
    /// [`LoaderError::Symbol`], or the process is lost.
    pub fn symbol(&mut self, library: Library, name: &str) -> Result<u64, LoaderError> {
        self.ask(name, SHORT, &with_text(&[2, library.0], name))?;
        match self.number(name, SHORT)? {
            0 => Err(LoaderError::Symbol { name: name.into() }),
            address => Ok(address),
        }
    }

    /// Zeroed memory of the other process.
    ///
    /// # Errors
    /// [`LoaderError::Memory`], or the process is lost.
    pub fn memory(&mut self, bytes: u64) -> Result<u64, LoaderError> {
        let what = "mapping memory";
        self.ask(what, SHORT, &words(&[3, bytes]))?;
        match self.number(what, SHORT)? {
            0 => Err(LoaderError::Memory { bytes }),
            address => Ok(address),
        }
    }

    /// Writes into its memory at `address`, which must be memory of it.
    ///
    /// # Errors
    /// The process is lost.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), LoaderError> {
        let what = "writing memory";
        let mut request = words(&[4, address, bytes.len() as u64]);
        request.extend_from_slice(bytes);
        self.ask(what, SHORT, &request)?;
        self.number(what, SHORT).map(|_| ())
    }

    /// Reads its memory.
    ///
    /// # Errors
    /// The process is lost.
    pub fn read(&mut self, address: u64, length: usize) -> Result<Vec<u8>, LoaderError> {
        let what = "reading memory";
        self.ask(what, SHORT, &words(&[5, address, length as u64]))?;
        self.take(what, SHORT, length)
    }

    /// Makes `calls` in order, `rounds` times, until one does not return 0. At most [`CALLS`]. `what` is for errors.
    ///
    /// # Errors
    /// The process is lost: it crashed, or did not answer within `limit`.
    pub fn calls(&mut self, what: &str, limit: Duration, rounds: u64, calls: &[Call]) -> Result<Outcome, LoaderError> {
        self.call(6, what, limit, rounds, calls)
    }

    /// Makes `calls` in order, `rounds` times, of functions that return nothing. At most [`CALLS`]. Returns the time of all rounds.
    ///
    /// # Errors
    /// As [`calls`](Self::calls).
    pub fn void_calls(
        &mut self,
        what: &str,
        limit: Duration,
        rounds: u64,
        calls: &[Call],
    ) -> Result<Duration, LoaderError> {
        self.call(8, what, limit, rounds, calls).map(|outcome| outcome.time)
    }

    fn call(
        &mut self,
        request: u64,
        what: &str,
        limit: Duration,
        rounds: u64,
        calls: &[Call],
    ) -> Result<Outcome, LoaderError> {
        debug_assert!(calls.len() <= CALLS);
        let mut request = words(&[request, rounds, calls.len() as u64]);
        for call in calls {
            request.extend(words(&[call.function]));
            request.extend(words(&call.arguments));
        }
        self.ask(what, limit, &request)?;
        let failed = self.number(what, limit)? as usize;
        let code = self.number(what, limit)? as u32;
        let time = Duration::from_nanos(self.number(what, limit)?);
        Ok(Outcome { failed: (failed < calls.len()).then_some((failed, code)), time })
    }

    /// Addresses of the loader's own functions: `touch(at, bytes)`, which adds 1 to each double, and `pause(ns)`.
    ///
    /// # Errors
    /// The process is lost.
    pub fn own(&mut self) -> Result<[u64; 2], LoaderError> {
        let what = "asking for functions";
        self.ask(what, SHORT, &words(&[7]))?;
        Ok([self.number(what, SHORT)?, self.number(what, SHORT)?])
    }

    fn ask(&mut self, what: &str, limit: Duration, request: &[u8]) -> Result<(), LoaderError> {
        let end = Instant::now() + limit;
        for piece in request.chunks(PIPE_BUF) {
            let Some(to) = self.to.as_mut() else { return Err(self.end(what, limit, true)) };
            let sent = is_ready(to, PollFlags::POLLOUT, end).and_then(|is_ready| match is_ready {
                true => to.write_all(piece).map(|()| true),
                false => Ok(false),
            });
            match sent {
                Ok(true) => {}
                Ok(false) => return Err(self.end(what, limit, false)),
                Err(_) => return Err(self.end(what, limit, true)),
            }
        }
        Ok(())
    }

    fn number(&mut self, what: &str, limit: Duration) -> Result<u64, LoaderError> {
        let bytes = self.take(what, limit, 8)?;
        Ok(bytes.try_into().map_or(0, u64::from_ne_bytes))
    }

    fn take(&mut self, what: &str, limit: Duration, length: usize) -> Result<Vec<u8>, LoaderError> {
        let end = Instant::now() + limit;
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match is_ready(&self.from, PollFlags::POLLIN, end) {
                Ok(true) => match self.from.read(&mut bytes[done..]) {
                    Ok(n) if n > 0 => done += n,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    _ => return Err(self.end(what, limit, true)),
                },
                Ok(false) => return Err(self.end(what, limit, false)),
                Err(_) => return Err(self.end(what, limit, true)),
            }
        }
        Ok(bytes)
    }

    /// Ends the process, because it is gone already or because it does not answer.
    fn end(&mut self, what: &str, limit: Duration, is_gone: bool) -> LoaderError {
        if let Some(error) = &self.lost {
            return error.clone();
        }
        self.to = None;
        let what = what.to_owned();
        let error = if is_gone {
            LoaderError::Crashed { what, signal: self.finish().and_then(|status| status.signal()) }
        } else {
            self.kill();
            LoaderError::TimedOut { what, seconds: limit.as_secs() }
        };
        self.lost = Some(error.clone());
        error
    }

    /// Waits for its end, and ends it if that takes long.
    fn finish(&mut self) -> Option<std::process::ExitStatus> {
        let end = Instant::now() + TO_END;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
        self.kill();
        None
    }

    fn kill(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.to = None;
        self.finish();
    }
}

/// Waits until `pipe` can be used; false after `end`.
fn is_ready(pipe: &impl AsFd, flags: PollFlags, end: Instant) -> io::Result<bool> {
    loop {
        let left = end.saturating_duration_since(Instant::now()).as_millis().min(60_000) as u16;
        match poll(&mut [PollFd::new(pipe.as_fd(), flags)], PollTimeout::from(left)) {
            Ok(0) if Instant::now() >= end => return Ok(false),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(e) => return Err(e.into()),
        }
    }
}

/// From a file without a name in memory.
fn in_memory() -> io::Result<Child> {
    let mut file = File::from(memfd_create(c"rprof-loader", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(LOADER)?;
    spawn(&format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// From a temporary file, if memory may not be run.
fn in_a_file() -> io::Result<Child> {
    let path = std::env::temp_dir().join(format!("rprof-loader-{}", std::process::id()));
    let mut file = File::options().write(true).create_new(true).mode(0o700).open(&path)?;
    let written = file.write_all(LOADER);
    drop(file);
    let child = written.and_then(|()| spawn(&path.to_string_lossy()));
    // The running program needs the name no more.
    let _ = std::fs::remove_file(&path);
    child
}

fn spawn(program: &str) -> io::Result<Child> {
    let errors = if super::is_logged() { Stdio::inherit() } else { Stdio::null() };
    let mut command = Command::new(program);
    // Another tool's library has no business in our own measurement; in `rprof demo --gpu` the collector has.
    if std::env::var_os("RPROF_GPU_LOG").is_none() {
        command.env_remove("CUDA_INJECTION64_PATH");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).spawn()
}

fn words(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn with_text(before: &[u64], text: &str) -> Vec<u8> {
    let mut request = words(before);
    request.extend(words(&[text.len() as u64]));
    request.extend_from_slice(text.as_bytes());
    request
}
