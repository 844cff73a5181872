//! Programs of which no copies are made, found out before the first one.

use std::fs;

use nix::unistd::Pid;

use rprof_tracee::maps::read_maps;
use rprof_tracee::proc_status::{read_page_counts, read_status, threads_of};

use crate::error::{CopyError, Refused};
use crate::pages;
use crate::shared;

/// Threads that are copied for each CPU.
const THREADS_PER_CPU: usize = 16;
/// Huge pages of fewer bytes do not matter.
const FEW_HUGE_BYTES: u64 = 8 << 20;
/// `CAP_SYS_NICE`
const NICE: u32 = 23;

/// Whether copies of the process `pid` can be made.
///
/// # Errors
/// The reason why not.
pub fn check(pid: Pid) -> Result<(), CopyError> {
    let refuse = |reason| Err(CopyError::Refused(reason));
    let status = read_status(pid).map_err(|_| CopyError::Gone(None))?;
    if status.tracer != 0 {
        return refuse(Refused::Traced(status.tracer));
    }
    if status.ppid != Pid::this().as_raw() {
        return refuse(Refused::NotOurChild);
    }
    if status.may_be_filtered_more_than_us() {
        return refuse(Refused::Seccomp);
    }
    if !is_64_bit(pid) {
        return refuse(Refused::Foreign);
    }
    let threads = threads_of(pid).len();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if threads > THREADS_PER_CPU * cpus {
        return refuse(Refused::Threads { threads, most: THREADS_PER_CPU * cpus });
    }
    if tasks_left(pid).is_some_and(|left| left < 2 * threads as u64 + 2) {
        return refuse(Refused::TaskLimit);
    }
    let shared = shared::shared_bytes(pid)?;
    if shared > shared::MOST {
        return refuse(Refused::SharedMemory(shared));
    }
    let written = writable_resident(pid);
    if overcommit_is_strict() && committable() < 2 * private_bytes(pid) {
        return refuse(Refused::Overcommit);
    }
    if let Some(left) = cgroup_left(pid)
        && left < 2 * written
    {
        return refuse(Refused::Cgroup { left, needed: 2 * written });
    }
    if pages::huge_bytes(pid) > FEW_HUGE_BYTES && !may_collapse() {
        return refuse(Refused::HugePages);
    }
    Ok(())
}

/// Whether the process executes a 64-bit file.
fn is_64_bit(pid: Pid) -> bool {
    let mut head = [0u8; 5];
    let read =
        fs::File::open(format!("/proc/{pid}/exe")).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    // ELFCLASS64; an unreadable file says nothing.
    read.is_err() || head[4] == 2
}

/// How many tasks the user of `pid` may still make; `None`: any number, or it is not limited here.
fn tasks_left(pid: Pid) -> Option<u64> {
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } == 0 {
        return None;
    }
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max processes"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let used = fs::read_dir("/proc").ok()?.flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    // SAFETY: takes nothing.
    let own = unsafe { libc::getuid() };
    use std::os::unix::fs::MetadataExt;
    let own_ones = used.filter(|pid| fs::metadata(format!("/proc/{pid}")).is_ok_and(|about| about.uid() == own));
    let tasks: usize = own_ones.map(|pid| threads_of(Pid::from_raw(pid)).len()).sum();
    Some(limit.saturating_sub(tasks as u64))
}

fn overcommit_is_strict() -> bool {
    fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|text| text.trim() == "2")
}

/// Bytes that may still be committed.
fn committable() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    of("CommitLimit:").saturating_sub(of("Committed_AS:"))
}

/// Bytes of private mappings that may be written.
fn private_bytes(pid: Pid) -> u64 {
    let maps = read_maps(pid).unwrap_or_default();
    maps.iter().filter(|m| m.writable && !m.shared).map(|m| m.end - m.start).sum()
}

/// Bytes in memory that a copy may have to copy.
fn writable_resident(pid: Pid) -> u64 {
    read_page_counts(pid).map_or(0, |pages| pages.resident * pages::PAGE).min(private_bytes(pid))
}

/// Bytes that the memory cgroup of `pid` leaves; `None`: it has no limit.
fn cgroup_left(pid: Pid) -> Option<u64> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let folder = std::path::Path::new("/sys/fs/cgroup").join(own.trim_start_matches('/'));
    let number = |path: std::path::PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let left = |dir: &std::path::Path| {
        Some(number(dir.join("memory.max"))?.saturating_sub(number(dir.join("memory.current"))?))
    };
    folder.ancestors().take_while(|dir| dir.starts_with("/sys/fs/cgroup")).filter_map(left).min()
}

/// Whether rprof may put huge pages of others together (`process_madvise`).
pub fn may_collapse() -> bool {
    read_status(Pid::this()).is_ok_and(|own| own.capabilities >> NICE & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_ours_is_refused() {
        let parent = nix::unistd::getppid();
        let error = check(parent).unwrap_err();
        assert!(matches!(error, CopyError::Refused(Refused::NotOurChild | Refused::Traced(_))), "{error}");
        assert!(matches!(check(Pid::from_raw(i32::MAX)), Err(CopyError::Gone(None))));
    }
}
