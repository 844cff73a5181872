//! The translator: executes the program from a code cache in its own address space and counts its blocks in line.
//!
//! ```text
//!  visits ─▶ tracer ─▶ kernel    images, signals, the program's state at a cache address
//!               │  ├──▶ counts    from counters to the tally
//!               │  ├──▶ sampling  windows and bursts: records ─▶ sinks
//!               │  └──▶ program   processes and threads: a request ─▶ where control continues
//!               │           ├───▶ relayout    hot blocks again: order, inlined leaves, usual targets, huge pages
//!               │           └───▶ translate   text ─▶ decoded block ─▶ emitted block, probes, links
//!               │                     └─────▶ code_cache   blocks, exits, lookups, counters, shared memory
//!               │─── effects     calls that a run which repeats another one may not make
//!               └─ event_loop ─▶ stops ─▶ tasks (begin, exec, end), signals, system_calls
//!                      └▶ mailboxes; handoff ─▶ workers: the same for a second code cache
//! ```
//!
//! The program's text is readable but not executable: a thread that leaves the cache faults, and comes back. Return addresses on
//! the stack are the program's own (`translate/returns`). Exits are linked as their targets are translated; indirect ones look
//! the target up in line. A thread that needs a translation asks through a mailbox, or by a trap when rprof does not poll.

mod blas;
mod calls;
mod code_cache;
mod counts;
pub mod effects;
mod kernel;
mod mpi;
mod program;
mod relayout;
mod sampling;
mod tracer;
mod translate;
pub mod visits;

use std::time::SystemTime;

use super::cpuid::FixedCpuid;
use super::start::start_traced;
use super::{CountError, Counted, CountingEngine};
use effects::Effects;
pub use kernel::crash;
pub use relayout::hot_code::PlacingSettings;
use rprof_profile::evidence::bursts::BurstSink;
use rprof_profile::evidence::counted::CountedEvidence;
use rprof_profile::evidence::memory::AccessSink;
use rprof_tracee::launch::Gated;
use sampling::access_buffer::AccessBuffer;
use sampling::bursts::Bursts;
use tracer::run::Run;

/// The translator.
#[derive(Debug, Default)]
pub struct Translator {
    /// When and how hot blocks are relaid out.
    pub placing: PlacingSettings,
    /// The run repeats the one that began then: it ends before its first call that would have an effect twice.
    pub repeats: Option<SystemTime>,
    /// What `cpuid` answers the program in place of the host.
    pub cpuid: Option<FixedCpuid>,
    /// Called by each worker when it takes up the mailboxes of a code cache: for tests of concurrent work.
    pub before_handoff: Option<fn()>,
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
        program::heap::prepare();
        let first = start_traced(child)?;
        let sinks = (sink.map(AccessBuffer::new), bursts.map(Bursts::new));
        let mut run = Run::new(first, sinks, self.placing, self.before_handoff, false);
        run.program.effects = self.repeats.map(Effects::since);
        run.cpuid = self.cpuid.clone();
        let status = run.follow();
        if status.is_err() {
            run.end_all();
        }
        let changed_files = run.take_effects_back();
        let status = status?;
        let mut evidence = CountedEvidence {
            source: "translator".into(),
            wall_s: run.evidence.wall_s,
            warnings: std::mem::take(&mut run.evidence.warnings),
            ..CountedEvidence::default()
        };
        evidence.modules = std::mem::take(&mut *run.program.modules.lock()).finish();
        let (blocks, in_regions) = std::mem::take(&mut run.evidence.tally).finish();
        evidence.blocks = blocks;
        evidence.marks = std::mem::take(&mut run.recorded.marks).finish(in_regions);
        (evidence.mpi, evidence.blas) = std::mem::take(&mut run.recorded.calls).finish();
        evidence.warnings.extend(run.evidence.roster.doubt());
        let (threads, followed_s) = std::mem::take(&mut run.evidence.roster).finish();
        let (cpu_s, share, doubts) = run.evidence.sum_up_uncounted(followed_s);
        (evidence.threads, evidence.cpu_s, evidence.uncounted_share) = (threads, cpu_s, share);
        evidence.warnings.extend(doubts);
        evidence.denormals = Some(run.evidence.denormals);
        evidence.missing = run.evidence.uncounted.missing();
        let memory = run.recorded.samples.drain.map(AccessBuffer::finish);
        let bursts = run.recorded.samples.bursts.map(Bursts::finish);
        let ended_before = run.evidence.ended_before.take();
        Ok(Counted { status, evidence, memory, bursts, ended_before, changed_files })
    }
}
