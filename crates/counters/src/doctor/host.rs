//! Permissions needed from the host beside events of the PMU: a counter that the NMI watchdog holds, open files, tracing, executable
//! memory, huge pages.

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::path::Path;

use super::Finding;
use super::events::{Worth, finding};
use crate::collect::descriptors;
use crate::group;

/// The NMI watchdog holds a counter for itself: FLOP events then share the others, and are scaled.
pub fn watchdog(proc_root: &Path) -> Finding {
    let on = group::nmi_watchdog(proc_root);
    let answer = match std::fs::read_to_string(proc_root.join(group::NMI_WATCHDOG)) {
        Err(e) => {
            format!("taken to be held by the NMI watchdog: {}: {e}", proc_root.join(group::NMI_WATCHDOG).display())
        }
        Ok(_) if on => "the NMI watchdog holds one".into(),
        Ok(_) => "the NMI watchdog is off".into(),
    };
    Finding {
        id: "nmi-watchdog".into(),
        what: "have all counters of the PMU".into(),
        works: !on,
        answer,
        enable: if on { "sudo sysctl kernel.nmi_watchdog=0".into() } else { String::new() },
        gain: "more events at the same time, fewer scaled counts",
        instead: "events take turns, and their counts are scaled with an error",
    }
}

/// One event a CPU for the sampler, and the `counters`, which take one an event and CPU.
pub fn open_files(counters: u64, cpus: u32) -> Finding {
    let most = descriptors::would_fit(counters + u64::from(cpus));
    let worth = Worth {
        gain: "hardware counters beside the samples",
        instead: "time is sampled where one event a CPU fits, and hardware counters are not opened",
    };
    let answer = most.map(|most| format!("{most} files may be open"));
    finding("open-files", "open every event on every CPU", answer, worth)
}

fn other(
    id: &str,
    what: &str,
    result: io::Result<String>,
    enable: &str,
    gain: &'static str,
    instead: &'static str,
) -> Finding {
    let (works, answer) = match result {
        Ok(answer) => (true, answer),
        Err(e) => (false, e.to_string()),
    };
    let enable = if works { String::new() } else { enable.to_owned() };
    Finding { id: id.into(), what: what.into(), works, answer, enable, gain, instead }
}

pub fn ptrace() -> Finding {
    other(
        "ptrace",
        "trace a child process",
        try_ptrace().map(|()| "works".into()),
        "sudo sysctl kernel.yama.ptrace_scope=1; in a container: --cap-add SYS_PTRACE",
        "the counted pass: exact operations, bytes and loops",
        "the timed pass alone",
    )
}

fn try_ptrace() -> io::Result<()> {
    // SAFETY: the child only waits to be killed; the parent seizes, kills and reaps it.
    unsafe {
        let child = libc::fork();
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        if child == 0 {
            loop {
                libc::pause();
            }
        }
        let seized = libc::ptrace(libc::PTRACE_SEIZE, child, 0, 0);
        let error = io::Error::last_os_error();
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), libc::__WALL);
        if seized < 0 { Err(error) } else { Ok(()) }
    }
}

pub fn executable_memfd() -> Finding {
    other(
        "memfd",
        "map shared memory as code",
        try_memfd().map(|()| "works".into()),
        "sudo sysctl vm.memfd_noexec=0",
        "the translator's code cache",
        "a file without a name in /dev/shm or /tmp, if code may be mapped from there; else the timed pass alone",
    )
}

fn try_memfd() -> io::Result<()> {
    // SAFETY: a fresh descriptor, owned by `file`; the mapping is made and unmapped without being touched.
    unsafe {
        let fd = libc::memfd_create(c"rprof-doctor".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let file = File::from_raw_fd(fd);
        file.set_len(4096)?;
        let map = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_SHARED, fd, 0);
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(map, 4096);
        Ok(())
    }
}

pub fn huge_pages(sysfs: &Path) -> Finding {
    let read = || -> io::Result<String> {
        let mode = std::fs::read_to_string(sysfs.join("kernel/mm/transparent_hugepage/enabled"))?;
        if mode.contains("[never]") {
            return Err(io::Error::other("switched off"));
        }
        Ok(mode.trim().to_owned())
    };
    other(
        "huge-pages",
        "transparent huge pages",
        read(),
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        "ceilings of DRAM and latency without page-walk cost",
        "ceilings with 4 KiB pages",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_open_files_that_is_too_low_is_told() {
        let enough = open_files(0, 1);
        assert!(enough.works && enough.enable.is_empty(), "{enough:?}");
        let low = open_files(1 << 40, 1);
        assert!(!low.works && low.answer.contains("need 1099511627777 more open files"), "{low:?}");
        assert!(low.enable.starts_with("as root: ulimit -n 1099511"), "{low:?}");
    }

    #[test]
    fn a_watchdog_that_cannot_be_read_is_not_told_as_one_that_is_on() {
        let proc_root = tempfile::tempdir().unwrap();
        let unknown = watchdog(proc_root.path());
        assert!(!unknown.works && unknown.answer.contains("No such file"), "{unknown:?}");
        std::fs::create_dir_all(proc_root.path().join("sys/kernel")).unwrap();
        let told = |text: &str| {
            std::fs::write(proc_root.path().join(group::NMI_WATCHDOG), text).unwrap();
            watchdog(proc_root.path()).answer
        };
        assert_eq!((told("1\n"), told("0\n")), ("the NMI watchdog holds one".into(), "the NMI watchdog is off".into()));
    }
}
