//! Counts of one function, loop or line: facts of instructions × their executions.

use std::collections::BTreeMap;

use rprof_isa::facts::{AccessKind, Dynamic, FlopFact, InstructionClass, InstructionFacts};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::function::{AccessEntry, Flops, MixEntry};

/// Sums of executed work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Instructions executed.
    pub instructions: u64,
    /// Floating-point instructions executed.
    pub fp_instructions: u64,
    /// Packed ones among them.
    pub simd_instructions: u64,
    /// Integer operations.
    pub int_ops: u64,
    /// FLOPs.
    pub flops: Flops,
    /// Issue slots.
    pub issue_slots: u64,
    /// Bytes loaded and stored.
    pub l1_bytes: u64,
    mix: BTreeMap<(FpOp, Precision, Width), (u64, u64)>,
    classes: BTreeMap<InstructionClass, u64>,
    accesses: BTreeMap<(AccessKind, u32, bool), u64>,
}

/// Executions of one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executions {
    /// How often.
    pub count: u64,
    /// Active lanes or `rep` iterations, summed over the executions; `None` if the engine did not count them.
    pub dynamic: Option<u64>,
}

impl Tally {
    /// Adds `executions` of an instruction that takes `slots` issue slots. Returns the FLOPs added.
    pub fn add(&mut self, facts: &InstructionFacts, slots: u8, executions: Executions) -> u64 {
        let count = executions.count;
        self.instructions += count;
        self.fp_instructions += if facts.fp_instruction { count } else { 0 };
        self.simd_instructions += if facts.simd_instruction { count } else { 0 };
        self.issue_slots += u64::from(slots) * count;
        *self.classes.entry(facts.class).or_default() += count;
        let share = Share::of(facts, executions);
        self.int_ops += share.scale(u64::from(facts.int_ops));
        for access in &facts.accesses {
            *self.accesses.entry((access.kind, access.bytes, access.vector)).or_default() += count;
            let bytes = u64::from(access.bytes);
            let follows = access.masked || facts.dynamic == Some(Dynamic::Repeat);
            self.l1_bytes += if follows { share.scale(bytes) } else { bytes * count };
        }
        let mut added = 0;
        for flop in &facts.flops {
            let flops = share.scale(u64::from(flop.flops));
            self.add_flops(flop, count, flops);
            added += flops;
        }
        added
    }

    fn add_flops(&mut self, fact: &FlopFact, executions: u64, flops: u64) {
        let mix = self.mix.entry((fact.op, fact.precision, fact.width)).or_default();
        mix.0 += executions;
        mix.1 += flops;
        let all = &mut self.flops;
        all.total += flops;
        *match fact.precision {
            Precision::Dp => &mut all.dp,
            Precision::Sp => &mut all.sp,
            Precision::Hp => &mut all.hp,
            Precision::Bf16 => &mut all.bf16,
            Precision::X87 => &mut all.x87,
        } += flops;
        *match fact.op {
            FpOp::Add => &mut all.by_op.add,
            FpOp::Mul => &mut all.by_op.mul,
            FpOp::Fma => &mut all.by_op.fma,
            FpOp::Div => &mut all.by_op.div,
            FpOp::Sqrt => &mut all.by_op.sqrt,
            FpOp::Other => &mut all.by_op.other,
        } += flops;
        *match fact.width {
            Width::Scalar => &mut all.by_width.scalar,
            Width::W128 => &mut all.by_width.w128,
            Width::W256 => &mut all.by_width.w256,
            Width::W512 => &mut all.by_width.w512,
        } += flops;
    }

    /// The arithmetic executed, most frequent first.
    pub fn mix(&self) -> Vec<MixEntry> {
        let entry = |(key, sums): (&(FpOp, Precision, Width), &(u64, u64))| MixEntry {
            op: key.0,
            precision: key.1,
            width: key.2,
            instructions: sums.0,
            flops: sums.1,
        };
        let mut mix: Vec<MixEntry> = self.mix.iter().map(entry).collect();
        mix.sort_by_key(|m| std::cmp::Reverse(m.instructions));
        mix
    }

    /// Instructions by class.
    pub fn classes(&self) -> Vec<(InstructionClass, u64)> {
        self.classes.iter().map(|(class, count)| (*class, *count)).collect()
    }

    /// Accesses by kind, width and register file, most frequent first.
    pub fn accesses(&self) -> Vec<AccessEntry> {
        let entry = |(key, count): (&(AccessKind, u32, bool), &u64)| AccessEntry {
            kind: key.0,
            bytes: key.1,
            vector: key.2,
            count: *count,
        };
        let mut accesses: Vec<AccessEntry> = self.accesses.iter().map(entry).collect();
        accesses.sort_by_key(|a| std::cmp::Reverse(a.count));
        accesses
    }
}

/// The executed part of an instruction's full work: active lanes of all lanes, or iterations.
enum Share {
    /// Every execution does all of it.
    Whole(u64),
    /// `active` of `lanes` lanes, summed over the executions.
    Lanes { active: u64, lanes: u64 },
}

impl Share {
    fn of(facts: &InstructionFacts, executions: Executions) -> Self {
        let lanes = match facts.dynamic {
            None => return Share::Whole(executions.count),
            Some(Dynamic::Repeat) => 1,
            Some(Dynamic::Mask { lanes, .. } | Dynamic::VectorMask { lanes, .. }) => u64::from(lanes.max(1)),
        };
        match executions.dynamic {
            Some(active) => Share::Lanes { active, lanes },
            None => Share::Whole(executions.count),
        }
    }

    fn scale(&self, whole: u64) -> u64 {
        match self {
            Share::Whole(count) => whole * count,
            Share::Lanes { active, lanes } => whole * active / lanes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessFact;

    fn masked_fma() -> InstructionFacts {
        InstructionFacts {
            length: 6,
            flops: vec![FlopFact { op: FpOp::Fma, precision: Precision::Dp, width: Width::W512, flops: 16, lanes: 8 }],
            fp_instruction: true,
            simd_instruction: true,
            accesses: vec![AccessFact { kind: AccessKind::Load, bytes: 64, vector: true, masked: true }],
            dynamic: Some(Dynamic::Mask { k: 1, lanes: 8 }),
            class: InstructionClass::Fp,
            ..InstructionFacts::default()
        }
    }

    #[test]
    fn only_active_lanes_count() {
        let mut tally = Tally::default();
        let added = tally.add(&masked_fma(), 1, Executions { count: 10, dynamic: Some(35) });
        assert_eq!((added, tally.flops.total, tally.flops.dp), (70, 70, 70));
        assert_eq!((tally.flops.by_op.fma, tally.flops.by_width.w512), (70, 70));
        assert_eq!((tally.l1_bytes, tally.instructions, tally.simd_instructions), (280, 10, 10));
        assert_eq!(tally.mix()[0].instructions, 10);
        assert_eq!(tally.accesses()[0].count, 10);
    }

    #[test]
    fn repeated_instructions_move_bytes_per_iteration() {
        let store = AccessFact { kind: AccessKind::Store, bytes: 8, vector: false, masked: false };
        let facts =
            InstructionFacts { accesses: vec![store], dynamic: Some(Dynamic::Repeat), ..InstructionFacts::default() };
        let mut tally = Tally::default();
        tally.add(&facts, 1, Executions { count: 2, dynamic: Some(1000) });
        assert_eq!((tally.instructions, tally.l1_bytes), (2, 8000));
    }
}
