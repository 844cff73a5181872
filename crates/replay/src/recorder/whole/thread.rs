//! One thread of a run that is recorded whole.

use std::mem::size_of;

use rprof_profile::evidence::bursts::{Burst, BurstAccess, BurstStep, Prediction, TraceEntry};
use rprof_profile::machine::Cache;

use super::hierarchy::Hierarchy;
use super::strata::{LEAD_IN, LENGTH, SLOT, Strata};
use crate::recorder::predictor::Predictor;
use crate::recorder::shape::Shape;

/// Instructions before a burst in which the branch predictor learns; it keeps what it learnt before.
const WARM_UP: u64 = 60_000;
/// Bursts of a thread that are kept, and their bytes.
const MOST: usize = 600;
const MOST_BYTES: usize = 96 << 20;
/// A burst that the thread's end cuts off is kept from this many instructions on.
const LEAST: u64 = LEAD_IN + 2_000;

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
    /// The present or next burst: its slot, its first instruction, its records.
    slot: u64,
    start: u64,
    burst: Option<Burst>,
    /// Bursts with their slots.
    kept: Vec<(u64, Burst)>,
    bytes: usize,
}

impl Thread {
    pub(super) fn new(number: u32, caches: &[Cache], outcomes: f64) -> Thread {
        let strata = Strata::new(number);
        let (slot, start) = strata.next(0);
        Thread {
            number,
            hierarchy: Hierarchy::new(caches),
            predictor: Predictor::new(outcomes),
            block: None,
            executed: 0,
            strata,
            slot,
            start,
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

    fn begin_block(&mut self, number: u32, shape: &Shape, shapes: &[Shape]) {
        if self.executed + WARM_UP >= self.start
            && let Some(before) = self.block
        {
            let was = &shapes[before as usize];
            let branch = self.predictor.meet(was.ending, was.last, was.end, shape.start);
            if let Some(step) = self.burst.as_mut().and_then(|burst| burst.steps.last_mut()) {
                step.branch = branch;
            }
        }
        if self.burst.is_some() && self.executed >= self.start + LENGTH {
            self.end_burst();
        }
        if self.burst.is_none() && self.executed >= self.start {
            self.burst = Some(Burst { thread: self.number, lead_in: LEAD_IN as u32, ..Burst::default() });
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

    fn end_burst(&mut self) {
        let Some(mut burst) = self.burst.take() else { return };
        if self.executed >= self.start + LEAST {
            burst.steps.shrink_to_fit();
            burst.accesses.shrink_to_fit();
            self.bytes += bytes(&burst);
            self.kept.push((self.slot, burst));
        }
        while self.kept.len() > MOST || self.bytes > MOST_BYTES {
            self.strata = self.strata.coarser();
            let strata = self.strata;
            self.kept.retain(|(slot, _)| strata.is_chosen(*slot));
            self.bytes = self.kept.iter().map(|(_, burst)| bytes(burst)).sum();
        }
        // A block of many instructions can reach into the next slot.
        let next = (self.slot + 1).max(self.executed / SLOT);
        (self.slot, self.start) = self.strata.next(next);
        if self.start < self.executed {
            (self.slot, self.start) = self.strata.next(next + 1);
        }
    }

    /// The thread has ended.
    pub(super) fn finish(&mut self) {
        self.end_burst();
    }

    pub(super) fn level(&self) -> u32 {
        self.strata.level()
    }

    /// Number of its bursts at `level`.
    pub(super) fn count_at(&self, level: u32) -> usize {
        let strata = self.strata.at(level);
        self.kept.iter().filter(|(slot, _)| strata.is_chosen(*slot)).count()
    }

    /// Its bursts at `level`.
    pub(super) fn bursts_at(self, level: u32) -> impl Iterator<Item = Burst> {
        let strata = self.strata.at(level);
        self.kept.into_iter().filter(move |(slot, _)| strata.is_chosen(*slot)).map(|(_, burst)| burst)
    }
}

fn bytes(burst: &Burst) -> usize {
    burst.steps.len() * size_of::<BurstStep>() + burst.accesses.len() * size_of::<BurstAccess>()
}
