//! Blocks → [`Program`].

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use crate::form::{Form, width_index};
use crate::op::{Block, NO_FORM, Op, Program, Renaming, kind};
use rprof_isa::dependency::{Cycle, are_serial};
use rprof_isa::facts::{AccessKind, InstructionClass, InstructionFacts};
use rprof_isa::x86_64::{analyse_body, block_issue_slots, classify};
use rprof_profile::CodeRef;
use rprof_profile::evidence::bursts::TracedBlock;

use super::registers::{clears, uses};
use super::work::{Work, adds_constant, has_memory, is_eliminated, width, work};

/// Decodes each block once. Bytes that are no instruction end their block. `renames_additions`: small constants are added by renaming.
pub fn program(blocks: &[TracedBlock], renames_additions: bool) -> Program {
    let mut program = Program::default();
    let mut sites: HashMap<CodeRef, u32> = HashMap::new();
    let mut factory = InstructionInfoFactory::new();
    for block in blocks {
        let decoder = Decoder::with_ip(64, &block.code, block.start, DecoderOptions::NONE);
        let instructions: Vec<Instruction> = decoder.into_iter().take_while(|i| !i.is_invalid()).collect();
        let fused = block_issue_slots(&instructions);
        let first = program.ops.len() as u32;
        let mut top = 0;
        for (n, instruction) in instructions.iter().enumerate() {
            let offset = instruction.ip() - block.start;
            let at = CodeRef { module: block.at.module, offset: block.at.offset + offset };
            let next = program.sites.len() as u32;
            let site = *sites.entry(at).or_insert(next);
            if site == next {
                program.sites.push(at);
            }
            let mut op = op(instruction, &mut factory, &mut top);
            (op.site, op.offset) = (site, offset as u16);
            if fused[n] == 0 && op.is(kind::BRANCH) {
                op.slots = 0;
            }
            let alone = fused.get(n + 1).is_none_or(|&slots| slots > 0) || !is_branch(instructions.get(n + 1));
            if renames_additions && alone && adds_constant(instruction) {
                (op.form, op.kind) = (NO_FORM, op.kind | kind::MOVES);
            }
            program.ops.push(op);
        }
        let ops = &mut program.ops[first as usize..];
        for (n, instruction) in instructions.iter().enumerate() {
            let next = instructions.get(n + 1).zip(ops.get(n + 1));
            ops[n].renaming = renaming(instruction, &ops[n], next);
        }
        super::fusing::mark(ops);
        let direct = instructions
            .last()
            .filter(|i| matches!(i.flow_control(), FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch));
        program.blocks.push(Block {
            start: block.start,
            end: block.start + block.code.len() as u64,
            first,
            last: program.ops.len() as u32,
            target: direct.map_or(0, Instruction::near_branch_target),
            is_serial: direct.is_some_and(|last| last.near_branch_target() == block.start) && is_serial(&instructions),
        });
    }
    program
}

/// Whether a loop with this body has a recurrence or follows addresses that it loads.
fn is_serial(body: &[Instruction]) -> bool {
    analyse_body(body)
        .is_some_and(|found| are_serial(&found.cycles, found.stored) || found.cycles.iter().any(Cycle::is_chase))
}

fn is_branch(instruction: Option<&Instruction>) -> bool {
    instruction.is_some_and(|i| i.flow_control() == FlowControl::ConditionalBranch)
}

fn op(instruction: &Instruction, factory: &mut InstructionInfoFactory, top: &mut i32) -> Op {
    let facts = classify(instruction);
    let growth = instruction.fpu_stack_increment_info().increment();
    if growth < 0 {
        *top += growth;
    }
    let clears = clears(instruction);
    let uses = uses(instruction, factory.info(instruction), clears, *top);
    if growth > 0 {
        *top += growth;
    }
    let work = if clears { Work { form: None, uops: 0 } } else { work(instruction, &facts) };
    let mut op = Op {
        site: 0,
        offset: 0,
        length: instruction.len() as u8,
        slots: 1,
        form: work.form.map_or(NO_FORM, |form: Form| form.0),
        uops: work.uops.max(1),
        kind: kinds(instruction, &facts, clears),
        address: uses.address,
        data: uses.data,
        writes: uses.writes,
        data_width: data_width(instruction, &facts),
        expression: expression(instruction),
        renaming: Renaming::Never,
    };
    if op.writes.iter().any(|&register| register < 16) {
        op.kind |= kind::GENERAL;
    }
    if op.writes.iter().any(|&register| (crate::op::VECTORS..crate::op::NONE).contains(&register)) {
        op.kind |= kind::VECTOR;
    }
    if work.form.is_some_and(|form| form.kind().is_vector()) {
        op.kind |= kind::VECTOR_WINDOW;
    }
    op.slots = slots(&op, &facts);
    op
}

fn kinds(instruction: &Instruction, facts: &InstructionFacts, clears: bool) -> u16 {
    let mut kinds = 0;
    for access in &facts.accesses {
        kinds |= match access.kind {
            AccessKind::Load | AccessKind::Prefetch | AccessKind::Gather => kind::LOAD,
            AccessKind::Store | AccessKind::NtStore | AccessKind::Scatter => kind::STORE,
        };
    }
    if facts.class == InstructionClass::Branch {
        kinds |= kind::BRANCH;
        kinds |= match instruction.flow_control() {
            FlowControl::ConditionalBranch => kind::CONDITIONAL,
            FlowControl::Call | FlowControl::IndirectCall => kind::CALL,
            FlowControl::Return => kind::RETURN,
            _ => 0,
        };
        let target = instruction.near_branch_target();
        if target != 0 && target <= instruction.ip() && kinds & kind::CALL == 0 {
            kinds |= kind::BACKWARD;
        }
    }
    if clears {
        kinds |= kind::CLEARS;
    }
    if is_eliminated(instruction) {
        kinds |= kind::MOVES;
    }
    if instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix()) {
        kinds |= kind::STRING;
    }
    if facts.fp_instruction && !facts.flops.is_empty() {
        kinds |= kind::ARITHMETIC;
    }
    kinds
}

/// Intel and AMD both keep a load with its operation, and a store's address with its data, in one slot.
fn slots(op: &Op, facts: &InstructionFacts) -> u8 {
    use crate::form::Kind;
    let computes = u8::from(op.form != NO_FORM);
    let form = (op.form != NO_FORM).then(|| Form(op.form).kind());
    let lanes = facts.accesses.iter().any(|a| matches!(a.kind, AccessKind::Gather | AccessKind::Scatter));
    match form {
        _ if lanes => 4,
        Some(Kind::Div64 | Kind::Div32) => 4,
        Some(Kind::Special | Kind::Locked) => 8,
        _ if op.is(kind::CALL | kind::RETURN) => 2,
        _ if op.is(kind::LOAD) && op.is(kind::STORE) => 1 + op.uops.max(computes),
        _ if op.is(kind::STORE) => 1 + computes * op.uops,
        _ => op.uops.max(1),
    }
}

fn data_width(instruction: &Instruction, facts: &InstructionFacts) -> u8 {
    match facts.accesses.first() {
        Some(access) if access.vector => {
            let registers = width_index(width(instruction, facts)) as u8;
            1 + if access.bytes <= 8 && !access.masked { 0 } else { registers.max(1) }
        }
        _ => 0,
    }
}

/// How a core may rename the memory operand of `instruction`, which `next` follows.
fn renaming(instruction: &Instruction, op: &Op, next: Option<(&Instruction, &Op)>) -> Renaming {
    let base = instruction.memory_base();
    let plain = base != Register::None
        && !instruction.is_ip_rel_memory_operand()
        && instruction.memory_index() == Register::None
        && matches!(instruction.memory_size().size(), 4 | 8);
    if !plain {
        return Renaming::Never;
    }
    let computes = match next {
        _ if !op.is(kind::LOAD) => false,
        _ if op.form != NO_FORM => adds_registers(instruction, op),
        Some((next, op)) => adds_registers(next, op) && next.op0_register() == instruction.op0_register(),
        None => false,
    };
    if computes { Renaming::Computed } else { Renaming::Plain }
}

/// Whether it is an addition or logic without an immediate operand.
fn adds_registers(instruction: &Instruction, op: &Op) -> bool {
    let add = op.form != NO_FORM && Form(op.form).kind() == crate::form::Kind::Add;
    let immediate = (0..instruction.op_count()).any(|n| instruction.try_immediate(n).is_ok());
    add && !immediate && instruction.mnemonic() != Mnemonic::Lea
}

fn expression(instruction: &Instruction) -> u32 {
    if !has_memory(instruction) {
        return 0;
    }
    let memory = (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory);
    if !memory {
        return 0;
    }
    let base = instruction.memory_base() as u64;
    let index = instruction.memory_index() as u64;
    let parts = base << 24 ^ index << 8 ^ u64::from(instruction.memory_index_scale());
    let mixed = (parts ^ instruction.memory_displacement64().rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}
