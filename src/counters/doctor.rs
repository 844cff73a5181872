//! `rprof doctor`: tries what this host allows, and says for each what would enable it and what the report gains.

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::path::Path;

use serde::Serialize;

use super::cpu::{self, CpuId};
use super::encode::{Encoding, encode};
use super::kernel::{Flags, Linux, PerfKernel, Scope};
use super::pmu::{self, Pmu};
use super::refusal::Refusal;
use super::table::{self, EventTable, Role};
use super::uncore;

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Short name, stable.
    pub id: &'static str,
    /// What was tried.
    pub what: String,
    /// Whether it works.
    pub works: bool,
    /// What the kernel answered.
    pub answer: String,
    /// The command or setting that would enable it; empty where it works or nothing would.
    pub enable: String,
    /// What the report gains by it.
    pub gain: &'static str,
    /// What rprof does without it.
    pub instead: &'static str,
}

/// Everything that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// This CPU.
    pub cpu: Option<CpuId>,
    /// Name of its event table.
    pub table: Option<String>,
    /// `full PMU`, `core PMU`, `no PMU`, `sandbox`.
    pub tier: &'static str,
    /// In the order of the report's needs.
    pub findings: Vec<Finding>,
}

const SELF: Scope = Scope { pid: 0, cpu: -1 };
const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_HW_CPU_CYCLES: u64 = 0;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;

/// Tries everything with `kernel` and the sysfs below `sysfs`.
pub fn examine<K: PerfKernel>(kernel: &K, sysfs: &Path) -> Diagnosis {
    let cpu = cpu::identify(sysfs);
    let tables = table::all().unwrap_or_default();
    let table = cpu.as_ref().and_then(|c| table::for_cpu(&tables, &c.vendor, c.family, c.model));
    let pmus = pmu::list(sysfs);
    let guest = cpu.as_ref().is_some_and(|c| c.guest);
    let mut findings = vec![timed(kernel), kernel_samples(kernel), cycles(kernel, guest)];
    findings.push(readings(kernel));
    findings.push(flops(kernel, table.as_ref(), &pmus, guest));
    findings.push(dram(kernel, table.as_ref(), &pmus, guest));
    let works = |id: &str| findings.iter().any(|f| f.id == id && f.works);
    let tier = match (works("timed"), works("cycles"), works("dram")) {
        (_, true, true) => "full PMU",
        (_, true, false) => "core PMU",
        (true, false, _) => "no PMU",
        (false, false, _) => "sandbox",
    };
    Diagnosis { cpu, table: table.map(|t| t.cpu.name), tier, findings }
}

/// The same with the running kernel, and what else the passes need.
pub fn examine_this_host() -> Diagnosis {
    let mut diagnosis = examine(&Linux, Path::new("/sys"));
    diagnosis.findings.extend([
        watchdog(Path::new("/proc")),
        ptrace(),
        executable_memfd(),
        page_map(),
        huge_pages(Path::new("/sys")),
    ]);
    diagnosis
}

fn try_open<K: PerfKernel>(kernel: &K, kind: u32, config: u64, exclude_kernel: bool) -> Result<(), Refusal> {
    let flags = Flags { exclude_kernel, disabled: true, ..Flags::default() };
    match kernel.open(Encoding { kind, config, config1: 0 }, SELF, None, flags) {
        Ok(_) => Ok(()),
        Err(e) => Err(Refusal::of_open(&e)),
    }
}

fn finding(
    id: &'static str,
    what: impl Into<String>,
    result: Result<String, Refusal>,
    gain: &'static str,
    instead: &'static str,
) -> Finding {
    let (works, answer, enable) = match result {
        Ok(answer) => (true, answer, String::new()),
        Err(refusal) => (false, refusal.to_string(), refusal.hint().to_owned()),
    };
    Finding { id, what: what.into(), works, answer, enable, gain, instead }
}

fn timed<K: PerfKernel>(kernel: &K) -> Finding {
    let result = try_open(kernel, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true);
    finding(
        "timed",
        "sample by cpu-clock with perf_event_open",
        result.map(|()| "works".into()),
        "time per function to a millisecond, with intervals on a CPU",
        "samples through ptrace, at a lower rate and a higher cost",
    )
}

fn kernel_samples<K: PerfKernel>(kernel: &K) -> Finding {
    let result = try_open(kernel, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false);
    finding(
        "kernel",
        "sample in the kernel, too",
        result.map(|()| "works".into()),
        "kernel time apart, by the function that asked for it",
        "kernel time is known in sum only",
    )
}

fn cycles<K: PerfKernel>(kernel: &K, guest: bool) -> Finding {
    let result = try_open(kernel, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true);
    let mut finding = finding(
        "cycles",
        "count cycles on the core PMU",
        result.map(|()| "works".into()),
        "hardware counters: one native run is enough where they pass the trust check",
        "cpu-clock for time, the counted pass for operations",
    );
    if !finding.works && !guest && finding.enable.contains("virtual machine") {
        finding.enable = "enable the PMU in the BIOS, and load the vendor's perf driver of the kernel".into();
    }
    finding
}

fn readings<K: PerfKernel>(kernel: &K) -> Finding {
    let flags = Flags {
        inherit: true,
        exclude_kernel: true,
        disabled: true,
        readings: true,
        sample_period_ns: 1_000_000,
        ..Flags::default()
    };
    let clock = Encoding { kind: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_CPU_CLOCK, config1: 0 };
    let result = kernel.open(clock, Scope { pid: 0, cpu: 0 }, None, flags).map_err(|e| Refusal::of_open(&e));
    let mut finding = finding(
        "readings",
        "read counters of inherited events at samples",
        result.map(|_| "works".into()),
        "counts by function and by thread",
        "the program's sums alone, split over functions by their time",
    );
    if finding.answer == Refusal::NotSupported.to_string() {
        finding.enable = "Linux 6.12 or later".into();
    }
    finding
}

/// The NMI watchdog holds a counter for itself: FLOP events then share the others, and are scaled.
fn watchdog(proc_root: &Path) -> Finding {
    let on = super::group::nmi_watchdog(proc_root);
    Finding {
        id: "nmi-watchdog",
        what: "have all counters of the PMU".into(),
        works: !on,
        answer: if on { "the NMI watchdog holds one" } else { "the NMI watchdog is off" }.into(),
        enable: if on { "sudo sysctl kernel.nmi_watchdog=0".into() } else { String::new() },
        gain: "more events at the same time, fewer scaled counts",
        instead: "events take turns, and their counts are scaled with an error",
    }
}

fn flops<K: PerfKernel>(kernel: &K, table: Option<&EventTable>, pmus: &[Pmu], guest: bool) -> Finding {
    let gain = "FLOPs, SIMD use and precision from the native run";
    let instead = "the counted pass counts every instruction exactly";
    let what = "count FLOPs on the core PMU";
    let Some(table) = table else {
        let found = "rprof has no event table for this CPU".to_owned();
        return finding("flops", what, Err(Refusal::NotTrusted { found }), gain, instead);
    };
    if let Some(missing) = table.missing.iter().find(|m| m.role == Role::Flops) {
        return finding("flops", what, Err(Refusal::NotTrusted { found: missing.reason.clone() }), gain, instead);
    }
    let Some(pmu) = table.cpu.pmu.iter().find_map(|name| pmus.iter().find(|p| p.name == *name)) else {
        let refusal = Refusal::NoPmu { pmu: table.cpu.pmu.join(" or ") };
        let mut finding = finding("flops", what, Err(refusal), gain, instead);
        if !guest {
            finding.enable = "load the vendor's perf driver of the kernel".into();
        }
        return finding;
    };
    let mut refusals = Vec::new();
    let mut opened = 0;
    for event in table.events.iter().filter(|e| e.role == Role::Flops && e.headline) {
        let encoding = encode(event, pmu).map_err(|e| Refusal::NoEncoding { field: e.field.into() });
        let flags = Flags { exclude_kernel: true, disabled: true, ..Flags::default() };
        match encoding.and_then(|e| kernel.open(e, SELF, None, flags).map_err(|e| Refusal::of_open(&e))) {
            Ok(_) => opened += 1,
            Err(refusal) => refusals.push(refusal),
        }
    }
    let result = match refusals.into_iter().next() {
        None => Ok(format!("{opened} events open; rprof events --check tells whether they are right")),
        Some(refusal) => Err(refusal),
    };
    finding("flops", what, result, gain, instead)
}

fn dram<K: PerfKernel>(kernel: &K, table: Option<&EventTable>, pmus: &[Pmu], guest: bool) -> Finding {
    let events = table.map(|t| t.uncore.as_slice()).unwrap_or_default();
    let mut result = Err(Refusal::NoPmu { pmu: "of a memory controller".into() });
    for event in events.iter().filter(|e| e.role == Role::DramReadLines) {
        let opened = uncore::open(kernel, pmus, event);
        if !opened.boxes.is_empty() {
            result = Ok(format!("{} boxes of {}", opened.boxes.len(), event.pmu));
            break;
        }
        if let Some((_, refusal)) = opened.refused.into_iter().find(|(_, r)| !matches!(r, Refusal::NoPmu { .. })) {
            result = Err(refusal);
        }
    }
    let mut finding = finding(
        "dram",
        "count DRAM traffic at the memory controllers",
        result,
        "measured bytes instead of simulated ones",
        "a cache model of this host, fed by the counted pass, labelled simulated",
    );
    if guest && finding.enable.contains("pmu=on") {
        finding.enable = "not to be had in a virtual machine: use the bare-metal host".into();
    }
    if finding.enable.contains("perf_event_paranoid=1") {
        finding.enable = "sudo sysctl kernel.perf_event_paranoid=0 (or CAP_PERFMON)".into();
    }
    finding
}

fn other(
    id: &'static str,
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
    Finding { id, what: what.into(), works, answer, enable, gain, instead }
}

fn ptrace() -> Finding {
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

fn executable_memfd() -> Finding {
    other(
        "memfd",
        "map shared memory as code",
        try_memfd().map(|()| "works".into()),
        "sudo sysctl vm.memfd_noexec=0",
        "the translator's code cache",
        "the counted pass is not possible; the timed pass stands",
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

fn page_map() -> Finding {
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    let read = || -> io::Result<String> {
        use std::os::unix::fs::FileExt;
        let here = Box::new(1u64);
        let page = std::ptr::from_ref(&*here) as u64 / 4096;
        let mut entry = [0u8; 8];
        File::open("/proc/self/pagemap")?.read_exact_at(&mut entry, page * 8)?;
        let entry = u64::from_le_bytes(entry);
        if entry & PRESENT != 0 && entry & FRAME == 0 {
            return Err(io::Error::other("frame numbers are hidden"));
        }
        Ok("works".into())
    };
    other(
        "pagemap",
        "read physical page numbers",
        read(),
        "sudo setcap cap_sys_admin+ep $(command -v rprof), or run as root",
        "L2 and L3 sets by physical address in the cache model",
        "pages are placed pseudo-randomly in the model",
    )
}

fn huge_pages(sysfs: &Path) -> Finding {
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
    use crate::counters::fake::Fake;

    #[test]
    fn a_sandbox_is_recognised_and_told_what_helps() {
        let fake = Fake { refuse: vec![(0, libc::ENOSYS)], ..Fake::default() };
        let diagnosis = examine(&fake, Path::new("/nonexistent"));
        assert_eq!(diagnosis.tier, "sandbox");
        let timed = &diagnosis.findings[0];
        assert!(!timed.works && timed.enable.contains("seccomp"), "{timed:?}");
        for finding in &diagnosis.findings {
            assert!(!finding.gain.is_empty() && !finding.instead.is_empty() && !finding.answer.is_empty());
        }
    }

    #[test]
    fn this_host_is_examined_without_panic() {
        let diagnosis = examine_this_host();
        assert_eq!(diagnosis.findings.len(), 11);
        for finding in diagnosis.findings {
            assert!(finding.works || !finding.answer.is_empty(), "{}", finding.id);
        }
    }
}
