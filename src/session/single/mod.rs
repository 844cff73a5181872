//! The single pass: one run, native and sampled for most of the time, counted in short windows.
//!
//! ```text
//!  sampler thread   release ─▶ samples ······················································▶ reaped
//!  visitor thread             pace ─▶ visit ─▶ pace ─▶ visit ─▶ …                              └▶ windows
//! ```
//!
//! A sampler that traces the program (by ptrace) lends it for each visit.

mod meeting;
mod pace;
mod tree;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::unistd::Pid;

use crate::instrument::Counted;
use crate::instrument::translator::visits::{Ended, Refused, Visitor};
use crate::profile::evidence::bursts::BurstSink;
use crate::profile::evidence::memory::AccessSink;
use crate::profile::evidence::windows::Window;
use crate::sample::{Gate, Reaping, USUAL_SHARE};
use crate::session::options::{Budget, CollectedPart, RunOptions};
use crate::tracee::clock::{monotonic_ns, process_cpu_time};
use crate::tracee::{foreground, own_limits};

use pace::Pace;
use tree::Tree;

/// Longest time between two looks at whether the program has ended.
const LOOK: Duration = Duration::from_millis(5);
/// After this number of visits in a row that could take nothing though the program used CPU time, visits become rare.
const HOPELESS: u32 = 20;
/// Seconds between such visits.
const SELDOM_S: f64 = 0.25;
/// CPU time that is kept for the report, if the kernel limits rprof's own.
const RESERVE: Duration = Duration::from_secs(10);
/// Share of the program's time that a sampler by perf events takes at its usual frequency, copies of stacks included.
const PERF_SHARE: f64 = 0.012;

/// The sinks of the visits.
pub struct Sinks {
    /// Of addresses.
    pub accesses: Option<Box<dyn AccessSink>>,
    /// Of bursts.
    pub bursts: Option<Box<dyn BurstSink>>,
}

/// The result of all visits.
#[derive(Debug)]
pub struct Visited {
    /// The counts of all windows together, and the evidence of the sinks.
    pub counted: Counted,
    /// The windows.
    pub windows: Vec<Window>,
    /// Processes that could not be visited, each reason once.
    pub refused: Vec<Refused>,
    /// Stretches in which nothing was to be collected, in nanoseconds of CLOCK_MONOTONIC.
    pub off: Vec<(u64, u64)>,
    /// Seconds by which the visits have delayed the program.
    pub delay_s: f64,
}

/// The part of the run in which the program is visited, in seconds from its beginning.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// The part that the user asked for; outside nothing is collected.
    collected: CollectedPart,
    /// Visits begin here. Samples are taken before.
    visited_from_s: f64,
}

impl Span {
    /// The part that `options` ask for.
    pub fn of(options: &RunOptions) -> Self {
        Span { collected: options.collected, visited_from_s: options.collected.from_s.unwrap_or(0.0) }
    }

    /// Its later part: visits from `from_s` on.
    pub fn from(self, from_s: f64) -> Self {
        Span { visited_from_s: self.visited_from_s.max(from_s), ..self }
    }

    /// Whether anything is collected at `now_s`.
    fn is_collected(self, now_s: f64) -> bool {
        let CollectedPart { from_s, to_s } = self.collected;
        from_s.is_none_or(|from_s| now_s >= from_s) && to_s.is_none_or(|to_s| now_s < to_s)
    }
}

/// Visits a running program on a thread of its own until `gate` says that it is over.
pub fn start(first: Program, gate: Gate, sinks: Sinks, budget: Budget, span: Span) -> JoinHandle<Visited> {
    std::thread::spawn(move || visit_until_the_end(first, &gate, sinks, budget, span))
}

/// The first process of a program.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    /// This process started it.
    Child {
        /// The process.
        pid: Pid,
        /// Its rank and how many there are, if a launcher started it.
        launched: Option<(u32, u32)>,
    },
    /// It ran before.
    Found(Pid),
}

fn visit_until_the_end(first: Program, gate: &Gate, sinks: Sinks, budget: Budget, span: Span) -> Visited {
    let visitor = Visitor::new(sinks.accesses, sinks.bursts);
    let first_of = first;
    let (first, launched, mut visitor) = match first {
        Program::Child { pid, launched } => (pid, launched, visitor.of_a_child()),
        Program::Found(pid) => (pid, None, visitor),
    };
    if let Some(rank) = launched {
        visitor = visitor.of_rank(rank);
    }
    while !gate.has_begun() && !gate.is_over() {
        std::thread::sleep(LOOK);
    }
    let mut refused: Vec<Refused> = Vec::new();
    if !gate.has_begun() {
        refused.push(Refused { pid: first, why: "rprof may not trace it".into() });
    }
    let begun = Instant::now();
    let of_sampler =
        if gate.is_sampler_tracing() { sampler_share(budget.share) } else { PERF_SHARE.min(budget.share / 2.0) };
    let visits = Budget { share: budget.share - of_sampler, ..budget };
    let mut pace = Pace::new(visits, budget.share, monotonic_ns());
    if let Program::Child { .. } = first_of {
        pace = pace.of_new_program(span.visited_from_s);
    }
    if launched.is_some()
        && let Ok(began) = SystemTime::now().duration_since(UNIX_EPOCH)
    {
        pace = pace.of_rank(began.as_secs_f64());
    }
    let mut tree = Tree::new(first);
    let mut off = Off::default();
    let mut in_vain = 0;
    while !gate.is_over() {
        let left_s = pace.next_s() - begun.elapsed().as_secs_f64();
        let is_off = foreground::toggles() % 2 == 1 || !span.is_collected(begun.elapsed().as_secs_f64());
        off.note(is_off);
        if left_s > 0.0 || visitor.is_owed() || is_off {
            if visitor.is_owed() {
                let mut reaping = gate.reaping();
                note_end(&visitor.settle(), first, &mut reaping);
            }
            std::thread::sleep(LOOK.min(Duration::from_secs_f64(left_s.clamp(0.0, 1.0))));
            continue;
        }
        if let Some(limit) = own_limits::own_cpu_limit()
            && process_cpu_time() + RESERVE.min(limit / 3) > limit
        {
            let why = "rprof itself has used up most of the CPU time that it may have (ulimit -t)";
            note(&mut refused, Some(Refused { pid: first, why: why.into() }));
            break;
        }
        let now_s = begun.elapsed().as_secs_f64();
        let look = tree.look();
        let tracer = visitor.tracer_among(&look.family, &look.busy);
        if look.busy.is_empty() || tracer.is_some() {
            note(&mut refused, tracer);
            pace.put_off(now_s, 0.0);
            continue;
        }
        let length = pace.length(now_s);
        let addresses = pace.records_addresses();
        let pids = look.busy;
        let mut turn = gate.turn(&pids);
        if gate.is_over() {
            break;
        }
        let visit = catch_unwind(AssertUnwindSafe(|| visitor.visit(&pids, length, addresses)));
        let mut visit = match visit {
            Ok(visit) => visit,
            Err(defect) => {
                // Whatever went wrong, the program goes on, and the sampler may wait for it again.
                visitor.abandon();
                drop(turn);
                resume_unwind(defect)
            }
        };
        note_end(&visit.ended, first, &mut turn.reaping);
        visit.stopped_s += turn.stopped.as_secs_f64();
        drop(turn);
        pace.paid(begun.elapsed().as_secs_f64(), &visit);
        in_vain = if visit.counted { 0 } else { in_vain + 1 };
        if in_vain >= HOPELESS {
            pace.put_off(begun.elapsed().as_secs_f64(), SELDOM_S);
        }
        note(&mut refused, visit.refused);
    }
    let (counted, windows) = visitor.finish();
    off.note(false);
    Visited { counted, windows, refused, off: off.stretches, delay_s: pace.paid_s() }
}

/// Hands the end of the `first` process to the sampler, if a visit saw it.
fn note_end(ended: &[Ended], first: Pid, reaping: &mut Reaping<'_>) {
    if let Some(end) = ended.iter().find(|ended| ended.pid == first) {
        reaping.ended(end.status, end.cpu_s);
    }
}

/// The part of `budget` that a sampler by ptrace may take: windows have the rest, at least half. Without windows it has its usual share.
pub fn sampler_share(budget: f64) -> f64 {
    if budget > 0.0 { USUAL_SHARE.min(budget / 2.0) } else { USUAL_SHARE }
}

/// Notes each new reason.
fn note(refused: &mut Vec<Refused>, more: impl IntoIterator<Item = Refused>) {
    for new in more {
        if refused.iter().all(|known| known.why != new.why) {
            refused.push(new);
        }
    }
}

/// Stretches in which nothing was to be collected.
#[derive(Debug, Default)]
struct Off {
    since_ns: Option<u64>,
    stretches: Vec<(u64, u64)>,
}

impl Off {
    fn note(&mut self, is_off: bool) {
        match (self.since_ns, is_off) {
            (None, true) => self.since_ns = Some(monotonic_ns()),
            (Some(since), false) => {
                self.stretches.push((since, monotonic_ns()));
                self.since_ns = None;
            }
            _ => {}
        }
    }
}
