//! Loops with a number of cycles known beforehand.

use iced_x86::{
    Code, Encoder, Instruction, MemoryOperand,
    Register::{
        self, R8, R9, R10, R11, R12, R14, R15, RAX, RBX, RCX, RDI, RDX, RSI, XMM0, XMM1, XMM2, XMM3, XMM4, XMM5, XMM15,
    },
};

use crate::levels::Levels;
use crate::parameters::CoreParameters;
use crate::parameters::tests::machine;
use crate::x86_64::program;
use rprof_isa::facts::AccessKind;
use rprof_profile::account::{Cause, Changes, WhatIf};
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::bursts::{
    Burst, BurstAccess, BurstEvidence, BurstStep, Found, Prediction, TracedAccess, TracedBlock, Translation,
};

use super::{Core, Outcome};

const START: u64 = 0x1000;

/// A 6-wide core.
fn core() -> CoreParameters {
    let known = [
        ("width.dispatch", 6.0, "instr/s"),
        ("window.rob", 512.0, "op"),
        ("lat.l1", 5.0, "s"),
        ("lat.l3", 70.0, "s"),
        ("lat.forward", 5.0, "s"),
        ("lat.forward.gpr", 5.0, "s"),
        ("l1.access.load.int", 3.0, "access/s"),
        ("l1.access.store.int", 2.0, "access/s"),
        ("form.add.rate", 5.0, "instr/s"),
        ("form.fdiv.s.lat", 14.0, "s"),
        ("form.fdiv.s.rate", 0.25, "instr/s"),
        ("lat.int.add", 1.0, "s"),
        ("lat.int.mul", 3.0, "s"),
        ("int.mul.scalar", 1.0, "op/s"),
        ("mispredict", 20.0, "s"),
    ];
    CoreParameters::new(&machine(&known), 1).0
}

/// A loop of these instructions with a macro-fused `dec`-like end: `sub r15, 1; jne`.
struct Loop {
    evidence: BurstEvidence,
    instructions: u32,
}

/// An access of the `n`th iteration: (instruction, address, kind, found).
type Access = (usize, u64, AccessKind, Found);

impl Loop {
    fn new(body: &[Instruction], iterations: u32, accesses: impl Fn(u32) -> Vec<Access>) -> Loop {
        Loop::with_branches(body, iterations, accesses, |_| Prediction::Right)
    }

    fn with_branches(
        body: &[Instruction],
        iterations: u32,
        accesses: impl Fn(u32) -> Vec<Access>,
        branch: impl Fn(u32) -> Prediction,
    ) -> Loop {
        let mut body = body.to_vec();
        body.push(Instruction::with2(Code::Sub_rm64_imm8, R15, 1).unwrap());
        body.push(Instruction::with_branch(Code::Jne_rel32_64, START).unwrap());
        let mut encoder = Encoder::new(64);
        let mut offsets = Vec::new();
        let mut length = 0;
        for instruction in &body {
            offsets.push(length as u16);
            length += encoder.encode(instruction, START + length as u64).unwrap();
        }
        let at = CodeRef { module: 0, offset: START };
        let block = TracedBlock { at, start: START, code: encoder.take_buffer() };
        let mut burst = Burst { lead_in: 8 * body.len() as u32, ..Burst::default() };
        for n in 0..iterations {
            let first_access = burst.accesses.len() as u32;
            burst.steps.push(BurstStep { block: 0, first_access, branch: branch(n) });
            for (instruction, address, kind, found) in accesses(n) {
                let access = TracedAccess { address, bytes: 8, offset: offsets[instruction], kind };
                burst.accesses.push(BurstAccess { access, found, translation: Translation::First });
            }
        }
        let evidence = BurstEvidence { blocks: vec![block], bursts: vec![burst] };
        Loop { evidence, instructions: body.len() as u32 }
    }

    fn outcome(&self, core: &CoreParameters, change: Option<WhatIf>) -> Outcome {
        replayed(core, &self.evidence, change)
    }

    /// Cycles an iteration.
    fn cycles(&self, core: &CoreParameters, change: Option<WhatIf>) -> f64 {
        let outcome = self.outcome(core, change);
        outcome.cycles() * f64::from(self.instructions) / outcome.executed() as f64
    }

    fn share(&self, core: &CoreParameters, cause: Cause) -> f64 {
        let outcome = self.outcome(core, None);
        let own: f64 = outcome.instructions.iter().map(|row| f64::from(row.3[cause as usize])).sum();
        own / outcome.cycles()
    }
}

fn replayed(core: &CoreParameters, evidence: &BurstEvidence, change: Option<WhatIf>) -> Outcome {
    let program = program(&evidence.blocks, false);
    let levels = Levels::new(&program, evidence, None);
    let code = crate::code::Code::new(program, evidence);
    Core::new(core, &code, &levels, change.map(Changes::from)).replay(&evidence.bursts[0], 1)
}

fn add(to: Register, from: Register) -> Instruction {
    Instruction::with2(Code::Add_r64_rm64, to, from).unwrap()
}

fn load(to: Register, base: Register) -> Instruction {
    Instruction::with2(Code::Mov_r64_rm64, to, MemoryOperand::with_base(base)).unwrap()
}

fn none(_: u32) -> Vec<Access> {
    Vec::new()
}

fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} instead of {expected}");
}

#[test]
fn dependent_additions_take_their_latency() {
    let chain = Loop::new(&[add(RAX, RAX); 20], 300, none);
    near(chain.cycles(&core(), None), 20.0, 0.02);
    assert!(chain.share(&core(), Cause::Chain) > 0.9);
    near(chain.cycles(&core(), Some(WhatIf::IndependentIterations)), 21.0 / 5.0, 0.1);
}

#[test]
fn independent_additions_are_limited_by_ports_and_by_width() {
    let registers = [RAX, RBX, RCX, RDX, RSI, RDI, R8, R9, R10, R11];
    let body: Vec<_> = registers.iter().map(|&register| add(register, R14)).collect();
    let adds = Loop::new(&body, 500, none);
    // Ten additions, the counter and the branch that is fused with it, on five ports.
    near(adds.cycles(&core(), None), 11.0 / 5.0, 0.1);
    let mut body: Vec<_> = registers.iter().map(|&r| Instruction::with2(Code::Mov_r64_rm64, r, R14).unwrap()).collect();
    body.push(Instruction::with2(Code::Mov_r64_rm64, R12, R14).unwrap());
    let moves = Loop::new(&body, 500, none);
    near(moves.cycles(&core(), None), 2.0, 0.1);
    assert!(moves.share(&core(), Cause::Base) > 0.6);
}

#[test]
fn loads_are_limited_by_load_ports() {
    let body = [RAX, RBX, RCX, RDX, RSI, RDI, R8, R9, R10].map(|register| load(register, R14));
    let accesses = |_| (0..9).map(|n| (n, 0x10_0000 + 8 * n as u64, AccessKind::Load, Found::L1)).collect();
    near(Loop::new(&body, 400, accesses).cycles(&core(), None), 3.0, 0.1);
}

#[test]
fn a_chain_of_loads_takes_the_latency_of_its_level() {
    let chase = |found| {
        Loop::new(&[load(RAX, RAX)], 400, move |n| {
            vec![(0, 0x10_0000 + 0x3040 * u64::from(n), AccessKind::Load, found)]
        })
    };
    near(chase(Found::L1).cycles(&core(), None), 5.0, 0.02);
    near(chase(Found::L2).cycles(&core(), None), 14.0, 0.02);
    let far = chase(Found::Beyond { again: false });
    near(far.cycles(&core(), None), 70.0, 0.02);
    assert!(far.share(&core(), Cause::L3) > 0.9);
    near(far.cycles(&core(), Some(WhatIf::HitsInL1)), 5.0, 0.02);
    near(far.cycles(&core(), Some(WhatIf::HitsInL2)), 14.0, 0.02);
}

#[test]
fn a_stream_costs_bandwidth_and_not_latency() {
    let mut core = core();
    core.l3_line = [16 * 8; 2];
    let advance = Instruction::with2(Code::Add_rm64_imm8, RDI, 64).unwrap();
    let accesses = |n| vec![(0, 0x10_0000 + 64 * u64::from(n), AccessKind::Load, Found::Beyond { again: false })];
    let stream = Loop::new(&[load(RAX, RDI), advance, add(RBX, RAX)], 2000, accesses);
    near(stream.cycles(&core, None), 8.0, 0.15);
}

#[test]
fn a_misprediction_costs_the_refill() {
    let every = 10;
    let wrong = |n: u32| if n.is_multiple_of(every) { Prediction::WrongDirection } else { Prediction::Right };
    let body = [add(RAX, R14), add(RBX, R14), add(RCX, R14)];
    let core = core();
    let right = Loop::new(&body, 1000, none).cycles(&core, None);
    let missed = Loop::with_branches(&body, 1000, none, wrong);
    let cost = (missed.cycles(&core, None) - right) * f64::from(every);
    // The ceiling is 20; its kernel's chain hides the part before the branch.
    assert!((17.0..23.0).contains(&cost), "{cost}");
    assert!(missed.share(&core, Cause::Mispredict) > 0.5);
    near(missed.cycles(&core, Some(WhatIf::PerfectPrediction)), right, 0.01);
}

#[test]
fn the_reorder_buffer_limits_which_misses_overlap() {
    let at = |filler: usize| {
        let mut body = vec![load(RAX, R14), add(RBX, RAX)];
        body.extend(std::iter::repeat_n(Instruction::with(Code::Nopd), filler));
        let accesses =
            |n| vec![(0, 0x10_0000 + 0x3040 * u64::from(n), AccessKind::Load, Found::Beyond { again: false })];
        let core = CoreParameters { l3: 400, ..core() };
        Loop::new(&body, 60, accesses).cycles(&core, None)
    };
    // With 121 slots an iteration five misses are in the window of 512; with 601 the next one waits for 90 more.
    near(at(118), 400.0 / 5.0, 0.03);
    near(at(598), 400.0 + 90.0 / 6.0, 0.02);
}

#[test]
fn a_value_that_passes_memory_waits_for_forwarding() {
    let slot = || MemoryOperand::with_base(R14);
    let body = [
        Instruction::with2(Code::Add_r64_rm64, RAX, slot()).unwrap(),
        Instruction::with2(Code::Mov_rm64_r64, slot(), RAX).unwrap(),
    ];
    let accesses = |_| vec![(0, 0x10_0000, AccessKind::Load, Found::L1), (1, 0x10_0000, AccessKind::Store, Found::L1)];
    let chain = Loop::new(&body, 400, accesses);
    near(chain.cycles(&core(), None), 6.0, 0.05);
    assert!(chain.share(&core(), Cause::Forwarding) > 0.5);
    assert!(chain.cycles(&core(), Some(WhatIf::NoForwarding)) < 3.0);
}

#[test]
fn divisions_keep_the_divider_busy() {
    let divide = |to| Instruction::with2(Code::Divsd_xmm_xmmm64, to, XMM15).unwrap();
    let body = [XMM0, XMM1, XMM2, XMM3, XMM4, XMM5].map(divide);
    let divisions = Loop::new(&body, 300, none);
    near(divisions.cycles(&core(), None), 24.0, 0.02);
    assert!(divisions.cycles(&core(), Some(WhatIf::NoDivider)) < 8.0);
    near(Loop::new(&[divide(XMM0)], 300, none).cycles(&core(), None), 14.0, 0.02);
}

#[test]
fn the_parts_are_the_whole_and_changes_do_not_slow_down() {
    let body = [load(RAX, RDI), add(RBX, RAX), add(RDX, RBX), load(RCX, RAX)];
    let accesses = |n: u32| {
        let found = if n.is_multiple_of(3) { Found::Beyond { again: false } } else { Found::L2 };
        let address = 0x10_0000 + u64::from(n.wrapping_mul(2_654_435_761) >> 8);
        vec![(0, address, AccessKind::Load, found), (3, address + 4096, AccessKind::Load, Found::L1)]
    };
    let wrong = |n: u32| if n.is_multiple_of(7) { Prediction::WrongDirection } else { Prediction::Right };
    let mixed = Loop::with_branches(&body, 800, accesses, wrong);
    let core = core();
    let base = mixed.outcome(&core, None);
    assert_eq!(base, mixed.outcome(&core, None), "deterministic");
    let executed = 800 * u64::from(mixed.instructions) - 8 * u64::from(mixed.instructions);
    assert_eq!(base.executed(), executed);
    let whole = base.cycles().round();
    assert!((base.cycles() - whole).abs() < 1e-5 * whole, "whole cycles, each given away once: {}", base.cycles());
    for change in WhatIf::ALL {
        let cycles = mixed.outcome(&core, Some(change)).cycles();
        assert!(cycles <= 1.02 * base.cycles(), "{change:?}: {cycles} instead of {}", base.cycles());
    }
}

#[test]
fn every_instruction_that_decodes_can_be_replayed() {
    // vgatherdpd zmm0{k1}, [rdi+ymm1*8]; vpermt2d zmm0, zmm1, zmm2; kandw k1, k2, k3; rep movsb; fsqrt; fyl2x; cpuid; ud2;
    // lock xadd [rdi], rax; vaddpd zmm0{k1}{z}, zmm1, [rdi]{1to8}; vdivpd ymm0, ymm1, ymm2; div rcx; pdep rax, rbx, rcx.
    let code: &[u8] = &[
        0x62, 0xf2, 0xfd, 0x49, 0x92, 0x04, 0xcf, 0x62, 0xf2, 0x75, 0x48, 0x7e, 0xc2, 0xc5, 0xec, 0x41, 0xcb, 0xf3,
        0xa4, 0xd9, 0xfa, 0xd9, 0xf1, 0x0f, 0xa2, 0xf0, 0x48, 0x0f, 0xc1, 0x07, 0x62, 0xf1, 0xf5, 0xd9, 0x58, 0x07,
        0xc5, 0xf5, 0x5e, 0xc2, 0x48, 0xf7, 0xf1, 0xc4, 0xe2, 0xe3, 0xf5, 0xc1, 0x0f, 0x0b,
    ];
    let block = TracedBlock { at: CodeRef { module: 0, offset: 0 }, start: START, code: code.to_vec() };
    let step = BurstStep { block: 0, first_access: 0, branch: Prediction::WrongTarget };
    let burst = Burst { steps: vec![step; 50], lead_in: 20, ..Burst::default() };
    let evidence = BurstEvidence { blocks: vec![block], bursts: vec![burst] };
    let program = program(&evidence.blocks, false);
    assert_eq!(program.ops.len(), 13, "ud2 included");
    assert!(replayed(&core(), &evidence, None).cycles() > 0.0);
}

#[test]
fn a_product_and_the_sum_that_takes_it_become_one() {
    let product = Instruction::with2(Code::Mulsd_xmm_xmmm64, XMM0, XMM15).unwrap();
    let sum = Instruction::with2(Code::Addsd_xmm_xmmm64, XMM0, XMM1).unwrap();
    let horner = Loop::new(&[product, sum, product, sum], 300, none);
    near(horner.cycles(&core(), None), 16.0, 0.02);
    near(horner.cycles(&core(), Some(WhatIf::Fused)), 8.0, 0.02);
    let used_again = Instruction::with2(Code::Addsd_xmm_xmmm64, XMM1, XMM0).unwrap();
    let kept = Loop::new(&[product, used_again, product, used_again], 300, none);
    near(kept.cycles(&core(), Some(WhatIf::Fused)), kept.cycles(&core(), None), 0.01);
}

#[test]
fn vectors_shorten_sums_and_no_recurrence() {
    let operation = |code, to, from| Instruction::with2(code, to, from).unwrap();
    let (add, multiply) = (Code::Addsd_xmm_xmmm64, Code::Mulsd_xmm_xmmm64);
    let left = |body: &[Instruction]| {
        let of = Loop::new(body, 400, none);
        of.cycles(&core(), Some(WhatIf::AllLanes)) / of.cycles(&core(), None)
    };
    // s += c: four partial sums at least.
    assert!(left(&[operation(add, XMM0, XMM15)]) < 0.6);
    // x = x·a + b, alone and four of them side by side; x = fma(x, a, b).
    let step = |x| [operation(multiply, x, XMM15), operation(add, x, XMM5)];
    near(left(&step(XMM0)), 1.0, 0.01);
    near(left(&[XMM0, XMM1, XMM2, XMM3].map(step).concat()), 1.0, 0.01);
    let fused = |code, to, a, b| Instruction::with3(code, to, a, b).unwrap();
    near(left(&[fused(Code::VEX_Vfmadd132sd_xmm_xmm_xmmm64, XMM0, XMM5, XMM15)]), 1.0, 0.01);
    // s = fma(a, b, s) is a sum.
    assert!(left(&[fused(Code::VEX_Vfmadd231sd_xmm_xmm_xmmm64, XMM0, XMM5, XMM15)]) < 0.6);
}

#[test]
fn a_word_waits_for_both_stores_that_it_is_put_together_from() {
    let at = |displacement| MemoryOperand::with_base_displ(R14, displacement);
    let body = [
        Instruction::with2(Code::Mov_rm32_r32, at(0), Register::EAX).unwrap(),
        Instruction::with2(Code::Mov_rm32_r32, at(4), Register::R9D).unwrap(),
        Instruction::with2(Code::Mov_r64_rm64, RAX, at(0)).unwrap(),
    ];
    let mut evidence = Loop::new(&body, 400, |_| {
        let store = AccessKind::Store;
        let base = 0x10_0000;
        vec![(0, base, store, Found::L1), (1, base + 4, store, Found::L1), (2, base, AccessKind::Load, Found::L1)]
    });
    for access in evidence.evidence.bursts.iter_mut().flat_map(|burst| &mut burst.accesses) {
        access.access.bytes = if access.access.kind == AccessKind::Store { 4 } else { 8 };
    }
    let core = CoreParameters { merged_forward: 19, ..core() };
    // The second store has its data at once; the first one stores the value of the load before it.
    near(evidence.cycles(&core, None), 19.0, 0.06);
}

#[test]
fn a_branch_over_short_code_becomes_a_choice() {
    // A: sub edx, 1; cmp r9d, 5; jl C │ B: add ecx, r9d │ C: add r8d, 1; jmp A. Every second time the branch is taken, and it is never
    // predicted.
    let block =
        |start: u64, code: &[u8]| TracedBlock { at: CodeRef { module: 0, offset: start }, start, code: code.to_vec() };
    let tail = [0x41, 0x83, 0xc0, 0x01, 0xeb, 0xee];
    let mut over = vec![0x44, 0x01, 0xc9];
    over.extend(tail);
    let blocks = vec![
        block(START, &[0x83, 0xea, 0x01, 0x41, 0x83, 0xf9, 0x05, 0x7c, 0x03]),
        block(START + 9, &over),
        block(START + 12, &tail),
    ];
    let step = |block, branch| BurstStep { block, first_access: 0, branch };
    let steps = (0..800).flat_map(|n| [step(0, Prediction::WrongDirection), step(1 + n % 2, Prediction::Right)]);
    let burst = Burst { steps: steps.collect(), lead_in: 100, ..Burst::default() };
    let evidence = BurstEvidence { blocks, bursts: vec![burst] };
    let cycles = |change: Option<WhatIf>| replayed(&core(), &evidence, change).cycles();
    let (as_is, chosen, predicted) =
        (cycles(None), cycles(Some(WhatIf::Branchless)), cycles(Some(WhatIf::PerfectPrediction)));
    assert!(chosen < 0.2 * as_is, "{chosen} instead of {as_is}");
    // It has fewer taken branches than one that is always predicted.
    assert!(chosen >= 0.7 * predicted, "{chosen} and {predicted}");
}
