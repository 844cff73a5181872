//! One counted run: everything that is known of the program, its processes and threads.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use atomic_refcell::AtomicRefCell;
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::instrument::CountError;
use crate::instrument::modules::SharedModules;
use crate::instrument::roster::Roster;
use crate::instrument::tally::Tally;
use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::regions::NoRegion;
use crate::instrument::translator::kernel::allocations::AllocationCallers;
use crate::instrument::translator::kernel::marks::Marks;
use crate::instrument::translator::kernel::process_settings::ProcessSettings;
use crate::instrument::translator::program::address_space::AddressSpace;
use crate::instrument::translator::program::thread::Thread;
use crate::instrument::translator::relayout::hot_code::{HotnessPoll, PlacingSettings};
use crate::instrument::translator::sampling::access_buffer::AccessBuffer;
use crate::instrument::translator::sampling::bursts::Bursts;
use crate::instrument::translator::sampling::recording::Recording;
use crate::instrument::translator::tracer::handoffs::Handoffs;
use crate::instrument::translator::tracer::polling::Polling;
use crate::instrument::translator::tracer::uncounted::Uncounted;
use crate::instrument::translator::tracer::watched_calls::CallRecorder;
use crate::profile::run::Warning;
use crate::tracee::affinity::CpuPin;
use crate::tracee::remote::RemoteError;
use crate::tracee::thread::{Stopped, TraceError};
use crate::tracee::wait::{Event, Stop};

/// Why following a thread went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The thread ended meanwhile: nothing is wrong.
    #[error("a thread ended")]
    Gone,
    /// Tracing failed.
    #[error(transparent)]
    Trace(TraceError),
    /// A system call on the program's behalf failed.
    #[error(transparent)]
    Remote(RemoteError),
    /// The engine cannot follow the program.
    #[error("{0}")]
    Unsupported(String),
}

impl From<TraceError> for RunError {
    fn from(error: TraceError) -> Self {
        if error.is_gone() { RunError::Gone } else { RunError::Trace(error) }
    }
}

impl From<RemoteError> for RunError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Trace(error) => error.into(),
            RemoteError::Ended(_) => RunError::Gone,
            other => RunError::Remote(other),
        }
    }
}

impl From<NoRegion> for RunError {
    fn from(error: NoRegion) -> Self {
        match error {
            NoRegion::TooManyThreads => RunError::Unsupported(error.to_string()),
            NoRegion::NoRoom => {
                let call = "finding room for the counters of one more thread";
                RunError::Remote(RemoteError::Refused { call, source: Errno::ENOMEM })
            }
        }
    }
}

impl From<RunError> for CountError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Trace(error) => error.into(),
            RunError::Remote(error) => CountError::Remote(error),
            other => CountError::Unsupported(other.to_string()),
        }
    }
}

/// One run.
pub(crate) struct Run {
    pub threads: HashMap<Pid, Thread>,
    /// Address spaces, by the id of the process that had each first.
    pub address_spaces: HashMap<Pid, AddressSpace>,
    /// Settings of processes, by process.
    pub process_settings: HashMap<Pid, ProcessSettings>,
    /// New tasks that stopped before their parent's event announced them.
    pub orphans: HashMap<Pid, Stopped>,
    /// Events seen while waiting for another one.
    pub backlog: VecDeque<Event>,
    pub tally: Tally,
    /// The modules that the program's code lies in.
    pub modules: SharedModules,
    pub roster: Roster,
    pub warnings: Vec<Warning>,
    pub first: Pid,
    /// Uncounted execution.
    pub uncounted: Uncounted,
    /// CPU seconds of the first process and of those that it waited for, once it has ended.
    pub family_cpu_s: Option<f64>,
    /// The recording of addresses and bursts.
    pub recording: Recording,
    /// Finds the callers that allocate memory.
    pub askers: AllocationCallers,
    /// The marked regions that threads are in.
    pub marks: Marks,
    /// Calls of MPI and BLAS.
    pub calls: CallRecorder,
    /// Code caches of address spaces that no longer exist, still to be added to the tally.
    pub finished: VecDeque<Arc<AtomicRefCell<CodeCache>>>,
    /// Seconds from the start of the run to its end.
    pub wall_s: f64,
    /// When to look for hot blocks.
    pub looks: HotnessPoll,
    /// Code caches that workers serve: their processes are missing in `processes`.
    pub(crate) handoffs: Handoffs,
    /// The program runs natively and is only visited (`visits`): its text stays executable, and it is never killed.
    pub visits: bool,
    /// Time that went into answers to threads that waited for them.
    pub waited: Duration,
    /// Threads whose stop could not be handled, and that are still in it.
    pub stuck: HashMap<Pid, Stop>,
    /// Processes that were about to call ptrace.
    pub tracers: BTreeSet<Pid>,
    /// When rprof polls, and where.
    pub(crate) polling: Polling,
}

impl Run {
    /// A run whose first process is `first`; see [`Translator`](crate::instrument::Translator) for the rest.
    pub fn new(
        first: Pid,
        sinks: (Option<AccessBuffer>, Option<Bursts>),
        placing: PlacingSettings,
        before_handoff: Option<fn()>,
        visits: bool,
    ) -> Self {
        let pin = CpuPin::new();
        Run {
            threads: HashMap::new(),
            address_spaces: HashMap::new(),
            process_settings: HashMap::new(),
            orphans: HashMap::new(),
            backlog: VecDeque::new(),
            tally: Tally::new(),
            modules: SharedModules::default(),
            roster: Roster::new(),
            warnings: Vec::new(),
            first,
            uncounted: Uncounted::default(),
            family_cpu_s: None,
            askers: AllocationCallers::default(),
            marks: Marks::default(),
            calls: CallRecorder::default(),
            recording: Recording::new(sinks, visits),
            finished: VecDeque::new(),
            wall_s: 0.0,
            looks: HotnessPoll::new(placing),
            handoffs: Handoffs::new(&pin, before_handoff),
            visits,
            waited: Duration::ZERO,
            stuck: HashMap::new(),
            tracers: BTreeSet::new(),
            polling: Polling::new(pin),
        }
    }

    /// The process of a thread.
    pub fn address_space(&mut self, tid: Pid) -> Result<&mut AddressSpace, RunError> {
        let pid = self.threads.get(&tid).ok_or(RunError::Gone)?.address_space;
        self.address_spaces.get_mut(&pid).ok_or(RunError::Gone)
    }

    pub fn set_polling(&mut self, polling: bool) {
        if self.polling.is_on != polling {
            self.polling.is_on = polling;
            self.address_spaces.values().for_each(|p| p.image.cache.borrow().set_polling(polling));
        }
    }

    /// Whether rprof polls the mailboxes, for new code caches.
    pub fn is_polling(&self) -> bool {
        self.polling.is_on
    }
}

/// Kills the process of a thread that rprof traces; it may be gone already.
pub(crate) fn kill_process_of(tid: Pid) {
    let _ = nix::sys::signal::kill(process_of(tid), nix::sys::signal::Signal::SIGKILL);
}

/// The id of the process that a task belongs to.
pub(crate) fn process_of(tid: Pid) -> Pid {
    crate::tracee::proc_status::read_status(tid).map_or(tid, |s| Pid::from_raw(s.tgid))
}
