//! Starting the program: a child that waits at a gate before `execve`, so that a pass can attach to it first.
//!
//! ```text
//!  fork ─▶ child: streams, signal mask ─▶ waits at the gate ─▶ execve ─▶ program
//!          parent: attach (perf, ptrace) ─▶ Gated::release() ─┘  (errno comes back if exec fails)
//! ```

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use super::wait::wait_for_end;
use super::{broken_pipe, own_limits};

/// The program to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// The file to execute.
    pub path: PathBuf,
    /// `argv`, the name first.
    pub argv: Vec<OsString>,
}

/// The child's standard streams; `None` inherits ours.
#[derive(Debug, Default)]
pub struct Streams {
    /// Standard input.
    pub stdin: Option<OwnedFd>,
    /// Standard output.
    pub stdout: Option<OwnedFd>,
    /// Standard error.
    pub stderr: Option<OwnedFd>,
    /// Others that the child would inherit, by their number.
    pub further: Vec<(RawFd, OwnedFd)>,
}

/// Why the program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// An argument holds a NUL byte.
    #[error("cannot pass {0:?} to the program: it contains a NUL byte")]
    Argument(OsString),
    /// `fork`, `pipe` or the gate failed.
    #[error("cannot start a process: {0}")]
    Fork(#[source] io::Error),
    /// `execve` failed.
    #[error("cannot execute {}: {source}", path.display())]
    Exec {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// A child that has not executed the program yet.
#[derive(Debug)]
pub struct Gated {
    pid: Pid,
    gate: OwnedFd,
    status: OwnedFd,
    path: PathBuf,
}

/// Forks a child that waits at the gate. The program starts with the signal mask, dispositions and limits that rprof was
/// started with; until its release the child dies with us.
pub fn spawn_gated(program: &Program, streams: Streams) -> Result<Gated, LaunchError> {
    spawn_gated_with(program, &[], streams)
}

/// The same, with `variables` set beside those of our own environment.
pub fn spawn_gated_with(
    program: &Program,
    variables: &[(OsString, OsString)],
    streams: Streams,
) -> Result<Gated, LaunchError> {
    let is_set = |name: &OsString| variables.iter().any(|(set, _)| set == name);
    let own = std::env::vars_os().filter(|(name, _)| !is_set(name));
    spawn_gated_in(program, own.chain(variables.iter().cloned()), streams)
}

/// The same, with `environment` in place of our own.
pub fn spawn_gated_in(
    program: &Program,
    environment: impl Iterator<Item = (OsString, OsString)>,
    streams: Streams,
) -> Result<Gated, LaunchError> {
    let path = c_string(program.path.as_os_str())?;
    let argv = program.argv.iter().map(|a| c_string(a)).collect::<Result<Vec<_>, _>>()?;
    let environment = environment
        .filter_map(|(k, v)| CString::new([k.as_bytes(), b"=", v.as_bytes()].concat()).ok())
        .collect::<Vec<_>>();
    let argv = pointers(&argv);
    let envp = pointers(&environment);
    let (gate_read, gate) = pipe()?;
    let (status, status_write) = pipe()?;
    let standard = [&streams.stdin, &streams.stdout, &streams.stderr].into_iter().zip(0..);
    let standard = standard.filter_map(|(stream, target)| Some((target, stream.as_ref()?.as_raw_fd())));
    let further = streams.further.iter().map(|(target, fd)| (*target, fd.as_raw_fd()));
    let redirect: Vec<(RawFd, RawFd)> = standard.chain(further).collect();

    // SAFETY: between fork and execve the child calls only async-signal-safe functions on memory prepared above.
    match unsafe { libc::fork() } {
        -1 => Err(LaunchError::Fork(io::Error::last_os_error())),
        0 => child(&path, &argv, &envp, &redirect, gate_read.as_raw_fd(), gate.as_raw_fd(), status_write.as_raw_fd()),
        pid => Ok(Gated { pid: Pid::from_raw(pid), gate, status, path: program.path.clone() }),
    }
}

impl Gated {
    /// The child.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The file that it executes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the child execute the program and waits until it has. A tracer that will get a PTRACE_EVENT_EXEC stop may
    /// call this before it waits for that stop: the status pipe closes before the stop is reported.
    pub fn release(self) -> Result<Pid, LaunchError> {
        // SAFETY: one byte from a live buffer to a descriptor we own.
        if unsafe { libc::write(self.gate.as_raw_fd(), [0u8].as_ptr().cast(), 1) } != 1 {
            return Err(LaunchError::Fork(io::Error::last_os_error()));
        }
        let mut errno = [0u8; 4];
        let got = loop {
            // SAFETY: four bytes into a live buffer of four bytes.
            let n = unsafe { libc::read(self.status.as_raw_fd(), errno.as_mut_ptr().cast(), 4) };
            if n >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break n;
            }
        };
        if got == 4 {
            // It may be traced already.
            wait_for_end(self.pid);
            let source = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
            return Err(LaunchError::Exec { path: self.path, source });
        }
        Ok(self.pid)
    }

    /// Ends the child without ever executing the program.
    pub fn abandon(self) {
        // SAFETY: a signal to our own child.
        unsafe { libc::kill(self.pid.as_raw(), libc::SIGKILL) };
        wait_for_end(self.pid);
    }
}

fn child(
    path: &CString,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    redirect: &[(RawFd, RawFd)],
    gate: RawFd,
    gate_write: RawFd,
    status: RawFd,
) -> ! {
    // SAFETY: async-signal-safe calls only; every pointer refers to memory that the parent prepared before fork.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::close(gate_write);
        let mut byte = 0u8;
        while libc::read(gate, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        for &(target, fd) in redirect {
            libc::dup2(fd, target);
        }
        broken_pipe::restore();
        own_limits::restore();
        libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr());
        let errno = *libc::__errno_location();
        libc::write(status, (&raw const errno).cast(), 4);
        libc::_exit(127)
    }
}

fn c_string(s: &OsStr) -> Result<CString, LaunchError> {
    CString::new(s.as_bytes()).map_err(|_| LaunchError::Argument(s.to_owned()))
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

fn pipe() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors; on success both are ours.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(LaunchError::Fork(io::Error::last_os_error()));
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// Finds `name` as a shell would: a name with a slash is itself, others are looked up in `PATH`.
pub fn find_in_path(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let candidates: Vec<PathBuf> = std::env::split_paths(&path)
        .map(|dir| if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) })
        .filter(|p| p.is_file())
        .collect();
    let executable = |p: &PathBuf| nix::unistd::access(p, nix::unistd::AccessFlags::X_OK).is_ok();
    candidates.iter().find(|p| executable(p)).or(candidates.first()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_child_executes_and_an_impossible_one_says_why() {
        let program = Program { path: "/bin/true".into(), argv: vec!["true".into()] };
        let pid = spawn_gated(&program, Streams::default()).unwrap().release().unwrap();
        let status = nix::sys::wait::waitpid(pid, None).unwrap();
        assert_eq!(status, nix::sys::wait::WaitStatus::Exited(pid, 0));

        let program = Program { path: "/nonexistent".into(), argv: vec!["x".into()] };
        let error = spawn_gated(&program, Streams::default()).unwrap().release().unwrap_err();
        assert!(matches!(error, LaunchError::Exec { ref source, .. } if source.raw_os_error() == Some(libc::ENOENT)));
    }
}
