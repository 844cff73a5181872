//! Time in the kernel and time off the CPU: system calls by name, waiting by its reason, page faults.

use serde::{Deserialize, Serialize};

/// The kernel's work for a function or program, and its waits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct System {
    /// System calls by name, those with most kernel time first.
    #[serde(default)]
    pub calls: Vec<SystemCall>,
    /// Time off the CPU by reason, most first; `null` if the sampler did not watch it.
    pub waits: Option<Vec<Wait>>,
    /// Functions of other modules that made the calls, by their seconds in the kernel and off the CPU, most first; only some of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<Caller>,
    /// Page faults of the program; `null` for functions, and if they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// Why `waits` is `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_missing: Option<String>,
}

/// A function that made system calls, itself or through functions of a library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Caller {
    /// Its name.
    pub name: String,
    /// Seconds in the kernel and off the CPU.
    pub seconds: f64,
}

/// Maximum number of callers kept.
pub const MOST_CALLERS: usize = 5;

/// One system call.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SystemCall {
    /// Its name (`read`), `call N` of a number without a name; `null` if the number is not known.
    pub name: Option<String>,
    /// How often it was made; `null` if that was not counted.
    pub count: Option<u64>,
    /// CPU seconds in the kernel; `null` without samples of the kernel.
    pub kernel_s: Option<f64>,
    /// `count` was extended from windows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// `kernel_s` is a part by counts: the same instruction makes several calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub divided: bool,
}

/// Time off the CPU for one reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The reason.
    pub reason: Reason,
    /// The system call that waited; `null` if there was none, or it is not known.
    pub call: Option<String>,
    /// The file it waited for, if it has one.
    pub file: Option<FileKind>,
    /// Seconds, summed over threads.
    pub seconds: f64,
}

impl Wait {
    /// `read() of a pipe`, `a lock (futex)`, `sleep (clock_nanosleep)`, `a CPU`.
    pub fn words(&self) -> String {
        let call = self.call.as_deref().unwrap_or("?");
        match self.reason {
            Reason::Lock => format!("a lock ({call})"),
            Reason::Read | Reason::Write => match self.file {
                Some(file) => format!("{call}() of {}", file.words()),
                None => format!("{call}()"),
            },
            Reason::Poll => format!("any of several files ({call})"),
            Reason::Sleep => format!("sleep ({call})"),
            Reason::Child => format!("a child ({call})"),
            Reason::OtherCall => format!("{call}()"),
            Reason::PageFault => "a page".into(),
            Reason::RunQueue => "a CPU".into(),
            Reason::Unknown => "not known".into(),
        }
    }

    /// The event that ends the wait, and a change to try; a clause without a full stop.
    pub fn advice(&self) -> &'static str {
        match (self.reason, self.file) {
            (Reason::Lock, _) => {
                "another thread holds it: hold it shorter, divide it, or give threads data of their own"
            }
            (Reason::Read, Some(FileKind::Pipe)) => "it waits for the process that writes",
            (Reason::Read, Some(FileKind::Socket)) => "it waits for the other end",
            (Reason::Read, Some(FileKind::Terminal)) => "it waits for input",
            (Reason::Read, Some(FileKind::Regular)) => "it waits for the disk: read ahead, or larger parts at once",
            (Reason::Write, Some(FileKind::Pipe)) => "it waits for the process that reads",
            (Reason::Write, Some(FileKind::Regular)) => {
                "it waits for the disk: write larger parts, and flush less often"
            }
            (Reason::Read | Reason::Write, _) => "it waits for the other end of the file",
            (Reason::Poll, _) => "it waits for one of its files to become ready",
            (Reason::Sleep, _) => "it sleeps by its own will",
            (Reason::Child, _) => "the process that it started has the time",
            (Reason::OtherCall, _) => "it waits in the kernel",
            (Reason::PageFault, _) => "it waits for pages of a file or of swap, or for a lock of its address space",
            (Reason::RunQueue, _) => "other threads have the CPUs",
            (Reason::Unknown, _) => "nobody looked while it waited",
        }
    }
}

/// Why a thread was not on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// For another thread: a futex.
    Lock,
    /// For data that it reads.
    Read,
    /// For data that it writes to be taken.
    Write,
    /// For any of several files.
    Poll,
    /// For a time.
    Sleep,
    /// For a child to end.
    Child,
    /// In another system call.
    OtherCall,
    /// In no system call: for a page that comes from a file or from swap, or for a lock of its address space.
    PageFault,
    /// For a CPU: another thread had it.
    RunQueue,
    /// The sampler did not look while it waited.
    Unknown,
}

impl Reason {
    /// The reason why a thread is blocked in the system call `name`.
    pub fn of_call(name: &str) -> Reason {
        match name {
            "futex" | "futex_wait" | "futex_waitv" => Reason::Lock,
            "read" | "pread64" | "readv" | "preadv" | "preadv2" | "recvfrom" | "recvmsg" | "recvmmsg" | "accept"
            | "accept4" | "getdents" | "getdents64" => Reason::Read,
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "sendto" | "sendmsg" | "sendmmsg" | "fsync"
            | "fdatasync" | "connect" | "syncfs" | "sync_file_range" => Reason::Write,
            "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2"
            | "io_uring_enter" | "io_getevents" | "io_pgetevents" => Reason::Poll,
            "nanosleep" | "clock_nanosleep" | "pause" | "rt_sigtimedwait" | "rt_sigsuspend" => Reason::Sleep,
            "wait4" | "waitid" | "vfork" | "clone" | "clone3" => Reason::Child,
            _ => Reason::OtherCall,
        }
    }

    /// Whether the first argument of calls that wait for this reason is a file descriptor.
    pub fn is_of_file(self) -> bool {
        matches!(self, Reason::Read | Reason::Write)
    }
}

/// The kind of file behind a file descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A file of a file system.
    Regular,
    Pipe,
    Socket,
    Terminal,
    Device,
    /// `eventfd`, `timerfd`, `signalfd`, `epoll` and the like.
    Event,
}

impl FileKind {
    /// With its article.
    fn words(self) -> &'static str {
        match self {
            FileKind::Regular => "a file",
            FileKind::Pipe => "a pipe",
            FileKind::Socket => "a socket",
            FileKind::Terminal => "a terminal",
            FileKind::Device => "a device",
            FileKind::Event => "an event descriptor",
        }
    }

    /// Of a link in `/proc/PID/fd`.
    pub fn of_link(link: &str) -> FileKind {
        match link {
            _ if link.starts_with("pipe:") => FileKind::Pipe,
            _ if link.starts_with("socket:") => FileKind::Socket,
            _ if link.starts_with("anon_inode:") => FileKind::Event,
            "/dev/tty" | "/dev/console" => FileKind::Terminal,
            _ if link.starts_with("/dev/pts/") || link.starts_with("/dev/tty") => FileKind::Terminal,
            _ if link.starts_with("/dev/") && !link.starts_with("/dev/shm/") => FileKind::Device,
            _ => FileKind::Regular,
        }
    }
}

/// Page faults, counted by the kernel, and their cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Faults {
    /// Without a transfer from a file or swap.
    pub minor: u64,
    /// With one.
    pub major: u64,
    /// `minor` × the ceiling `pagefault`, in CPU seconds; `null` if that was not measured.
    pub expected_s: Option<f64>,
    /// CPU seconds of samples in the kernel that began at an instruction which is no system call.
    pub sampled_s: Option<f64>,
    /// Half width of the 95 % interval of `sampled_s`.
    pub sampled_ci95_s: Option<f64>,
}

impl Faults {
    /// Whether the two times differ by more than chance and more than a quarter.
    pub fn disagree(&self) -> bool {
        let Some(((expected, sampled), ci)) = self.expected_s.zip(self.sampled_s).zip(self.sampled_ci95_s) else {
            return false;
        };
        let gap = (expected - sampled).abs();
        gap > ci && gap > 0.25 * expected.max(sampled)
    }

    /// Whether so few were counted that most of the samples must have begun otherwise: with a signal or a trap.
    pub fn are_too_few(&self) -> bool {
        let known = self.expected_s.zip(self.sampled_s).zip(self.sampled_ci95_s);
        known.is_some_and(|((expected, sampled), ci)| sampled - ci > MOST_COST * expected)
    }
}

/// Page faults cost at most this many times the measured ceiling.
const MOST_COST: f64 = 4.0;

impl System {
    /// Seconds off the CPU without waits for a CPU; `None` if the sampler did not watch them.
    pub fn waited_s(&self) -> Option<f64> {
        let waits = self.waits.as_ref()?;
        Some(waits.iter().filter(|w| w.reason != Reason::RunQueue).map(|w| w.seconds).sum())
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.waits.as_ref().is_none_or(Vec::is_empty) && self.faults.is_none()
    }

    /// Of two runs, or two parts of one.
    pub fn plus(mut self, other: System) -> System {
        for call in other.calls {
            match self.calls.iter_mut().find(|known| known.name == call.name) {
                Some(known) => {
                    known.count = sum(known.count, call.count);
                    known.estimated |= call.estimated;
                    known.kernel_s = sum(known.kernel_s, call.kernel_s);
                    known.divided |= call.divided;
                }
                None => self.calls.push(call),
            }
        }
        for caller in other.callers {
            match self.callers.iter_mut().find(|known| known.name == caller.name) {
                Some(known) => known.seconds += caller.seconds,
                None => self.callers.push(caller),
            }
        }
        self.waits = match (self.waits, other.waits) {
            (Some(mut mine), Some(theirs)) => {
                for wait in theirs {
                    let same = |w: &&mut Wait| (w.reason, &w.call, w.file) == (wait.reason, &wait.call, wait.file);
                    match mine.iter_mut().find(same) {
                        Some(known) => known.seconds += wait.seconds,
                        None => mine.push(wait),
                    }
                }
                Some(mine)
            }
            (mine, theirs) => mine.or(theirs),
        };
        self.waits_missing = self.waits_missing.or(other.waits_missing).filter(|_| self.waits.is_none());
        self.faults = match (self.faults, other.faults) {
            (Some(a), Some(b)) => Some(Faults {
                minor: a.minor + b.minor,
                major: a.major + b.major,
                expected_s: sum(a.expected_s, b.expected_s),
                sampled_s: sum(a.sampled_s, b.sampled_s),
                sampled_ci95_s: a.sampled_ci95_s.zip(b.sampled_ci95_s).map(|(a, b)| a.hypot(b)),
            }),
            (a, b) => a.or(b),
        };
        self.sorted()
    }

    /// Largest first.
    pub fn sorted(mut self) -> System {
        let key = |call: &SystemCall| (call.kernel_s.unwrap_or(0.0), call.count.unwrap_or(0));
        self.calls.sort_by(|a, b| {
            key(b).0.total_cmp(&key(a).0).then(key(b).1.cmp(&key(a).1)).then_with(|| a.name.cmp(&b.name))
        });
        self.callers.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.name.cmp(&b.name)));
        self.callers.truncate(MOST_CALLERS);
        if let Some(waits) = &mut self.waits {
            waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        }
        self
    }
}

fn sum<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_add_up_by_name_and_reason() {
        let call = |name: &str, count| SystemCall { name: Some(name.into()), count, ..SystemCall::default() };
        let wait = |file, seconds| Wait { reason: Reason::Read, call: Some("read".into()), file, seconds };
        let pipe = Some(FileKind::Pipe);
        let a = System { calls: vec![call("read", Some(2))], waits: Some(vec![wait(pipe, 1.0)]), ..System::default() };
        let b = System {
            calls: vec![call("write", Some(5)), call("read", None)],
            waits: Some(vec![wait(pipe, 0.5), wait(None, 2.0)]),
            ..System::default()
        };
        let both = a.plus(b);
        assert_eq!(both.calls.iter().map(|c| c.count).collect::<Vec<_>>(), [Some(5), Some(2)]);
        assert_eq!(both.waited_s(), Some(3.5));
        assert_eq!(both.waits.unwrap()[0].file, None);
    }

    #[test]
    fn faults_disagree_beyond_chance_and_a_quarter() {
        let faults = |expected_s, ci| Faults {
            minor: 1,
            major: 0,
            expected_s: Some(expected_s),
            sampled_s: Some(1.0),
            sampled_ci95_s: Some(ci),
        };
        assert!(faults(0.5, 0.1).disagree());
        assert!(!faults(0.5, 0.6).disagree() && !faults(0.8, 0.01).disagree());
        assert!(
            faults(0.01, 0.1).are_too_few() && !faults(0.01, 0.99).are_too_few() && !faults(0.5, 0.1).are_too_few()
        );
    }
}
