//! Feeds access streams to a model and sums its evidence.

use crate::kernels;
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, MemoryEvidence, Traffic};

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

/// Evidence of one kernel.
pub fn simulate(sink: impl AccessSink + 'static, run: fn(kernels::Emit)) -> MemoryEvidence {
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
