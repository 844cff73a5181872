//! Instruction mixes (A.1.4): one floating-point instruction in k, the rest filler, over a given code footprint.

use iced_x86::{Code, Instruction, Register};

use super::emit::{Emitter, FREE, SCRATCH};
use super::fp::{Destinations, arithmetic};
use super::opcodes::Opcode;
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::{Kernel, PerIteration};
use rprof_isa::operation::{FpOp, Precision, Width};

/// The instructions between the floating-point instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filler {
    /// `mov r32, imm`
    Mov,
    /// `add r64, 1`
    Alu,
    /// `mov r64, [hot line]`
    Load,
}

impl Filler {
    /// All of them.
    pub const ALL: [Filler; 3] = [Filler::Mov, Filler::Alu, Filler::Load];

    /// The name used in ceiling ids.
    pub fn name(self) -> &'static str {
        match self {
            Filler::Mov => "mov",
            Filler::Alu => "alu",
            Filler::Load => "load",
        }
    }
}

/// One of `opcodes` (taking turns) and `k − 1` fillers, repeated until the loop body has `footprint` bytes.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn mix(
    opcodes: &[(Opcode, Width)],
    filler: Filler,
    k: usize,
    footprint: usize,
    features: Features,
) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("mix {} 1/{k} {footprint} B", filler.name()), features);
    let registers = opcodes.iter().map(|(_, width)| e.free_registers(*width)).min().unwrap_or(0);
    for (_, width) in opcodes {
        e.load_operands(Precision::Dp, *width);
        e.load_chains(Precision::Dp, *width, registers);
    }
    let all: Vec<Opcode> = opcodes.iter().map(|(opcode, _)| *opcode).collect();
    let mut destinations = Destinations::new(&all, registers);
    // `mov r32, imm` is 5 or 6 bytes, `add r64, imm8` 4, a load 7; FP instructions 4 to 6.
    let filler_bytes = match filler {
        Filler::Mov => 6,
        Filler::Alu => 4,
        Filler::Load => 7,
    };
    let turns = (footprint / (5 + (k - 1) * filler_bytes)).max(1).next_multiple_of(opcodes.len());
    let head = e.loop_head();
    let mut work = PerIteration::default();
    let mut fillers = 0;
    for turn in 0..turns {
        let (opcode, width) = opcodes[turn % opcodes.len()];
        arithmetic(&mut e, opcode, width, destinations.next(opcode), false, Register::None);
        work.flops += opcode.flops;
        for _ in 1..k {
            let register = FREE[fillers % FREE.len()];
            match filler {
                Filler::Mov => e.immediate(Code::Mov_r32_imm32, register.full_register32(), fillers as i64),
                Filler::Alu => e.immediate(Code::Add_rm64_imm8, register, 1),
                Filler::Load => {
                    let at = SCRATCH + 8 * (fillers % 64) as i64;
                    e.load(Code::Mov_r64_rm64, register, Register::RSI, at);
                }
            }
            fillers += 1;
        }
    }
    e.loop_end(Register::RDI, head);
    work.payload = (turns + fillers) as u64;
    work.instructions = work.payload + 2;
    match filler {
        Filler::Alu => work.int_ops = fillers as u64,
        Filler::Load => {
            work.loads = fillers as u64;
            work.bytes_loaded = 8 * fillers as u64;
        }
        Filler::Mov => {}
    }
    e.finish(work)
}

/// The instructions that fill the issue slots in [`issue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    /// `nop`, which some cores fuse or drop before they issue it.
    Nop,
    /// `mov r64, r64`, which costs nothing on cores that can eliminate it.
    Mov,
    /// `mov r64, r64`, `add r64, r64`, and a vector addition in turn, so that each unit gets at most a third.
    Mixed,
}

/// Instructions that need as little as possible beside an issue slot: the upper limit of any mix.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn issue(slots: Slots, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("issue {slots:?}"), features);
    let adds = super::opcodes::floating(FpOp::Add, Precision::Dp, Width::W128, features);
    e.load_operands(Precision::Dp, Width::W128);
    let head = e.loop_head();
    let mut work = PerIteration { instructions: 194, payload: 194, ..Default::default() };
    for n in 0..192 {
        let (to, from) = (FREE[n % 4], FREE[4 + n % 4]);
        match (slots, n % 3, adds) {
            (Slots::Nop, ..) => e.push(Instruction::with(Code::Nopd)),
            (Slots::Mixed, 1, _) => {
                e.two(Code::Add_r64_rm64, from, Register::RSI);
                work.int_ops += 1;
            }
            (Slots::Mixed, 2, Some(add)) => {
                arithmetic(&mut e, add, Width::W128, n % 12, false, Register::None);
                work.flops += add.flops;
            }
            _ => e.two(Code::Mov_r64_rm64, to, from),
        }
    }
    e.loop_end(Register::RDI, head);
    e.finish(work)
}
