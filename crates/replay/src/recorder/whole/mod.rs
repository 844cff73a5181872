//! Records a whole run for replay on a reference core: caches and translation buffers see every access, and bursts lie at instruction
//! counts, so that nothing depends on time.
//!
//! ```text
//!  entries ─▶ hierarchy (every access)                          ─┐
//!          ─▶ predictor (before and in bursts)                  ─┼─▶ bursts, one in each stratum of instructions
//!          ─▶ instructions executed ─▶ strata: is a burst due?  ─┘
//! ```

mod frames;
mod hierarchy;
mod names;
mod strata;
mod thread;

use std::sync::{Arc, Mutex, PoisonError};

use rprof_profile::evidence::bursts::{Burst, BurstEvidence, BurstSink, TraceEntry, TracedBlock};
use rprof_profile::machine::{Cache, Machine};

use super::OUTCOMES;
use super::shape::Shape;
use names::Names;
use thread::Thread;

/// Bursts that are kept: of each thread, and of all of them together.
const MOST: usize = 800;

/// Where the bursts of a run lie.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Thread and slot of each burst, in the order of the bursts: equal in two runs that do the same until then.
    pub bursts: Vec<(u32, u64)>,
    /// Slots for each that has a burst: a power of two.
    pub slots: u64,
}

/// Records all that the threads of a run do. Each thread has the core's caches, all levels, for itself.
pub struct WholeRun {
    caches: Vec<Cache>,
    /// Outcomes of one branch that the predictor learns.
    outcomes: f64,
    blocks: Vec<TracedBlock>,
    /// By block, with names in place of addresses.
    shapes: Vec<Shape>,
    names: Names,
    threads: Vec<Option<Box<Thread>>>,
    places: Arc<Mutex<Places>>,
}

impl WholeRun {
    /// A recorder for the core of `machine`: its data caches, and how much its branch predictor learns.
    pub fn new(machine: &Machine) -> WholeRun {
        WholeRun {
            caches: machine.caches.clone(),
            outcomes: machine.value("predictor.outcomes", 1).unwrap_or(OUTCOMES),
            blocks: Vec::new(),
            shapes: Vec::new(),
            names: Names::default(),
            threads: Vec::new(),
            places: Arc::default(),
        }
    }

    /// Where its bursts lie, once it has finished.
    pub fn places(&self) -> Arc<Mutex<Places>> {
        self.places.clone()
    }
}

impl BurstSink for WholeRun {
    fn block(&mut self, number: u32, block: TracedBlock) {
        let number = number as usize;
        if self.blocks.len() <= number {
            let empty = TracedBlock { at: block.at, start: 0, code: Vec::new() };
            self.blocks.resize(number + 1, empty);
            self.shapes.resize(number + 1, Shape::default());
        }
        let shape = Shape::new(&block);
        let mut name = |address| self.names.name(address);
        let (start, last, end) = (name(shape.start), name(shape.last), name(shape.end));
        self.shapes[number] = Shape { start, last, end, ..shape };
        self.blocks[number] = block;
    }

    fn begin(&mut self, thread: u32) {
        let number = thread as usize;
        if self.threads.len() <= number {
            self.threads.resize_with(number + 1, || None);
        }
        let (caches, outcomes) = (&self.caches, self.outcomes);
        self.threads[number].get_or_insert_with(|| Box::new(Thread::new(thread, caches, outcomes)));
    }

    fn record(&mut self, thread: u32, entries: &[TraceEntry]) {
        if let Some(Some(thread)) = self.threads.get_mut(thread as usize) {
            thread.record(entries, &self.shapes);
        }
    }

    fn goes_on(&self, _thread: u32) -> bool {
        true
    }

    fn end(&mut self, thread: u32) {
        if let Some(Some(thread)) = self.threads.get_mut(thread as usize) {
            thread.interrupt();
        }
    }

    fn is_continuous(&self) -> bool {
        true
    }

    fn finish(self: Box<Self>) -> BurstEvidence {
        let mut threads: Vec<Thread> = self.threads.into_iter().flatten().map(|thread| *thread).collect();
        let shapes = &self.shapes;
        threads.iter_mut().for_each(|thread| thread.finish(shapes));
        let mut level = threads.iter().map(Thread::level).max().unwrap_or(0);
        // All threads are sampled alike, so that sums over bursts are those of the program.
        let kept = |level| threads.iter().map(|thread| thread.count_at(level)).sum::<usize>();
        while kept(level) > MOST {
            level += 1;
        }
        let placed: Vec<(u64, Burst)> = threads.into_iter().flat_map(|thread| thread.bursts_at(level)).collect();
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) =
            Places { bursts: placed.iter().map(|(slot, burst)| (burst.thread, *slot)).collect(), slots: 1 << level };
        BurstEvidence { blocks: self.blocks, bursts: placed.into_iter().map(|(_, burst)| burst).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessKind;
    use rprof_profile::code::CodeRef;
    use rprof_profile::evidence::bursts::{BurstStep, Found, Prediction, TracedAccess};

    /// `mov rax, [rdi]; jne +1` and `nop` behind it, at `start`.
    fn recorder(start: u64) -> Box<WholeRun> {
        let mut recorder = Box::new(WholeRun::new(&Machine::default()));
        let at = |offset| CodeRef { module: 0, offset };
        let head = vec![0x48, 0x8b, 0x07, 0x75, 0x01];
        recorder.block(0, TracedBlock { at: at(0), start, code: head });
        recorder.block(1, TracedBlock { at: at(5), start: start + 5, code: vec![0x90] });
        recorder.begin(0);
        recorder
    }

    /// Rounds over `lines` lines of memory from `data` on; every third round skips the `nop`.
    fn run(start: u64, data: u64, rounds: u64, lines: u64) -> BurstEvidence {
        let mut recorder = recorder(start);
        for n in 0..rounds {
            let access = TracedAccess { address: data + 64 * (n % lines), bytes: 8, offset: 0, kind: AccessKind::Load };
            recorder.record(0, &[TraceEntry::Block(0), TraceEntry::Access(access)]);
            if n % 3 != 0 {
                recorder.record(0, &[TraceEntry::Block(1)]);
            }
        }
        recorder.finish()
    }

    fn found(evidence: &BurstEvidence, level: Found) -> f64 {
        let all: Vec<_> = evidence.bursts.iter().flat_map(|burst| &burst.accesses).collect();
        all.iter().filter(|access| access.found == level).count() as f64 / all.len() as f64
    }

    #[test]
    fn bursts_know_the_lines_of_the_whole_run() {
        // 4,096 lines are more than L1 has, and fit in L2; no burst goes round them all.
        let evidence = run(0x40_1000, 1 << 30, 200_000, 4096);
        assert!(found(&evidence, Found::L2) > 0.95, "{}", found(&evidence, Found::L2));
        // 2²⁰ lines are more than the last level has.
        let evidence = run(0x40_1000, 1 << 30, 200_000, 1 << 20);
        assert!(found(&evidence, Found::Memory) > 0.99);
    }

    #[test]
    fn a_moved_program_is_recorded_alike() {
        let outcomes = |evidence: &BurstEvidence| -> Vec<(Vec<Prediction>, Vec<Found>)> {
            let of_burst = |burst: &Burst| {
                let branches = burst.steps.iter().map(|step| step.branch).collect();
                (branches, burst.accesses.iter().map(|access| access.found).collect())
            };
            evidence.bursts.iter().map(of_burst).collect()
        };
        let here = run(0x40_1000, 1 << 30, 300_000, 50_000);
        let there = run(0x40_4340, 0x7000_0000_0000, 300_000, 50_000);
        assert!(here.bursts.len() > 50);
        assert!(outcomes(&here) == outcomes(&there), "neither code nor data depend on where they lie");
    }

    #[test]
    fn a_short_run_is_recorded_to_its_last_block_and_each_once() {
        let evidence = run(0x40_1000, 1 << 30, 100_000, 64);
        let length = |step: &BurstStep| if step.block == 0 { 2 } else { 1 };
        let counted = |burst: &Burst| {
            let mut executed = 0;
            let of_step = |step: &BurstStep| {
                let own = if executed >= burst.lead_in { length(step) } else { 0 };
                executed += length(step);
                own
            };
            burst.steps.iter().map(of_step).sum::<u32>()
        };
        let all: u32 = evidence.bursts.iter().map(counted).sum();
        assert_eq!(all, 100_000 * 2 + 66_666);
        assert!(evidence.bursts[1..].iter().all(|burst| (1_999..=2_001).contains(&burst.lead_in)));
    }

    #[test]
    fn a_long_run_keeps_a_limited_number_of_bursts_all_over_it() {
        let evidence = run(0x40_1000, 1 << 30, 12_000_000, 64);
        assert!((MOST / 3..=MOST).contains(&evidence.bursts.len()), "{}", evidence.bursts.len());
    }
}
