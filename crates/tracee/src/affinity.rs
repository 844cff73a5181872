//! The CPUs that a thread may run on.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The calling thread.
const SELF: Pid = Pid::from_raw(0);

/// How many CPUs the affinity mask of `tid` allows; `None` if the thread is gone.
pub fn allowed_cpus(tid: Pid) -> Option<u32> {
    Some(count(&sched_getaffinity(tid).ok()?) as u32)
}

/// The CPUs that the affinity mask of `tid` allows, in order; none if the thread is gone.
pub fn cpus_of(tid: Pid) -> Vec<u32> {
    let set = sched_getaffinity(tid).unwrap_or_default();
    numbers(&set).map(|cpu| cpu as u32).collect()
}

fn numbers(set: &CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false))
}

fn count(set: &CpuSet) -> usize {
    numbers(set).count()
}

/// The CPU that the calling thread runs on.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: takes nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The CPUs that the calling thread runs on: any that it may use, or any but one.
#[derive(Debug)]
pub struct CpuPin {
    allowed: CpuSet,
    /// How many CPUs `allowed` has; at least 1.
    cpus: usize,
    left: Option<usize>,
}

impl CpuPin {
    /// As the calling thread is now.
    pub fn new() -> Self {
        let allowed = sched_getaffinity(SELF).unwrap_or_default();
        CpuPin { allowed, cpus: count(&allowed).max(1), left: None }
    }

    /// How many CPUs there are for it; at least 1.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Leaves `cpu` to others, if there is another one, and no other CPU from now on.
    pub fn leave(&mut self, cpu: usize) {
        let mut cpus = self.allowed;
        if self.left == Some(cpu) || self.cpus() < 2 || cpus.unset(cpu).is_err() {
            return;
        }
        if sched_setaffinity(SELF, &cpus).is_ok() {
            self.left = Some(cpu);
        }
    }

    /// Goes wherever the scheduler likes.
    pub fn anywhere(&mut self) {
        if self.left.take().is_some() {
            // If the kernel refuses that, fewer CPUs remain.
            let _ = sched_setaffinity(SELF, &self.allowed);
        }
    }
}

impl Default for CpuPin {
    fn default() -> Self {
        CpuPin::new()
    }
}

impl Drop for CpuPin {
    fn drop(&mut self) {
        self.anywhere();
    }
}

/// Keeps the calling thread on some CPUs; dropped, the thread may run on its CPUs from before.
#[derive(Debug)]
pub struct Kept {
    before: CpuSet,
}

impl Kept {
    /// Keeps the calling thread on `cpus`.
    ///
    /// # Errors
    /// This thread may use none of them.
    pub fn on(cpus: &[u32]) -> io::Result<Kept> {
        let before = sched_getaffinity(SELF)?;
        let mut set = CpuSet::new();
        for cpu in cpus.iter().map(|c| *c as usize).filter(|c| before.is_set(*c).unwrap_or(false)) {
            set.set(cpu)?;
        }
        sched_setaffinity(SELF, &set)?;
        Ok(Kept { before })
    }

    /// Lets the calling thread, and what it starts meanwhile, use all CPUs that its cgroup allows.
    ///
    /// # Errors
    /// Of the kernel: nothing is changed then.
    pub fn on_all() -> io::Result<Kept> {
        let before = sched_getaffinity(SELF)?;
        let mut all = CpuSet::new();
        for cpu in 0..CpuSet::count() {
            all.set(cpu)?;
        }
        sched_setaffinity(SELF, &all)?;
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
        assert_eq!(allowed_cpus(SELF), Some(cpus_of(SELF).len() as u32));
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

    #[test]
    fn leaving_a_cpu_and_returning_keeps_what_is_allowed() {
        let mut pin = CpuPin::new();
        if pin.cpus() < 2 {
            println!("SKIPPED: cpus: one CPU");
            return;
        }
        let here = current_cpu().unwrap();
        pin.leave(here);
        assert_eq!(CpuPin::new().cpus(), pin.cpus() - 1);
        assert_ne!(current_cpu(), Some(here));
        pin.anywhere();
        assert_eq!(CpuPin::new().cpus(), pin.cpus());
        pin.leave(here);
        let all = pin.cpus();
        drop(pin);
        assert_eq!(CpuPin::new().cpus(), all);
    }
}
