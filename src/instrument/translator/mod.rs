//! The translator: executes the program from a code cache in its own address space and counts its blocks in line.
//!
//! ```text
//!  run ─▶ stops ─▶ tasks     begin, exec, end          unit ─▶ source (decode) ─▶ rewrite, emit ─▶ arena
//!    │          ├▶ signals   state at a cache address    ▲            │
//!    │          └▶ mapping   text that comes and goes    │            └▶ space: blocks, exits, links, lookups
//!    └▶ mailboxes ───────────▶ process ──────────────────┘ ▲                └▶ harvest ─▶ tally
//!    └▶ windows, tracing ─▶ version     threads note addresses (drain), or all that they do for a short while (bursts)
//!    └▶ loans ─▶ workers: the same for a second code space │
//!         once it is known what is hot: placing ─▶ chains ─┘   then: huge
//!                                          └▶ usual: where its indirect jumps and calls go; heads: what lookups find first
//! ```
//!
//! The program's text is readable but not executable: whatever leaves the cache faults, and comes back. Return addresses
//! on the stack are the program's own (`returns`). Exits are linked as their targets are translated; indirect ones look the target
//! up in line. A thread that needs a translation asks through a mailbox, or by a trap when nobody polls.

mod address_space;
mod ahead;
mod allocations;
mod arena;
mod block;
mod burst_pace;
mod bursts;
mod calls;
mod chains;
mod chunks;
mod copies;
mod course;
pub mod crash;
mod dispositions;
mod drain;
mod endings;
mod flow;
mod harvest;
mod hash;
mod heads;
mod heap;
mod hold;
mod huge;
mod inject;
mod layout;
mod leaves;
mod loans;
mod loops;
mod mapping;
mod marks;
mod native;
mod parked;
mod patience;
mod placing;
mod probes;
mod process;
mod records;
mod regions;
mod relatives;
mod returns;
mod room;
mod run;
mod settle;
mod shared;
mod signals;
mod source;
mod space;
mod stops;
mod stubs;
mod system;
mod tasks;
mod text;
mod thread;
mod totals;
mod traces;
mod tracing;
mod unit;
mod unseen;
mod usual;
mod version;
mod windows;
mod workers;
mod writer;

use super::start::start_traced;
use super::{CountError, Counted, CountingEngine};
use crate::profile::evidence::bursts::BurstSink;
use crate::profile::evidence::counted::CountedEvidence;
use crate::profile::evidence::memory::AccessSink;
use crate::tracee::launch::Gated;
use bursts::Bursts;
use drain::Drain;
pub use placing::PlacingSettings;
use run::Run;

/// The translator.
#[derive(Debug, Default)]
pub struct Translator {
    /// When hot blocks are placed together, and how.
    pub placing: PlacingSettings,
    /// Called by each worker when it takes up the mailboxes of a code space: for tests of what goes on beside it.
    pub before_lent: Option<fn()>,
}

impl Translator {
    /// With its usual settings.
    pub fn new() -> Self {
        Self::default()
    }
}

impl CountingEngine for Translator {
    fn run(
        &mut self,
        child: Gated,
        sink: Option<Box<dyn AccessSink>>,
        bursts: Option<Box<dyn BurstSink>>,
    ) -> Result<Counted, CountError> {
        heap::prepare();
        let first = start_traced(child)?;
        let sinks = (sink.map(Drain::new), bursts.map(Bursts::new));
        let mut run = Run::new(first, sinks, self.placing, self.before_lent);
        let status = run.follow();
        if status.is_err() {
            run.end_all();
        }
        let status = status?;
        let mut evidence = CountedEvidence {
            source: "translator".into(),
            wall_s: run.wall_s,
            warnings: std::mem::take(&mut run.warnings),
            ..CountedEvidence::default()
        };
        let in_regions = std::mem::take(&mut run.tally).finish(&mut evidence);
        evidence.marks = std::mem::take(&mut run.marks).finish(in_regions);
        evidence.warnings.extend(run.roster.doubt());
        let (threads, followed_s) = std::mem::take(&mut run.roster).finish();
        let (cpu_s, share, doubts) = run.sum_up_uncounted(followed_s);
        (evidence.threads, evidence.cpu_s, evidence.uncounted_share) = (threads, cpu_s, share);
        evidence.warnings.extend(doubts);
        let memory = run.drain.map(Drain::finish);
        let bursts = run.bursts.map(Bursts::finish);
        Ok(Counted { status, evidence, memory, bursts })
    }
}
