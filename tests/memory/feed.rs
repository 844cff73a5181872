//! Feeds access streams to a model and sums its evidence.

use std::collections::HashMap;

use crate::kernels;
use rprof::isa::facts::AccessKind;
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{
    Access, AccessSink, Amount, Collection, Executed, MemoryEvidence, Phase, Traffic, selected,
};

/// Length of a pause between two windows, in units of the time that most accesses take.
const PAUSE: u64 = 20_000_000;

/// Feeds one thread's accesses in batches.
pub struct Feed {
    sink: Box<dyn AccessSink>,
    batch: Vec<Access>,
}

impl Feed {
    /// Feeds `sink`.
    pub fn new(sink: impl AccessSink + 'static) -> Self {
        Feed { sink: Box::new(sink), batch: Vec::new() }
    }

    /// One access of thread 0.
    pub fn access(&mut self, access: Access) {
        self.batch.push(access);
        if self.batch.len() == 4096 {
            self.sink.record(0, 1, &self.batch);
            self.batch.clear();
        }
    }

    /// Batches of several threads.
    pub fn record(&mut self, thread: u32, batch: &[Access]) {
        self.sink.record(thread, 1, batch);
    }

    /// Ends the run; the site's number is its offset.
    pub fn finish(mut self) -> MemoryEvidence {
        self.sink.record(0, 1, &self.batch);
        let sites: Vec<CodeRef> = (0..1024).map(|offset| CodeRef { module: 0, offset }).collect();
        self.sink.finish(&sites)
    }
}

/// Evidence of one kernel from an engine that leaves out accesses which the sink does not want, as the translator does.
pub fn simulate_selecting(sink: impl AccessSink + 'static, run: impl FnOnce(kernels::Emit)) -> MemoryEvidence {
    simulate_timed(sink, run, |_| 1)
}

/// The same for a kernel with accesses that take the time that `time` gives: pauses are measured in time, windows in
/// accesses.
pub fn simulate_timed(
    sink: impl AccessSink + 'static,
    run: impl FnOnce(kernels::Emit),
    time: fn(&Access) -> u64,
) -> MemoryEvidence {
    let mut sink: Box<dyn AccessSink> = Box::new(sink);
    let mut batch = Vec::new();
    let mut executed: HashMap<(u32, Phase, AccessKind), (u64, u64)> = HashMap::new();
    let mut phase = Phase::Opening;
    let mut since: HashMap<(u32, Phase), u64> = HashMap::new();
    let mut paused = 0u64;
    let mut collection = sink.collect(0);
    run(&mut |access| {
        let of_site = executed.entry((access.site, phase, access.kind)).or_default();
        *of_site = (of_site.0 + 1, of_site.1 + u64::from(access.bytes));
        *since.entry((access.site, phase)).or_default() += 1;
        if phase == Phase::Pause {
            paused += time(&access);
            if paused >= PAUSE {
                paused = 0;
                sink.end_phase();
                phase = sink.phase();
                sink.enter(0, phase);
                collection = sink.collect(0);
            }
            return;
        }
        if access.bytes > 64 || selected(access.address, collection.mask()) {
            batch.push(access);
        }
        if batch.len() == 4096 {
            hand_over(sink.as_mut(), collection, &batch);
            batch.clear();
            if phase != Phase::Measuring && sink.phase() == Phase::Measuring {
                let amount = |((site, phase), amount)| Amount { site, phase, amount, strings: false };
                sink.deltas(&since.drain().map(amount).collect::<Vec<_>>());
            }
            phase = sink.phase();
            sink.enter(0, phase);
            collection = sink.collect(0);
        }
    });
    if !batch.is_empty() {
        hand_over(sink.as_mut(), collection, &batch);
    }
    for ((site, phase, kind), (accesses, bytes)) in executed {
        sink.executed(Executed { thread: 0, site, phase, kind, accesses, bytes, strings: false });
    }
    let sites: Vec<CodeRef> = (0..16).map(|offset| CodeRef { module: 0, offset }).collect();
    sink.finish(&sites)
}

fn hand_over(sink: &mut dyn AccessSink, collection: Collection, batch: &[Access]) {
    match collection {
        Collection::All => sink.record(0, 1, batch),
        Collection::Selected { .. } => sink.record_selected(0, 1, batch),
    }
}

/// Evidence of one kernel, every access recorded.
pub fn simulate(sink: impl AccessSink + 'static, run: impl FnOnce(kernels::Emit)) -> MemoryEvidence {
    let mut feed = Feed::new(sink);
    run(&mut |access| feed.access(access));
    feed.finish()
}

/// Sum of `figure` over the sites and threads that `which` admits.
pub fn sum(evidence: &MemoryEvidence, which: impl Fn(u64, u32) -> bool, figure: impl Fn(&Traffic) -> f64) -> f64 {
    evidence.sites.iter().filter(|s| which(s.at.offset, s.thread)).map(|s| figure(&s.traffic)).sum()
}

/// Sum of `figure` over everything.
pub fn total(evidence: &MemoryEvidence, figure: impl Fn(&Traffic) -> f64) -> f64 {
    sum(evidence, |_, _| true, figure)
}

/// DRAM bytes, both directions.
pub fn dram(evidence: &MemoryEvidence) -> f64 {
    total(evidence, |t| t.dram_read + t.dram_write)
}
