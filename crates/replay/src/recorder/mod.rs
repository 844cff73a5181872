//! Recording bursts: warms up a branch predictor and caches, then keeps a stretch with their predictions and hits.
//!
//! ```text
//!  entries ─▶ predictor (state kept from burst to burst) ─┐
//!          ─▶ caches, TLBs (emptied for each burst)      ─┴─▶ after the warm-up: steps and accesses ─▶ a spread of bursts
//! ```

mod caches;
mod direction;
mod history;
mod kept;
mod predictor;
mod shape;
mod targets;
mod whole;

use rprof_profile::evidence::bursts::{
    Burst, BurstAccess, BurstEvidence, BurstSink, BurstStep, Prediction, TraceEntry, TracedBlock,
};
use rprof_profile::machine::{Cache, Machine};

use caches::Caches;
use kept::Kept;
use predictor::Predictor;
use shape::Shape;

pub use whole::{Places, WholeRun};

/// Instructions of a burst before its measured part: L1, translation buffers and predictor are warm by then.
pub const WARM_UP: u32 = 60_000;
/// Instructions of the measured part.
pub const MEASURED: u32 = 20_000;
/// Instructions of the measured part that only fill the pipeline.
pub const LEAD_IN: u32 = 4_000;
/// Outcomes that the predictor learns if the machine's `predictor.outcomes` is missing: the value of an Intel core of 2024.
const OUTCOMES: f64 = 8192.0;
/// Fewer instructions than this behind the lead-in are not worth keeping.
const LEAST: u32 = 4_000;

/// Keeps bursts for the core model.
pub struct Recorder {
    caches: Vec<Cache>,
    /// Outcomes of one branch that the predictor learns.
    outcomes: f64,
    blocks: Vec<TracedBlock>,
    shapes: Vec<Shape>,
    threads: Vec<Option<Box<Thread>>>,
    kept: Kept,
    warm_up: u32,
}

/// A thread of the program.
struct Thread {
    predictor: Predictor,
    caches: Caches,
    /// The block that began last.
    block: Option<u32>,
    /// Instructions of this burst.
    executed: u32,
    burst: Burst,
    recording: bool,
}

impl Thread {
    fn new(caches: &[Cache], outcomes: f64) -> Thread {
        Thread {
            predictor: Predictor::new(outcomes),
            caches: Caches::new(caches),
            block: None,
            executed: 0,
            burst: Burst::default(),
            recording: false,
        }
    }
}

impl Recorder {
    /// A recorder for `machine`: its data caches, and how much its branch predictor learns.
    pub fn new(machine: &Machine) -> Recorder {
        Recorder {
            caches: machine.caches.clone(),
            outcomes: machine.ceiling("predictor.outcomes", 1).and_then(|ceiling| ceiling.value).unwrap_or(OUTCOMES),
            blocks: Vec::new(),
            shapes: Vec::new(),
            threads: Vec::new(),
            kept: Kept::default(),
            warm_up: WARM_UP,
        }
    }

    /// The same with another length of the warm-up, in instructions.
    pub fn warm_up(self, instructions: u32) -> Recorder {
        Recorder { warm_up: instructions, ..self }
    }

    fn thread(&self, thread: u32) -> Option<&Thread> {
        self.threads.get(thread as usize)?.as_deref()
    }
}

impl BurstSink for Recorder {
    fn block(&mut self, number: u32, block: TracedBlock) {
        let number = number as usize;
        if self.blocks.len() <= number {
            let empty = TracedBlock { at: block.at, start: 0, code: Vec::new() };
            self.blocks.resize(number + 1, empty);
            self.shapes.resize(number + 1, Shape::default());
        }
        self.shapes[number] = Shape::new(&block);
        self.blocks[number] = block;
    }

    fn begin(&mut self, thread: u32) {
        let number = thread as usize;
        if self.threads.len() <= number {
            self.threads.resize_with(number + 1, || None);
        }
        let (caches, outcomes) = (&self.caches, self.outcomes);
        let state = self.threads[number].get_or_insert_with(|| Box::new(Thread::new(caches, outcomes)));
        state.caches.empty();
        (state.block, state.executed) = (None, 0);
        state.burst = Burst { thread, lead_in: LEAD_IN, ..Burst::default() };
        state.recording = self.kept.begin();
    }

    fn record(&mut self, thread: u32, entries: &[TraceEntry]) {
        let Some(Some(state)) = self.threads.get_mut(thread as usize) else { return };
        let enough = self.warm_up + MEASURED;
        if !state.recording {
            return;
        }
        for entry in entries {
            match entry {
                TraceEntry::Block(number) => {
                    let Some(shape) = self.shapes.get(*number as usize) else { continue };
                    if let Some(before) = state.block {
                        let was = &self.shapes[before as usize];
                        let branch = state.predictor.meet(was.ending, was.last, was.end, shape.start);
                        if let (true, Some(step)) = (branch != Prediction::Right, state.burst.steps.last_mut()) {
                            step.branch = branch;
                        }
                    }
                    if state.executed >= enough {
                        state.block = None;
                        break;
                    }
                    if state.executed >= self.warm_up {
                        let first_access = state.burst.accesses.len() as u32;
                        let branch = Prediction::Right;
                        state.burst.steps.push(BurstStep { block: *number, first_access, branch });
                    }
                    state.executed += shape.instructions;
                    state.block = Some(*number);
                }
                TraceEntry::Access(access) => {
                    let (found, translation) = state.caches.meet(access);
                    if !state.burst.steps.is_empty() {
                        state.burst.accesses.push(BurstAccess { access: *access, found, translation });
                    }
                }
            }
        }
    }

    fn goes_on(&self, thread: u32) -> bool {
        self.thread(thread).is_some_and(|state| state.recording && state.executed < self.warm_up + MEASURED)
    }

    fn end(&mut self, thread: u32) {
        let Some(Some(state)) = self.threads.get_mut(thread as usize) else { return };
        let burst = std::mem::take(&mut state.burst);
        let recording = std::mem::replace(&mut state.recording, false);
        state.block = None;
        if recording && state.executed >= self.warm_up + LEAD_IN + LEAST {
            self.kept.push(burst);
        }
    }

    fn finish(mut self: Box<Self>) -> BurstEvidence {
        for thread in 0..self.threads.len() as u32 {
            self.end(thread);
        }
        BurstEvidence { blocks: self.blocks, bursts: self.kept.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessKind;
    use rprof_profile::code::CodeRef;
    use rprof_profile::evidence::bursts::{Found, TracedAccess};

    /// `mov rax, [rdi]; jne +1` at 0x1000 and `nop` behind it.
    fn recorder() -> Recorder {
        let mut recorder = Recorder::new(&Machine::default()).warm_up(1000);
        let at = |offset| CodeRef { module: 0, offset };
        let head = vec![0x48, 0x8b, 0x07, 0x75, 0x01];
        recorder.block(0, TracedBlock { at: at(0), start: 0x1000, code: head });
        recorder.block(1, TracedBlock { at: at(5), start: 0x1005, code: vec![0x90] });
        recorder
    }

    fn feed(recorder: &mut Recorder, executions: u64) {
        for n in 0..executions {
            let access = TracedAccess { address: 64 * (n % 8), bytes: 8, offset: 0, kind: AccessKind::Load };
            recorder.record(0, &[TraceEntry::Block(0), TraceEntry::Access(access)]);
            if n % 2 == 0 {
                recorder.record(0, &[TraceEntry::Block(1)]);
            }
            if !recorder.goes_on(0) {
                break;
            }
        }
    }

    #[test]
    fn the_measured_part_is_kept_with_what_was_found_and_predicted() {
        let mut recorder = recorder();
        recorder.begin(0);
        assert!(recorder.goes_on(0));
        feed(&mut recorder, 100_000);
        assert!(!recorder.goes_on(0));
        recorder.end(0);
        let evidence = Box::new(recorder).finish();
        let burst = &evidence.bursts[0];
        let lengths = |step: &BurstStep| if step.block == 0 { 2 } else { 1 };
        let instructions: u32 = burst.steps.iter().map(lengths).sum();
        assert!((MEASURED..MEASURED + 3).contains(&instructions), "{instructions}");
        assert!(burst.accesses.iter().all(|access| access.found == Found::L1));
        assert!(burst.steps.iter().filter(|step| step.branch != Prediction::Right).count() < 10);
    }

    #[test]
    fn bursts_that_end_early_are_dropped() {
        let mut recorder = recorder();
        recorder.begin(0);
        feed(&mut recorder, 1000);
        recorder.end(0);
        assert!(Box::new(recorder).finish().bursts.is_empty());
    }
}
