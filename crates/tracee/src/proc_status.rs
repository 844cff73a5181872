//! Facts from `/proc` about a thread: its process, signals, name and CPU time.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use nix::unistd::Pid;

/// The lines of `/proc/TID/status` that tracing needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Process (thread group) id.
    pub tgid: i32,
    /// Id of the parent process.
    pub ppid: i32,
    /// Signals that wait for the thread itself: bit n−1 is signal n.
    pub pending: u64,
    /// Signals that wait for its process.
    pub pending_for_process: u64,
    /// Signals that the thread blocks.
    pub blocked: u64,
    /// Signals that the process ignores.
    pub ignored: u64,
    /// Signals that the process has handlers for.
    pub caught: u64,
    /// Its effective capabilities: bit n is capability n.
    pub capabilities: u64,
    /// Its system calls are filtered (seccomp).
    pub filtered: bool,
    /// How many filters its system calls pass (Linux 5.9 and later; else 0).
    pub filters: u32,
    /// The thread that traces it; 0: none.
    pub tracer: i32,
}

impl Status {
    /// Whether a signal waits that it handles and does not block.
    pub fn is_about_to_be_signalled(&self) -> bool {
        (self.pending | self.pending_for_process) & !self.blocked & self.caught != 0
    }

    /// See the function [`has_fault_pending`].
    pub fn has_fault_pending(&self) -> bool {
        const FAULTS: [i32; 5] = [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
        let mask: u64 = FAULTS.iter().map(|signal| 1u64 << (signal - 1)).sum();
        // An instruction's signal is never blocked: the kernel unblocks it.
        self.pending & !self.blocked & mask != 0
    }

    /// Whether its system calls may pass filters that ours do not. A program in a container has the filters that rprof has there.
    pub fn may_be_filtered_more_than_us(&self) -> bool {
        self.filtered && (self.filters == 0 || !read_status(Pid::this()).is_ok_and(|own| own.filters == self.filters))
    }
}

/// Reads `/proc/TID/status`.
///
/// # Errors
/// The thread is gone.
pub fn read_status(tid: Pid) -> io::Result<Status> {
    let text = fs::read_to_string(format!("/proc/{tid}/status"))?;
    let mut status = Status::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        let mask = || u64::from_str_radix(value, 16).unwrap_or(0);
        match key {
            "Tgid" => status.tgid = value.parse().unwrap_or(0),
            "PPid" => status.ppid = value.parse().unwrap_or(0),
            "SigPnd" => status.pending = mask(),
            "ShdPnd" => status.pending_for_process = mask(),
            "SigBlk" => status.blocked = mask(),
            "SigIgn" => status.ignored = mask(),
            "SigCgt" => status.caught = mask(),
            "CapEff" => status.capabilities = mask(),
            "TracerPid" => status.tracer = value.parse().unwrap_or(0),
            "Seccomp" => status.filtered = value != "0",
            "Seccomp_filters" => status.filters = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    Ok(status)
}

/// Bytes that a process has locked in memory (`mlock`); 0 if it is gone.
pub fn read_locked_bytes(pid: Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("VmLck:"));
    value.and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// When process `pid` began, to a tick of the kernel; `None` if it is gone.
pub fn started(pid: u32) -> Option<SystemTime> {
    // Field 22 of its `stat` is in ticks since the host began.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // Its name, in parentheses, may hold anything.
    let ticks: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    let age = uptime - ticks / ticks_a_second();
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age.max(0.0)).ok()?)
}

/// Pages of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCounts {
    /// Page faults so far.
    pub faults: u64,
    /// Pages that it has now, of 4 KiB each.
    pub resident: u64,
}

/// Reads the page counts in `/proc/PID/stat`.
///
/// # Errors
/// The process is gone.
pub fn read_page_counts(pid: Pid) -> io::Result<PageCounts> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // 1 (a name) S 0 … The fields are numbered from 1; behind the name comes the third.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    Ok(PageCounts { faults: field(10) + field(12), resident: field(24) })
}

/// Whether an instruction that the thread has executed raised a signal that is still to be reported. A stop that was
/// asked for is reported first, with the registers as the instruction left them.
pub fn has_fault_pending(tid: Pid) -> bool {
    read_status(tid).is_ok_and(|status| status.has_fault_pending())
}

/// Whether the thread runs or waits for a processor, not for anything else. False if it is gone.
pub fn is_runnable(tid: Pid) -> bool {
    read_state(tid) == Some('R')
}

/// The letter of the thread's state (`R`, `S`, `Z`, …); `None` if it is gone.
pub fn read_state(tid: Pid) -> Option<char> {
    // The number, the name of at most 64 bytes (of a kernel's thread), and the state. A name need not be text.
    let mut text = [0; 96];
    let length = fs::File::open(format!("/proc/{tid}/stat")).ok()?.read(&mut text).ok()?;
    state(&String::from_utf8_lossy(&text[..length]))
}

/// The state in a line of `/proc/TID/stat`. It follows the name, which may hold anything, parentheses included.
pub fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The CPU that the thread runs on, or ran on last; `None` if it is gone.
pub fn read_last_cpu(tid: Pid) -> Option<usize> {
    read_stat(tid, 39).and_then(|cpu| usize::try_from(cpu).ok())
}

/// Ids of the threads of a process; none if it is gone.
pub fn threads_of(pid: Pid) -> Vec<Pid> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok().map(Pid::from_raw)).collect()
}

/// Ids of the living children of a process; none if it is gone, or if the kernel does not list them
/// (CONFIG_PROC_CHILDREN).
pub fn children_of(pid: Pid) -> Vec<Pid> {
    let read = |tid: Pid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    let ids = |text: String| -> Vec<Pid> {
        text.split_whitespace().filter_map(|id| id.parse().ok().map(Pid::from_raw)).collect()
    };
    threads_of(pid).into_iter().map(read).flat_map(ids).collect()
}

/// The auxiliary vector of a process, which differs between two programs that it executes one after the other; empty if it is gone.
pub fn read_auxiliary_vector(pid: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default()
}

/// Whether a thread of this process traces the thread.
pub fn is_traced_by_us(tid: Pid) -> bool {
    read_status(tid).is_ok_and(|status| {
        status.tracer != 0 && fs::exists(format!("/proc/self/task/{}", status.tracer)).unwrap_or(false)
    })
}

/// User and system seconds of all threads of a process, to a clock tick; `None` if it is gone.
pub fn read_process_cpu_seconds(pid: Pid) -> Option<f64> {
    Some((read_stat(pid, 14)? + read_stat(pid, 15)?) as f64 / ticks_a_second())
}

fn ticks_a_second() -> f64 {
    // SAFETY: it only reads a number.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64
}

/// The system call that the thread is blocked in; `None` if it runs, or if the kernel does not report it.
pub fn read_blocking_call(tid: Pid) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{tid}/syscall")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// When the thread began, in clock ticks since the host booted; `None` if it is gone.
pub fn read_start_ticks(tid: Pid) -> Option<u64> {
    read_stat(tid, 22)
}

/// A number in `/proc/TID/stat`, by the number of its field from 4 on.
fn read_stat(tid: Pid, field: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    // The state behind the name is field 3.
    stat.rsplit_once(") ")?.1.split(' ').nth(field - 3)?.parse().ok()
}

/// The thread's name (`comm`), if it still exists.
pub fn read_name(tid: Pid) -> Option<String> {
    fs::read_to_string(format!("/proc/{tid}/comm")).ok().map(|s| s.trim_end().to_owned())
}

/// User and system CPU seconds of one thread, from `/proc/TID/schedstat` (nanoseconds), if it still exists.
pub fn read_cpu_seconds(tid: Pid) -> Option<f64> {
    let mut text = [0; 64];
    let nanoseconds: u64 = read_start(tid, "schedstat", &mut text)?.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 * 1e-9)
}

/// The first bytes of `/proc/TID/NAME`, in one read: rprof looks at these files hundreds of times a second.
fn read_start<'t>(tid: Pid, name: &str, text: &'t mut [u8]) -> Option<&'t str> {
    let length = fs::File::open(format!("/proc/{tid}/{name}")).ok()?.read(text).ok()?;
    std::str::from_utf8(&text[..length]).ok()
}

/// `first` and its living descendants.
pub fn family(first: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<Pid>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let pid = Pid::from_raw(pid);
        if let Ok(status) = read_status(pid) {
            children.entry(status.ppid).or_default().push(pid);
        }
    }
    let mut found = vec![first];
    let mut at = 0;
    while let Some(&pid) = found.get(at) {
        found.extend(children.get(&pid.as_raw()).into_iter().flatten());
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_hide_the_state() {
        assert_eq!(state("12 (a) R (b)) S 1 2"), Some('S'));
        assert_eq!(state(""), None);
    }

    #[test]
    fn our_own_status() {
        assert_eq!(read_status(Pid::this()).unwrap().tgid, Pid::this().as_raw());
        assert!(read_name(Pid::this()).is_some());
        assert!(read_last_cpu(Pid::this()).is_some());
        assert!(!is_traced_by_us(Pid::this()) && !read_auxiliary_vector(Pid::this()).is_empty());
    }
}
