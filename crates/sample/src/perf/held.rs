//! A child that is held at the first moment of its program.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::markers::Markers;
use rprof_tracee::maps::read_maps;
use rprof_tracee::markers::find;

/// Holds a child at the first moment of its program, so that breakpoints, which need addresses, are there before it begins.
pub(super) struct Held(Pid);

impl Held {
    /// Prepares that for a child at the gate if its program at `path` has markers. `None` if it has none, or if holding
    /// could change the program: a traced program gets no privileges of its file's owner.
    pub fn prepare(child: Pid, path: &Path) -> Option<Held> {
        if find::markers(path).ok()?.is_empty() || gains_privileges(path) {
            return None;
        }
        ptrace::seize(child, ptrace::Options::PTRACE_O_TRACEEXEC).ok()?;
        Some(Held(child))
    }

    /// Sets breakpoints in the program, which was released, and lets it go.
    pub fn let_go(self, markers: &mut Markers) {
        let stop = waitpid(self.0, Some(WaitPidFlag::__WALL));
        if let Ok(WaitStatus::PtraceEvent(..)) = stop {
            for mapping in read_maps(self.0).unwrap_or_default().iter().filter(|m| m.executable && m.is_file()) {
                let pid = self.0.as_raw() as u32;
                markers.mapped(pid, mapping.start.get(), mapping.offset.get(), &mapping.path);
            }
            // It cannot fail but for a program that is gone.
            let _ = ptrace::detach(self.0, None);
        }
    }
}

/// Whether the kernel gives a process that executes the file rights that we may not have.
fn gains_privileges(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return true };
    // SAFETY: two C strings; no buffer, as its size is 0.
    let size = unsafe { libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    let special = std::fs::metadata(path).is_ok_and(|m| m.mode() & (libc::S_ISUID | libc::S_ISGID) != 0);
    size > 0 || special
}
