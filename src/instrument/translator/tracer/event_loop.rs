//! One counted run: the loop that waits for threads and answers their mailboxes.
//!
//! ```text
//!        ┌──────────── polling ────────────┐  quiet for a while  ┌──── waiting ────┐
//!        │ mailboxes, then waitpid(NOHANG) │ ──────────────────▶ │ waitpid, blocks │
//!        └─────────────────────────────────┘ ◀────────────────── └─────────────────┘
//!                                               a thread stopped
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use atomic_refcell::AtomicRefCell;
use nix::unistd::Pid;

use crate::instrument::CountError;
use crate::instrument::roster::Roster;
use crate::instrument::tally::Tally;
use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::stubs::{DRAIN, MARK};
use crate::instrument::translator::counts::execution_deltas::Told;
use crate::instrument::translator::kernel::allocations::Askers;
use crate::instrument::translator::kernel::dispositions::Dispositions;
use crate::instrument::translator::kernel::filters::Filters;
use crate::instrument::translator::kernel::marks::{Marks, note_call};
use crate::instrument::translator::kernel::rlimit_as::Allowance;
use crate::instrument::translator::mpi::recorder::MpiRecorder;
use crate::instrument::translator::relayout::hot_code::{Looks, PlacingSettings};
use crate::instrument::translator::sampling::access_buffer::AccessBuffer;
use crate::instrument::translator::sampling::burst_pace::Pace;
use crate::instrument::translator::sampling::bursts::{Bursts, take_records};
use crate::instrument::translator::sampling::windows::Windows;
use crate::instrument::translator::tracer::handoff::{Loans, is_to_be_lent};
use crate::instrument::translator::tracer::native::{Excursion, Uncounted};
use crate::instrument::translator::tracer::process::{Destination, Process};
use crate::instrument::translator::tracer::regions::Request;
use crate::instrument::translator::tracer::spin_budget::Patience;
use crate::instrument::translator::tracer::thread::Thread;
use crate::instrument::translator::translate::superblock::TranslateError;
use crate::instrument::turns::Turns;
use crate::profile::run::Warning;
use crate::tracee::affinity::{Seat, current_cpu};
use crate::tracee::proc_status::read_last_cpu;
use crate::tracee::remote::RemoteError;
use crate::tracee::thread::{Mode, Stopped, TraceError};
use crate::tracee::wait::{Event, Stop, Waited, wait_any, wait_any_or_signal, wait_for_soon};

/// How long descendants are still counted after the program's end before they are released.
const GRACE: Duration = Duration::from_secs(1);

/// Interval between two looks while nobody asks.
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);
/// How long polling continues without a request in visits: the program needs the CPU more.
const PATIENCE_OF_VISITS: Duration = Duration::from_micros(200);

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
    pub processes: HashMap<Pid, Process>,
    /// By process: its actions for the signals of rprof's traps.
    pub dispositions: HashMap<Pid, Dispositions>,
    /// By process that has set a limit on its address space.
    pub allowances: HashMap<Pid, Allowance>,
    /// By process that has filtered its system calls, or whose ancestor has.
    pub filters: HashMap<Pid, Filters>,
    /// New tasks that stopped before their parent's event announced them.
    pub orphans: HashMap<Pid, Stopped>,
    /// Events seen while waiting for another one.
    pub backlog: VecDeque<Event>,
    pub tally: Tally,
    pub roster: Roster,
    pub warnings: Vec<Warning>,
    pub first: Pid,
    /// Uncounted execution.
    pub uncounted: Uncounted,
    /// CPU seconds of the first process and of those that it waited for, once it has ended.
    pub family_cpu_s: Option<f64>,
    /// The receiver of addresses, if there is an access sink.
    pub drain: Option<AccessBuffer>,
    /// The receiver of bursts, if there is a burst sink.
    pub bursts: Option<Bursts>,
    /// The schedule of bursts.
    pub(crate) burst_pace: Pace,
    /// Finds the callers that allocate memory.
    pub askers: Askers,
    /// The marked regions that threads are in.
    pub marks: Marks,
    /// Calls of MPI.
    pub mpi: MpiRecorder,
    /// The windows in which addresses are recorded.
    pub windows: Windows,
    /// Time of the last report of executions to the access sink.
    pub told: Told,
    /// Code caches of address spaces that no longer exist, still to be added to the tally.
    pub finished: VecDeque<Arc<AtomicRefCell<CodeCache>>>,
    /// Seconds from the start of the run to its end.
    pub wall_s: f64,
    /// When to look for hot blocks.
    pub looks: Looks,
    /// Code caches that workers serve: their processes are missing in `processes`.
    pub(crate) loans: Loans,
    /// The program runs natively and is only visited (`visits`): its text stays executable, and it is never killed.
    pub visits: bool,
    /// Time that went into answers to threads that waited for them.
    pub waited: Duration,
    /// Threads whose stop could not be handled, and that are still in it.
    pub stuck: HashMap<Pid, Stop>,
    polling: bool,
    /// How long polling continues without a request.
    patience: Patience,
    /// The thread to look at next.
    turns: Turns,
    /// The CPU that rprof polls on: not the one of a thread that waits for it.
    seat: Seat,
}

impl Run {
    /// A run whose first process is `first`; see [`Translator`](crate::instrument::Translator) for the rest.
    pub fn new(
        first: Pid,
        (drain, bursts): (Option<AccessBuffer>, Option<Bursts>),
        placing: PlacingSettings,
        before_lent: Option<fn()>,
        visits: bool,
    ) -> Self {
        let seat = Seat::new();
        Run {
            threads: HashMap::new(),
            processes: HashMap::new(),
            dispositions: HashMap::new(),
            allowances: HashMap::new(),
            filters: HashMap::new(),
            orphans: HashMap::new(),
            backlog: VecDeque::new(),
            tally: Tally::new(),
            roster: Roster::new(),
            warnings: Vec::new(),
            first,
            uncounted: Uncounted::default(),
            family_cpu_s: None,
            askers: Askers::default(),
            marks: Marks::default(),
            mpi: MpiRecorder::default(),
            windows: Windows::new(drain.is_some() || bursts.is_some() || visits),
            burst_pace: Pace::new(),
            bursts,
            told: Told::default(),
            drain,
            finished: VecDeque::new(),
            wall_s: 0.0,
            looks: Looks::new(placing),
            loans: Loans::new(&seat, before_lent),
            visits,
            waited: Duration::ZERO,
            stuck: HashMap::new(),
            polling: false,
            patience: Patience::default(),
            turns: Turns::default(),
            seat,
        }
    }

    /// Runs until the first process has ended, and its descendants have ended or were released.
    pub fn follow(&mut self) -> Result<i32, CountError> {
        let mut status = None;
        let mut deadline: Option<Instant> = None;
        while let Some(event) = self.next_event(deadline)? {
            match event {
                Event::Ended(tid, ended, cpu_s) => {
                    self.ended(tid);
                    if tid == self.first {
                        self.family_cpu_s = cpu_s;
                        status = Some(ended);
                        deadline = Some(Instant::now() + GRACE);
                    }
                }
                Event::Stopped(stopped, stop) => {
                    let tid = stopped.tid();
                    match self.stopped(stopped, stop) {
                        Ok(()) | Err(RunError::Gone) => {}
                        Err(error) => {
                            kill_process_of(tid);
                            return Err(error.into());
                        }
                    }
                }
            }
        }
        self.wall_s = self.roster.now_s();
        self.bring_all_home();
        self.release_all();
        while self.finish_one() {}
        status.ok_or_else(|| CountError::Unsupported("its end was not seen".into()))
    }

    /// Waits for the next event and answers mailboxes meanwhile. `None`: no thread is left, or the deadline has passed.
    pub fn next_event(&mut self, deadline: Option<Instant>) -> Result<Option<Event>, CountError> {
        self.set_polling(true);
        let mut active = Instant::now();
        loop {
            self.look_after_loans()?;
            if let Some(event) = self.no_longer_put_off().or_else(|| self.backlog.pop_front()) {
                return Ok(Some(event));
            }
            if self.answer_all()? {
                active = Instant::now();
                self.patience.paid();
            } else if self.processes.values_mut().any(Process::translate_ahead)
                || !self.is_tracing() && self.work_of_sink()
            {
                active = Instant::now();
            }
            self.look_for_hot_blocks();
            if self.windows.is_time_to_look() {
                self.keep_pace();
            }
            if let Some(event) = self.backlog.pop_front().or_else(|| self.turns.look(self.threads.keys())) {
                match self.unless_lent(event) {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            if self.loans.are_awaited() {
                continue;
            }
            if self.threads.is_empty() && self.orphans.is_empty() && deadline.is_some() {
                return Ok(None);
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(None);
            }
            if active.elapsed() > if self.visits { PATIENCE_OF_VISITS } else { self.patience.get() } {
                // In visits, the wake-up of the windows ends the wait in time.
                if deadline.is_some() && !self.visits {
                    std::thread::sleep(BETWEEN_LOOKS);
                    continue;
                }
                self.seat.anywhere();
                self.patience.ended(Instant::now());
                self.set_polling(false);
                // Answers threads that asked before they could see that polling ended; later ones trap.
                fence(Ordering::SeqCst);
                if self.answer_all()? {
                    self.set_polling(true);
                    active = Instant::now();
                    continue;
                }
                match wait_any_or_signal() {
                    Waited::Event(event) => match self.unless_lent(event) {
                        Some(event) => return Ok(Some(event)),
                        None => self.set_polling(true),
                    },
                    Waited::Nobody => return Ok(None),
                    Waited::Interrupted => self.set_polling(true),
                }
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }

    pub fn set_polling(&mut self, polling: bool) {
        if self.polling != polling {
            self.polling = polling;
            self.processes.values().for_each(|p| p.image.space.borrow().set_polling(polling));
        }
    }

    /// A thread had to stop for an answer. If it waited in vain because rprof shares its CPU, rprof moves to another one.
    pub fn was_impatient(&mut self, tid: Pid) {
        if self.polling
            && let Some(cpu) = read_last_cpu(tid).filter(|&cpu| current_cpu() == Some(cpu))
        {
            self.seat.leave(cpu);
        }
        self.patience.missed(Instant::now());
    }

    /// Whether rprof polls the mailboxes, for new code caches.
    pub fn is_polling(&self) -> bool {
        self.polling
    }

    /// Answers every waiting mailbox; returns whether there was one.
    fn answer_all(&mut self) -> Result<bool, CountError> {
        let mut any = false;
        let mut full = Vec::new();
        let (mut drained, mut to_lend) = (false, Vec::new());
        for (&tid, thread) in &mut self.threads {
            let shared = thread.regions.clone();
            let regions = shared.borrow();
            let request = if thread.stalled { None } else { regions.request(thread.region) };
            let Some(Request { site, target }) = request else { continue };
            let Some(process) = self.processes.get(&thread.process) else { continue };
            any = true;
            if site == MARK {
                note_call(&mut self.marks, &mut self.mpi, process, thread);
                if thread.version.traces() {
                    self.bursts.iter_mut().for_each(Bursts::note_answer);
                }
                regions.respond(thread.region, target.get());
                continue;
            }
            let now = Instant::now();
            if !thread.version.collects()
                && is_to_be_lent(self.processes.values(), process, now)
                && self.loans.has_room(to_lend.len())
            {
                to_lend.push(thread.process);
                continue;
            }
            let Some(process) = self.processes.get_mut(&thread.process) else { continue };
            process.asked = Some(now);
            if site == DRAIN {
                drop(regions);
                take_records(&mut self.drain, &mut self.bursts, &process.image.space.borrow(), thread);
                drained = true;
                thread.regions.borrow().respond(thread.region, target.get());
                continue;
            }
            if thread.version.traces() {
                self.bursts.iter_mut().for_each(Bursts::note_answer);
            }
            match process.answer(thread.version, site, target, Some(&mut self.tally)) {
                Ok(destination) => {
                    if let Destination::Native(at) = destination {
                        let why = process.untranslated(at);
                        thread.native = Some(Excursion::begin(tid, why));
                        self.uncounted.note(why);
                        if thread.version.traces()
                            && let Some(bursts) = &mut self.bursts
                        {
                            bursts.drain(&process.image.space.borrow(), thread);
                            bursts.end(thread.ordinal);
                        }
                    }
                    regions.respond(thread.region, destination.get());
                }
                Err(TranslateError::Full) => full.push(tid),
                Err(error) => return Err(CountError::Unsupported(error.to_string())),
            }
            self.waited += now.elapsed();
        }
        to_lend.into_iter().for_each(|process| self.lend(process));
        for tid in full {
            self.stall(tid);
        }
        if drained {
            self.keep_pace();
        }
        Ok(any)
    }

    /// The code cache is full: the thread must stop so that another arena can be mapped.
    fn stall(&mut self, tid: Pid) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.stalled = true;
            // If it is gone, its end will be seen.
            let _ = thread.running(tid).interrupt();
        }
    }

    /// The process of a thread, and the tally.
    pub fn process(&mut self, tid: Pid) -> Result<(&mut Process, &mut Tally), RunError> {
        let pid = self.threads.get(&tid).ok_or(RunError::Gone)?.process;
        Ok((self.processes.get_mut(&pid).ok_or(RunError::Gone)?, &mut self.tally))
    }

    /// Resumes a thread in `mode` until a stop for which `wanted` holds; keeps signals on the way for later.
    pub fn until(
        &mut self,
        stopped: Stopped,
        mode: Mode,
        signal: i32,
        wanted: impl Fn(&Stop) -> bool,
    ) -> Result<(Stopped, Stop), RunError> {
        let tid = stopped.tid();
        stopped.resume_raw(mode, signal)?;
        loop {
            match wait_for_soon(tid) {
                Some(Event::Stopped(stopped, stop)) if wanted(&stop) => return Ok((stopped, stop)),
                Some(Event::Stopped(stopped, Stop::Signal(signal))) => {
                    let info = stopped.signal_info()?;
                    if let Some(thread) = self.threads.get_mut(&tid) {
                        thread.defer(signal, info);
                    }
                    stopped.resume(mode, None)?;
                }
                Some(Event::Stopped(stopped, stop @ Stop::Exit)) => {
                    self.backlog.push_back(Event::Stopped(stopped, stop));
                    return Err(RunError::Gone);
                }
                Some(Event::Stopped(stopped, _)) => {
                    stopped.resume(mode, None)?;
                }
                Some(event @ Event::Ended(..)) => {
                    self.backlog.push_back(event);
                    return Err(RunError::Gone);
                }
                None => return Err(RunError::Gone),
            }
        }
    }

    /// Lets all remaining threads run on natively.
    fn release_all(&mut self) {
        let left: Vec<Pid> = self.threads.keys().copied().collect();
        for tid in left {
            self.release(tid);
        }
    }

    /// Kills all remaining processes and waits for their ends.
    pub fn end_all(&mut self) {
        let groups = self.threads.values().map(|t| t.group);
        groups.chain([self.first]).for_each(kill_process_of);
        std::mem::take(&mut self.orphans).into_keys().for_each(kill_process_of);
        let seen = std::mem::take(&mut self.loans.put_off).into_iter().chain(std::mem::take(&mut self.backlog));
        for event in seen.chain(std::iter::from_fn(|| wait_any(true))) {
            if let Event::Stopped(stopped, _) = event {
                // Tasks that began meanwhile, or that rprof lost sight of, must end as well.
                kill_process_of(stopped.tid());
                let _ = stopped.resume(Mode::Continue, None);
            }
        }
    }
}

/// Kills the process of a thread that rprof traces; it may be gone already.
pub(crate) fn kill_process_of(tid: Pid) {
    let _ = nix::sys::signal::kill(Run::process_of(tid), nix::sys::signal::Signal::SIGKILL);
}
