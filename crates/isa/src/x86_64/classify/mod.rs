//! Decoded instruction → facts.
//!
//! ```text
//!  Instruction ─▶ work (arithmetic | conversion | integer, ordered tables keyed on the mnemonic enum)
//!              ─▶ lanes (register operands)      ─▶ FLOPs, integer operations
//!              ─▶ dynamic (mask operand, prefix) ─▶ what only run time tells
//!              ─▶ accesses (memory operands)     ─▶ class
//! ```
//!
//! Nothing here looks at text; a mnemonic that no table names does no work.

mod accesses;
mod arithmetic;
mod class;
mod conversion;
mod dynamic;
mod integer;
mod movement;
mod operands;

use std::sync::OnceLock;

use iced_x86::{Code, Instruction, Mnemonic};

use crate::facts::{FlopFact, InstructionFacts};
use crate::operation::Width;

use arithmetic::{Arithmetic, Lanes};
use integer::IntegerWork;

/// The tables' entry for a mnemonic.
#[derive(Debug, Clone, Copy)]
enum Work {
    Arithmetic(Arithmetic),
    Conversion { packed: bool },
    Integer(IntegerWork),
}

/// The facts of a decoded instruction. An invalid instruction has none but its length.
pub fn classify(instruction: &Instruction) -> InstructionFacts {
    let mut facts = InstructionFacts { length: instruction.len() as u8, issue_slots: 1, ..Default::default() };
    if instruction.is_invalid() {
        return facts;
    }
    let work = work(instruction);
    match work {
        Some(Work::Arithmetic(arithmetic)) => {
            let flop = flops(instruction, arithmetic);
            facts.fp_instruction = true;
            facts.simd_instruction = flop.width != Width::Scalar;
            if flop.flops > 0 {
                facts.flops.push(flop);
            }
        }
        Some(Work::Conversion { packed }) => {
            facts.fp_instruction = true;
            facts.simd_instruction = packed;
        }
        Some(Work::Integer(integer)) => facts.int_ops = lanes(instruction, integer.lanes) * integer.per_lane,
        None => {}
    }
    facts.accesses = accesses::accesses(instruction);
    facts.dynamic = dynamic::dynamic(instruction, masked_lanes(instruction, work), &mut facts.accesses);
    facts.class = class::class(instruction, &facts);
    if facts.class == crate::facts::InstructionClass::Nop {
        facts.issue_slots = 0;
    }
    facts
}

/// The table entry of an instruction.
fn work(instruction: &Instruction) -> Option<Work> {
    // The string instruction and the SSE2 compare share a mnemonic.
    if instruction.code() == Code::Cmpsd_xmm_xmmm64_imm8 {
        return Some(Work::Conversion { packed: false });
    }
    table()[instruction.mnemonic() as usize]
}

fn table() -> &'static [Option<Work>] {
    static TABLE: OnceLock<Vec<Option<Work>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = vec![None; Mnemonic::values().len()];
        let arithmetic = arithmetic::ARITHMETIC.iter().map(|(row, names)| (Work::Arithmetic(*row), *names));
        let conversion =
            conversion::CONVERSION.iter().map(|(packed, names)| (Work::Conversion { packed: *packed }, *names));
        let integer = integer::INTEGER.iter().map(|(row, names)| (Work::Integer(*row), *names));
        for (work, names) in arithmetic.chain(conversion).chain(integer) {
            for &name in names {
                table[name as usize].get_or_insert(work);
            }
        }
        table
    })
}

/// FLOPs = lanes × per_lane; the dot products: per 128 bits, n selected products and n − 1 adds.
fn flops(instruction: &Instruction, row: Arithmetic) -> FlopFact {
    let width = width(instruction, row.lanes);
    let (flops, lanes) = match row.lanes {
        Lanes::Selected(of) => {
            let selected = (instruction.immediate8() >> 4 & ((1 << of) - 1)).count_ones();
            let blocks = operands::vector_bytes(instruction) / 16;
            (blocks * (2 * selected).saturating_sub(1), 1)
        }
        by => {
            let lanes = lanes(instruction, by);
            (lanes * row.per_lane, lanes)
        }
    };
    FlopFact { op: row.op, precision: row.precision, width, flops, lanes }
}

fn lanes(instruction: &Instruction, lanes: Lanes) -> u32 {
    match lanes {
        Lanes::One | Lanes::Selected(_) => 1,
        Lanes::Vector(bytes) => (operands::vector_bytes(instruction) / bytes).max(1),
    }
}

/// Lanes that a mask operand acts on, if the tables have them.
fn masked_lanes(instruction: &Instruction, work: Option<Work>) -> Option<u32> {
    match work? {
        Work::Arithmetic(row) => Some(lanes(instruction, row.lanes)),
        Work::Integer(row) => Some(lanes(instruction, row.lanes)),
        Work::Conversion { .. } => None,
    }
}

fn width(instruction: &Instruction, lanes: Lanes) -> Width {
    match (operands::vector_bytes(instruction), lanes) {
        (operands::TILE_BYTES, _) => Width::W512,
        (_, Lanes::One) => Width::Scalar,
        (64, _) => Width::W512,
        (32, _) => Width::W256,
        _ => Width::W128,
    }
}
