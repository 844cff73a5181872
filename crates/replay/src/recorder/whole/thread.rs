//! One thread of a run that is recorded whole.

use std::mem::size_of;

use rprof_profile::evidence::bursts::{Burst, BurstAccess, BurstStep, Prediction, TraceEntry};
use rprof_profile::machine::Cache;

use super::MOST;
use super::hierarchy::Hierarchy;
use super::strata::{LEAD_IN, SLOT, Strata};
use crate::recorder::predictor::Predictor;
use crate::recorder::shape::Shape;

/// Instructions before a burst in which the branch predictor learns; it keeps what it learnt before.
const WARM_UP: u64 = 60_000;
/// Bytes of a thread's bursts that are kept.
const MOST_BYTES: usize = 160 << 20;

/// A thread.
pub(super) struct Thread {
    number: u32,
    hierarchy: Hierarchy,
    predictor: Predictor,
    /// The block that began last; `None` if the next one does not follow it.
    block: Option<u32>,
    /// Instructions until now.
    executed: u64,
    strata: Strata,
    /// The slot of the present or next burst, and its records.
    slot: u64,
    burst: Option<Burst>,
    /// Bursts with their slots.
    kept: Vec<(u64, Burst)>,
    bytes: usize,
}

impl Thread {
    pub(super) fn new(number: u32, caches: &[Cache], outcomes: f64) -> Thread {
        let strata = Strata::new(number);
        Thread {
            number,
            hierarchy: Hierarchy::new(caches),
            predictor: Predictor::new(outcomes),
            block: None,
            executed: 0,
            strata,
            slot: strata.next(0),
            burst: None,
            kept: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn record(&mut self, entries: &[TraceEntry], shapes: &[Shape]) {
        for entry in entries {
            match entry {
                TraceEntry::Block(number) => {
                    if let Some(shape) = shapes.get(*number as usize) {
                        self.begin_block(*number, shape, shapes);
                    }
                }
                TraceEntry::Access(access) => {
                    let (found, translation) = self.hierarchy.meet(access);
                    if let Some(burst) = &mut self.burst
                        && !burst.steps.is_empty()
                    {
                        burst.accesses.push(BurstAccess { access: *access, found, translation });
                    }
                }
            }
        }
    }

    /// The first instruction of the present or next slot.
    fn start(&self) -> u64 {
        self.slot * SLOT
    }

    fn begin_block(&mut self, number: u32, shape: &Shape, shapes: &[Shape]) {
        if self.executed + WARM_UP >= self.start()
            && let Some(before) = self.block
        {
            let was = &shapes[before as usize];
            let branch = self.predictor.meet(was.ending, was.last, was.end, shape.start);
            if let Some(step) = self.burst.as_mut().and_then(|burst| burst.steps.last_mut()) {
                step.branch = branch;
            }
        }
        if self.burst.is_some() && self.executed >= self.start() + SLOT {
            self.end_burst(shapes);
        }
        if self.burst.is_none() && self.executed + LEAD_IN >= self.start() {
            let lead_in = self.start().saturating_sub(self.executed) as u32;
            self.burst = Some(Burst { thread: self.number, lead_in, ..Burst::default() });
        }
        if let Some(burst) = &mut self.burst {
            let first_access = burst.accesses.len() as u32;
            burst.steps.push(BurstStep { block: number, first_access, branch: Prediction::Right });
        }
        self.executed += u64::from(shape.instructions);
        self.block = Some(number);
    }

    /// The next block does not follow the last one.
    pub(super) fn interrupt(&mut self) {
        self.block = None;
    }

    /// Keeps the present burst. If the next slot has one, too, it begins with the end of this one.
    fn end_burst(&mut self, shapes: &[Shape]) {
        let Some(mut burst) = self.burst.take() else { return };
        let tail = tail(&burst, shapes, self.executed);
        burst.steps.shrink_to_fit();
        burst.accesses.shrink_to_fit();
        self.bytes += bytes(&burst);
        self.kept.push((self.slot, burst));
        while self.kept.len() > MOST || self.bytes > MOST_BYTES {
            self.strata = self.strata.coarser();
            let strata = self.strata;
            self.kept.retain(|(slot, _)| strata.is_chosen(*slot));
            self.bytes = self.kept.iter().map(|(_, burst)| bytes(burst)).sum();
        }
        self.slot = self.strata.next(self.executed / SLOT);
        if let Some((tail, executed)) = tail
            && self.start() <= self.executed
        {
            self.burst = Some(Burst { lead_in: self.start().saturating_sub(executed) as u32, ..tail });
        }
    }

    /// The thread has ended.
    pub(super) fn finish(&mut self, shapes: &[Shape]) {
        if self.executed > self.start() {
            self.end_burst(shapes);
        }
    }

    pub(super) fn level(&self) -> u32 {
        self.strata.level()
    }

    /// Number of its bursts at `level`.
    pub(super) fn count_at(&self, level: u32) -> usize {
        let strata = self.strata.at(level);
        self.kept.iter().filter(|(slot, _)| strata.is_chosen(*slot)).count()
    }

    /// Its bursts at `level`, with their slots.
    pub(super) fn bursts_at(self, level: u32) -> impl Iterator<Item = (u64, Burst)> {
        let strata = self.strata.at(level);
        self.kept.into_iter().filter(move |(slot, _)| strata.is_chosen(*slot))
    }
}

/// The last steps of `burst`, at the end of which the thread had `executed` this number of instructions; and the number at their beginning.
fn tail(burst: &Burst, shapes: &[Shape], executed: u64) -> Option<(Burst, u64)> {
    let mut at = executed;
    let enough = executed.saturating_sub(LEAD_IN);
    let length = burst.steps.iter().rev().take_while(|step| {
        let goes_on = at > enough;
        at = if goes_on { at - u64::from(shapes[step.block as usize].instructions) } else { at };
        goes_on
    });
    let first = burst.steps.len() - length.count();
    let base = burst.steps.get(first)?.first_access;
    let moved = |step: &BurstStep| BurstStep { first_access: step.first_access - base, ..*step };
    let steps = burst.steps[first..].iter().map(moved).collect();
    let accesses = burst.accesses[base as usize..].to_vec();
    Some((Burst { thread: burst.thread, lead_in: 0, steps, accesses }, at))
}

fn bytes(burst: &Burst) -> usize {
    burst.steps.len() * size_of::<BurstStep>() + burst.accesses.len() * size_of::<BurstAccess>()
}
