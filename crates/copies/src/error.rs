//! Why a program cannot be copied, and why a copy could not be made or ended early.

use std::fmt;
use std::io;

use nix::unistd::Pid;

use rprof_tracee::remote::RemoteError;
use rprof_tracee::thread::TraceError;

/// Why no copies are made of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It has a seccomp filter, which might end it when it is made to clone itself.
    Seccomp,
    /// `vm.overcommit_memory` is 2, and its private memory does not fit twice more.
    Overcommit,
    /// Its memory cgroup leaves less than what the copies would write, in bytes.
    Cgroup {
        /// Bytes that its cgroup leaves.
        left: u64,
        /// Bytes that a pair of copies may need.
        needed: u64,
    },
    /// RLIMIT_NPROC leaves too few tasks.
    TaskLimit,
    /// More threads than 16 for each CPU.
    Threads {
        /// Its threads.
        threads: usize,
        /// The most that are copied on this host.
        most: usize,
    },
    /// rprof is not its parent: a copy would be a child that the program did not make.
    NotOurChild,
    /// Another process traces it.
    Traced(i32),
    /// It has more shared memory that it may write than is copied, in bytes.
    SharedMemory(u64),
    /// Copies would split its huge pages, and rprof may not put them together again (CAP_SYS_NICE).
    HugePages,
    /// Its vdso has no system-call instruction.
    NoCallSite,
    /// It is not a 64-bit program of this architecture.
    Foreign,
    /// The kernel refuses to trace it, or gives no access to its memory.
    Untraceable(String),
    /// `perf_event_open` refuses breakpoints.
    NoBreakpoints(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Seccomp => f.write_str("it has a seccomp filter, which may forbid the call that makes copies"),
            Refused::Overcommit => {
                f.write_str("vm.overcommit_memory is 2, and the memory left does not hold two copies")
            }
            Refused::Cgroup { left, needed } => write!(
                f,
                "its cgroup leaves {} MB of memory, and two copies may need {} MB",
                left >> 20,
                needed.div_ceil(1 << 20)
            ),
            Refused::TaskLimit => f.write_str("the limit on tasks (ulimit -u) leaves none for copies"),
            Refused::Threads { threads, most } => {
                write!(f, "it has {threads} threads, and at most {most} are copied on this host")
            }
            Refused::NotOurChild => f.write_str(
                "rprof did not start this process itself; give the program instead of a script that starts it",
            ),
            Refused::Traced(pid) => write!(f, "process {pid} traces it"),
            Refused::SharedMemory(bytes) => write!(f, "it shares {} MB of memory that it may write", bytes >> 20),
            Refused::HugePages => f.write_str(
                "copies would split its huge pages, and rprof may not put them together again (it needs CAP_SYS_NICE)",
            ),
            Refused::NoCallSite => f.write_str("its vdso has no system-call instruction"),
            Refused::Foreign => f.write_str("it is no 64-bit program"),
            Refused::Untraceable(why) => write!(f, "it cannot be traced: {why}"),
            Refused::NoBreakpoints(why) => write!(f, "the kernel refuses breakpoints by perf_event_open: {why}"),
        }
    }
}

/// The end of the program's process, which rprof saw while it traced it: nobody else will.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessEnd {
    /// The process.
    pub pid: Pid,
    /// Its wait status.
    pub status: i32,
    /// CPU seconds of it and of those that it waited for.
    pub cpu_s: f64,
}

/// Why a copy could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// No copy of this program is made.
    #[error("{0}")]
    Refused(Refused),
    /// Its threads did not all stop at this moment; another one may do.
    #[error("its threads could not be stopped: {0}")]
    Moment(&'static str),
    /// It has ended, or ends.
    #[error("it ended")]
    Gone(Option<ProcessEnd>),
    /// Tracing failed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A system call in its name, or in a copy's, failed.
    #[error(transparent)]
    Call(#[from] RemoteError),
    /// Memory or files in /proc could not be read or written.
    #[error("cannot {0}: {1}")]
    Proc(&'static str, #[source] io::Error),
    /// The copy ended while it was prepared.
    #[error("the copy ended: {0}")]
    Ended(Ended),
}

/// Why a copy runs no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It made a system call with an effect outside, by number.
    Call(i64),
    /// A file that it reads could not be opened anew.
    File(i32),
    /// A signal, such as that of a wrong access.
    Signal(i32),
    /// It exited or was killed.
    Exited,
    /// All of its threads wait for others.
    Waits,
    /// A thread of it could not be driven.
    Lost,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Call(number) => write!(f, "it made system call {number}, whose effect is outside"),
            Ended::File(descriptor) => write!(f, "the file of descriptor {descriptor} could not be opened anew"),
            Ended::Signal(signal) => write!(f, "signal {signal}"),
            Ended::Exited => f.write_str("it exited"),
            Ended::Waits => f.write_str("all its threads wait"),
            Ended::Lost => f.write_str("it could not be driven"),
        }
    }
}
