//! A sink that keeps bursts, and an engine that has one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rprof::instrument::{CountError, Counted, CountingEngine, Translator};
use rprof::profile::evidence::bursts::{BurstEvidence, BurstSink, TraceEntry, TracedBlock};
use rprof::profile::evidence::memory::AccessSink;
use rprof::tracee::launch::Gated;

/// Recorded blocks and bursts.
#[derive(Debug, Default)]
pub struct Recorded {
    pub blocks: Vec<TracedBlock>,
    /// (thread, entries), in the order in which they ended.
    pub bursts: Vec<(u32, Vec<TraceEntry>)>,
    pub finished: bool,
}

/// Keeps bursts of about `entries` entries, or one of everything.
struct Keeper {
    entries: usize,
    is_continuous: bool,
    open: HashMap<u32, Vec<TraceEntry>>,
    recorded: Arc<Mutex<Recorded>>,
}

impl BurstSink for Keeper {
    fn block(&mut self, number: u32, block: TracedBlock) {
        let mut recorded = self.recorded.lock().unwrap();
        assert_eq!(number as usize, recorded.blocks.len(), "numbers count up");
        assert!(!block.code.is_empty());
        recorded.blocks.push(block);
    }

    fn begin(&mut self, thread: u32) {
        assert!(self.open.insert(thread, Vec::new()).is_none(), "thread {thread} is in a burst");
    }

    fn record(&mut self, thread: u32, entries: &[TraceEntry]) {
        let blocks = self.recorded.lock().unwrap().blocks.len();
        let burst = self.open.get_mut(&thread).expect("its burst has begun");
        burst.extend_from_slice(entries);
        assert!(matches!(burst.first(), None | Some(TraceEntry::Block(_))), "a block comes first");
        let known = |e: &TraceEntry| !matches!(e, TraceEntry::Block(number) if *number as usize >= blocks);
        assert!(entries.iter().all(known), "blocks are introduced before");
    }

    fn goes_on(&self, thread: u32) -> bool {
        self.open.get(&thread).is_some_and(|burst| self.is_continuous || burst.len() < self.entries)
    }

    fn is_continuous(&self) -> bool {
        self.is_continuous
    }

    fn end(&mut self, thread: u32) {
        let burst = self.open.remove(&thread).expect("its burst has begun");
        self.recorded.lock().unwrap().bursts.push((thread, burst));
    }

    fn finish(self: Box<Self>) -> BurstEvidence {
        assert!(self.open.is_empty(), "all bursts are over");
        self.recorded.lock().unwrap().finished = true;
        BurstEvidence::default()
    }
}

/// The translator with a sink of bursts.
pub struct Traced {
    entries: usize,
    is_continuous: bool,
    pub recorded: Arc<Mutex<Recorded>>,
}

impl Traced {
    /// An engine with bursts of about `entries` entries.
    pub fn new(entries: usize) -> Self {
        Traced { entries, is_continuous: false, recorded: Arc::default() }
    }

    /// An engine that records all that a program does.
    pub fn continuous() -> Self {
        Traced { entries: usize::MAX, is_continuous: true, recorded: Arc::default() }
    }

    /// Returns the records; the run is over.
    pub fn recorded(&self) -> Recorded {
        let recorded = std::mem::take(&mut *self.recorded.lock().unwrap());
        assert!(recorded.finished);
        recorded
    }
}

impl CountingEngine for Traced {
    fn run(
        &mut self,
        child: Gated,
        sink: Option<Box<dyn AccessSink>>,
        _: Option<Box<dyn BurstSink>>,
    ) -> Result<Counted, CountError> {
        let recorded = self.recorded.clone();
        let keeper =
            Keeper { entries: self.entries, is_continuous: self.is_continuous, open: HashMap::new(), recorded };
        Translator::new().run(child, sink, Some(Box::new(keeper)))
    }
}
