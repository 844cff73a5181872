//! Why an event was not counted: the kernel's answer, and the user's remedy.

use std::fmt;
use std::io;

use serde::Serialize;

use super::pmu::{self, Pmu};
use super::setcap_hint;

/// The option that makes a container allow `perf_event_open`.
pub const CONTAINER: &str = "start it with --cap-add PERFMON, by which Docker's default seccomp profile allows \
                             perf_event_open; any other profile (--security-opt seccomp=PROFILE) must allow it itself";

/// A reason for "not measured".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Refusal {
    /// EACCES, EPERM: rights are missing.
    Forbidden,
    /// ENOENT: the PMU has no such event (in a guest: the hypervisor offers no such PMU).
    NoSuchEvent,
    /// EOPNOTSUPP, EINVAL: the PMU cannot count it this way.
    NotSupported,
    /// ENOSYS: a sandbox or the kernel has no `perf_event_open`.
    NoSystemCall,
    /// EMFILE, ENFILE: out of descriptors.
    OutOfDescriptors,
    /// The limit of open files is lower than the events need; nothing was opened.
    TooFewDescriptors {
        /// Descriptors that the events take.
        wanted: u64,
        /// Descriptors that are left for them.
        free: u64,
        /// The limit at which they fit.
        least: u64,
    },
    /// ENODEV, ENXIO: the CPU is offline.
    CpuOffline,
    /// EBUSY, ENOSPC: the counters are taken.
    CountersTaken,
    /// EIO while reading, or an end of file: a pinned event lost its counter, or it was stopped.
    StoppedCounting,
    /// A read returned fewer bytes than asked.
    ShortRead,
    /// Memory controllers that were read, and counted nothing all the while.
    CountedNothing {
        /// CPU that represents their socket; `None`: those of all sockets.
        cpu: Option<u32>,
    },
    /// Enabled, but never on the PMU: time running is 0.
    NeverRan,
    /// It ran, but its figure is impossible or the trust check refuted it.
    NotTrusted {
        /// The finding.
        found: String,
    },
    /// No event is known for it: none exists, or no table lists it.
    NoEvent {
        /// Why.
        why: String,
    },
    /// The kernel lists no PMU that has it.
    NoPmu {
        /// The PMU that rprof looked for.
        pmu: String,
    },
    /// The list of PMUs is empty or cannot be read: every kernel lists some.
    NoList,
    /// The kernel lists a PMU for some cores, and none for others that the program may use.
    NoPmuOn {
        /// CPUs of the others.
        cpus: Vec<u32>,
    },
    /// The kernel's PMU has no place for one of its fields.
    NoEncoding {
        /// The field.
        field: String,
    },
    /// One of several boxes that only together hold the whole count.
    OfBox {
        /// `uncore_imc_3@28`: PMU and CPU.
        name: String,
        /// Why it was refused.
        why: Box<Refusal>,
    },
    /// Anything else the kernel answered.
    Other {
        /// `errno`.
        errno: i32,
    },
}

impl Refusal {
    /// From the error of `perf_event_open`.
    pub fn of_open(error: &io::Error) -> Refusal {
        match error.raw_os_error().unwrap_or(0) {
            libc::EACCES | libc::EPERM => Refusal::Forbidden,
            libc::ENOENT => Refusal::NoSuchEvent,
            libc::EOPNOTSUPP | libc::EINVAL => Refusal::NotSupported,
            libc::ENOSYS => Refusal::NoSystemCall,
            libc::EMFILE | libc::ENFILE => Refusal::OutOfDescriptors,
            libc::ENODEV | libc::ENXIO => Refusal::CpuOffline,
            libc::EBUSY | libc::ENOSPC => Refusal::CountersTaken,
            errno => Refusal::Other { errno },
        }
    }

    /// That `name` is not among `pmus`, as the kernel lists them.
    pub fn not_listed(name: impl Into<String>, pmus: &[Pmu]) -> Refusal {
        if pmus.is_empty() { Refusal::NoList } else { Refusal::NoPmu { pmu: name.into() } }
    }

    /// From the error of `read`.
    pub fn of_read(error: &io::Error) -> Refusal {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::UnexpectedEof, _) => Refusal::ShortRead,
            (_, Some(libc::EIO)) => Refusal::StoppedCounting,
            (_, errno) => Refusal::Other { errno: errno.unwrap_or(0) },
        }
    }

    /// The user's remedy, in one sentence; empty if nothing helps.
    pub fn hint(&self) -> String {
        let text = match self {
            Refusal::Forbidden => {
                return format!(
                    "sudo sysctl kernel.perf_event_paranoid=1 (0 for memory controllers), or give rprof CAP_PERFMON: {}; \
                     in a container: {CONTAINER}",
                    setcap_hint::setcap("cap_perfmon")
                );
            }
            Refusal::NoSystemCall => {
                return format!(
                    "a seccomp filter hides perf_event_open, or the kernel lacks it; in a container: {CONTAINER}"
                );
            }
            Refusal::NoSuchEvent | Refusal::NoPmu { .. } => {
                "in a virtual machine, have the host offer its PMU (QEMU: -cpu host,pmu=on; clouds: a bare-metal or \
                 dedicated instance)"
            }
            Refusal::NoList => "have sysfs mounted and readable where rprof runs: sudo mount -t sysfs sysfs /sys",
            Refusal::NoPmuOn { .. } => "keep the program on the other CPUs: taskset -c CPUS rprof …",
            Refusal::OutOfDescriptors => "ulimit -n 65536",
            Refusal::CountersTaken => "sudo sysctl kernel.nmi_watchdog=0, and end other profilers: they hold counters",
            Refusal::CpuOffline => "echo 1 | sudo tee /sys/devices/system/cpu/cpuN/online",
            Refusal::TooFewDescriptors { least, .. } => return format!("as root: ulimit -n {least}"),
            Refusal::OfBox { why, .. } => return why.hint(),
            _ => "",
        };
        text.to_owned()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Forbidden => write!(f, "the kernel does not allow it to this user"),
            Refusal::NoSuchEvent => write!(f, "this CPU (or its hypervisor) does not offer the event"),
            Refusal::NotSupported => write!(f, "the PMU cannot count it this way"),
            Refusal::NoSystemCall => write!(f, "perf_event_open is not available here"),
            Refusal::OutOfDescriptors => write!(f, "the limit of open files is reached"),
            Refusal::TooFewDescriptors { wanted, free, least } => {
                write!(
                    f,
                    "the counters need {wanted} more open files and the limit leaves {free}: raise the hard limit (as \
                     root: ulimit -n {least})"
                )
            }
            Refusal::CpuOffline => write!(f, "the CPU is offline"),
            Refusal::CountersTaken => write!(f, "no counter is free"),
            Refusal::StoppedCounting => write!(f, "the event stopped counting"),
            Refusal::ShortRead => write!(f, "the kernel returned less than a whole count"),
            Refusal::CountedNothing { cpu: None } => write!(f, "the memory controllers counted nothing"),
            Refusal::CountedNothing { cpu: Some(cpu) } => {
                write!(f, "the memory controllers of the socket of CPU {cpu} counted nothing")
            }
            Refusal::NeverRan => write!(f, "it was never on the PMU"),
            Refusal::NotTrusted { found } => write!(f, "it is not believed: {found}"),
            Refusal::NoEvent { why } => write!(f, "{}", why.trim_end_matches('.')),
            Refusal::NoPmu { pmu } => write!(f, "the kernel lists no PMU {pmu}"),
            Refusal::NoList => {
                write!(f, "the kernel's list of PMUs (/sys/{}) is empty or cannot be read", pmu::DEVICES)
            }
            Refusal::NoPmuOn { cpus } => {
                let s = if cpus.len() == 1 { "" } else { "s" };
                write!(
                    f,
                    "no core PMU of the kernel's list is on CPU{s} {}, where the program may run",
                    pmu::cpu_ranges(cpus)
                )
            }
            Refusal::NoEncoding { field } => write!(f, "the kernel's PMU has no place for its field {field}"),
            Refusal::OfBox { name, why } => write!(f, "{name} is missing from the sum: {why}"),
            Refusal::Other { errno } => write!(f, "{}", io::Error::from_raw_os_error(*errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_a_reason() {
        for errno in 1..134 {
            let text = Refusal::of_open(&io::Error::from_raw_os_error(errno)).to_string();
            assert!(!text.is_empty() && !text.contains('\n'), "{errno}");
        }
        assert_eq!(Refusal::of_read(&io::ErrorKind::UnexpectedEof.into()), Refusal::ShortRead);
        assert_eq!(Refusal::of_read(&io::Error::from_raw_os_error(libc::EIO)), Refusal::StoppedCounting);
    }
}
