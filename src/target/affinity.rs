//! The CPUs that a thread may run on.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The calling thread.
const SELF: Pid = Pid::from_raw(0);

/// How many CPUs the affinity mask of `tid` allows; `None` if the thread is gone.
pub fn allowed_cpus(tid: Pid) -> Option<u32> {
    let set = sched_getaffinity(tid).ok()?;
    Some((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).count() as u32)
}

/// The calling thread is kept on some CPUs; dropped, it may run where it could before.
#[derive(Debug)]
pub struct Kept {
    before: CpuSet,
}

impl Kept {
    /// Keeps the calling thread on `cpus`.
    ///
    /// # Errors
    /// None of them is allowed to it.
    pub fn on(cpus: &[u32]) -> io::Result<Kept> {
        let before = sched_getaffinity(SELF)?;
        let mut set = CpuSet::new();
        for cpu in cpus.iter().map(|c| *c as usize).filter(|c| before.is_set(*c).unwrap_or(false)) {
            set.set(cpu)?;
        }
        sched_setaffinity(SELF, &set)?;
        Ok(Kept { before })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // CPUs that were taken away meanwhile: nothing is left to restore.
        let _ = sched_setaffinity(SELF, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_may_run_somewhere() {
        assert!(allowed_cpus(SELF).unwrap() >= 1);
    }

    #[test]
    fn a_kept_thread_is_free_again() {
        std::thread::spawn(|| {
            let before = sched_getaffinity(SELF).unwrap();
            let first = (0..CpuSet::count()).find(|c| before.is_set(*c).unwrap_or(false)).unwrap() as u32;
            let kept = Kept::on(&[first]).unwrap();
            assert_eq!(allowed_cpus(SELF), Some(1));
            drop(kept);
            assert_eq!(sched_getaffinity(SELF).unwrap(), before);
            assert!(Kept::on(&[]).is_err(), "nowhere is no place");
        })
        .join()
        .unwrap();
    }
}
