//! The CPUs that a thread may run on.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// How many CPUs the affinity mask of `tid` allows; `None` if the thread is gone.
pub fn allowed_cpus(tid: Pid) -> Option<u32> {
    let set = sched_getaffinity(tid).ok()?;
    Some((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).count() as u32)
}

#[cfg(test)]
mod tests {
    #[test]
    fn we_may_run_somewhere() {
        assert!(super::allowed_cpus(nix::unistd::Pid::from_raw(0)).unwrap() >= 1);
    }
}
