//! Divides functions into strata: each loop without its inner loops, and the code outside of loops. Windows and samples are brought
//! together by stratum: a function may compute in one phase of the program and compare in another.

use std::collections::{HashMap, HashSet};

use crate::attributed::AttributedSample;
use crate::blocks::{ExecutedBlocks, Span};
use crate::code_map::{CodeMap, FunctionId};
use crate::loops::LoopNest;
use crate::sampled::Sampled;
use rprof_isa::facts::AccessKind;
use rprof_isa::x86_64::classify;
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::windows::Window;

/// Number of a stratum.
pub type StratumId = u32;

/// The stratum of time that no instruction of the program has: in the kernel.
pub const KERNEL: StratumId = StratumId::MAX;

/// The number of a loop in its nest; `None` outside of loops.
type LoopNumber = Option<u32>;

/// All strata.
#[derive(Debug, Default)]
pub struct Strata {
    nests: HashMap<FunctionId, LoopNest>,
    ids: HashMap<(FunctionId, LoopNumber), StratumId>,
    /// By number.
    keys: Vec<(FunctionId, LoopNumber)>,
    of_functions: HashMap<FunctionId, Vec<StratumId>>,
}

/// Instructions, FLOPs, and bytes of loads and stores; with all lanes active.
pub type Figures = [f64; 3];

/// The figures of one execution of each block, by stratum.
#[derive(Debug)]
pub struct Pieces<'e> {
    by_block: Vec<Vec<(StratumId, Figures)>>,
    numbers: HashMap<(CodeRef, &'e [u8]), u32>,
}

impl<'e> Pieces<'e> {
    /// Divides the executed blocks among `strata`.
    pub fn new(executed: &ExecutedBlocks<'e>, strata: &mut Strata) -> Self {
        let mut by_block = vec![Vec::new(); executed.blocks.len()];
        for (&function, spans) in &executed.spans {
            for span in spans {
                strata.divide(function, *span, executed, &mut by_block[span.block as usize]);
            }
        }
        let keys = executed.blocks.iter().map(|block| (block.count.at, &*block.count.code));
        Pieces { by_block, numbers: keys.zip(0..).collect() }
    }

    /// The figures of `window`.
    pub fn of_window(&self, window: &Window) -> HashMap<StratumId, Figures> {
        let mut sums: HashMap<StratumId, Figures> = HashMap::new();
        for block in &window.blocks {
            let Some(&number) = self.numbers.get(&(block.at, &*block.code)) else { continue };
            let executions = block.executions.iter().map(|e| e.1).sum::<u64>() as f64;
            if executions == 0.0 {
                continue;
            }
            for (stratum, figures) in &self.by_block[number as usize] {
                let sum = sums.entry(*stratum).or_default();
                sum.iter_mut().zip(figures).for_each(|(sum, one)| *sum += executions * one);
            }
        }
        sums
    }
}

impl Strata {
    /// Divides the functions `divided` at their loops; each other one is a stratum.
    pub fn new(divided: impl Iterator<Item = FunctionId>, executed: &ExecutedBlocks, code: &mut CodeMap) -> Self {
        let nests = divided.map(|id| (id, LoopNest::of(id, code, Some(executed), &[]))).collect();
        Strata { nests, ..Strata::default() }
    }

    /// The stratum of the instruction at `offset` of the module of `function`.
    pub fn at(&mut self, function: FunctionId, offset: u64) -> StratumId {
        let number = self.nests.get(&function).and_then(|nest| nest.loop_at(offset));
        self.id(function, number)
    }

    /// The stratum that a sample was in.
    pub fn of_sample(&mut self, sample: &AttributedSample) -> StratumId {
        match sample.place {
            _ if sample.in_kernel() => KERNEL,
            Some(place) => self.at(sample.function, place.offset),
            None => self.id(sample.function, None),
        }
    }

    /// The stratum of a loop, or of the code outside of loops.
    fn id(&mut self, function: FunctionId, number: LoopNumber) -> StratumId {
        *self.ids.entry((function, number)).or_insert_with(|| {
            let id = self.keys.len() as StratumId;
            self.keys.push((function, number));
            self.of_functions.entry(function).or_default().push(id);
            id
        })
    }

    /// The function that a stratum is part of; the kernel is part of none.
    pub fn function(&self, id: StratumId) -> Option<FunctionId> {
        self.keys.get(id as usize).map(|key| key.0)
    }

    /// The strata of a function that were met so far.
    pub fn of_function(&self, function: FunctionId) -> &[StratumId] {
        self.of_functions.get(&function).map_or(&[], Vec::as_slice)
    }

    /// The strata of its loops: (the loop's start, stratum).
    pub fn loops(&self, function: FunctionId) -> impl Iterator<Item = (u64, StratumId)> + '_ {
        let loops = self.nests.get(&function).map_or(&[][..], |nest| &nest.loops);
        (0..).zip(loops).filter_map(move |(number, of)| {
            self.ids.get(&(function, Some(number))).map(|&stratum| (of.header, stratum))
        })
    }

    fn divide(
        &mut self,
        function: FunctionId,
        span: Span,
        executed: &ExecutedBlocks,
        pieces: &mut Vec<(StratumId, Figures)>,
    ) {
        for instruction in executed.instructions(span) {
            let stratum = self.at(function, instruction.ip());
            let facts = classify(instruction);
            let flops: u32 = facts.flops.iter().map(|fact| fact.flops).sum();
            let moved = facts.accesses.iter().filter(|access| access.kind != AccessKind::Prefetch);
            let bytes: u32 = moved.map(|access| access.bytes).sum();
            let figures = [1.0, f64::from(flops), f64::from(bytes)];
            match pieces.last_mut().filter(|piece| piece.0 == stratum) {
                Some(piece) => piece.1.iter_mut().zip(figures).for_each(|(sum, more)| *sum += more),
                None => pieces.push((stratum, figures)),
            }
        }
    }
}

/// The share of the time of each function that its samples spent at instructions which no window executed.
pub fn unmet(sampled: &Sampled, executed: &ExecutedBlocks) -> HashMap<FunctionId, f64> {
    let mut met: HashMap<FunctionId, HashSet<u64>> = HashMap::new();
    let mut seconds: HashMap<FunctionId, [f64; 2]> = HashMap::new();
    for sample in sampled.samples.iter().filter(|sample| !sample.in_kernel()) {
        let (Some(place), id) = (sample.place, sample.function) else { continue };
        let offsets = met.entry(id).or_insert_with(|| {
            let spans = executed.of(id).iter();
            spans.flat_map(|span| executed.instructions(*span)).map(|instruction| instruction.ip()).collect()
        });
        let [unmet, all] = seconds.entry(id).or_default();
        *all += sample.weight_s;
        *unmet += if offsets.contains(&place.offset) { 0.0 } else { sample.weight_s };
    }
    seconds.into_iter().map(|(id, [unmet, all])| (id, if all > 0.0 { unmet / all } else { 0.0 })).collect()
}
