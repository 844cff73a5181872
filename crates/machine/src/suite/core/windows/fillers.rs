//! Two independent misses with a given number of other instructions between them.

use iced_x86::{Code, Instruction, Register};

use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::x86_64::emit::{CHAINS, Emitter, SCRATCH, vector};
use crate::kernels::x86_64::opcodes::floating;
use crate::kernels::{Kernel, PerIteration};
use crate::suite::core::emission::GENERAL;
use rprof_isa::operation::FpOp;
use rprof_isa::operation::{Precision, Width};

/// The instructions between the misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filler {
    /// `nop`: takes nothing but a place among the instructions under way.
    Nop,
    /// `nop`, additions, vector additions and loads in turn: a mixture as in programs, so that no single resource is used up.
    Mixture,
    /// Additions that wait for the miss.
    WaitingInteger,
    /// Vector additions that wait for the miss.
    WaitingVector,
    /// Additions that wait for nothing: each holds a register until the miss is over.
    Integer,
    /// Vector additions that wait for nothing.
    Vector,
    /// Loads from L1.
    Load,
    /// Stores to L1.
    Store,
}

/// Registers of the two misses.
const MISSES: [Register; 2] = [Register::RAX, Register::RDX];

/// The register that filler `n` writes: one of ten that neither a miss nor the loop needs.
fn written(n: usize) -> Register {
    GENERAL[MISSES.len() + n % 10]
}

/// A vector register for each miss, if fillers wait for it.
const WAITED_FOR: [usize; 2] = [0, 1];

impl Filler {
    /// Instructions beside the fillers that wait for the miss in the same place or hold the same resource.
    pub fn beside(self) -> usize {
        match self {
            Filler::Nop | Filler::Mixture | Filler::Integer | Filler::Load | Filler::WaitingVector => 2,
            Filler::WaitingInteger | Filler::Vector | Filler::Store => 0,
        }
    }

    /// Emits the code between a miss and its fillers.
    fn begin(self, e: &mut Emitter, side: usize) {
        if self != Filler::WaitingVector {
            return;
        }
        let avx = e.features().avx;
        let (to, ones) = (vector(Width::W128, WAITED_FOR[side]), e.operands(Width::W128).0);
        if avx {
            e.two(Code::VEX_Vmovq_xmm_rm64, to, MISSES[side]);
            e.three(Code::VEX_Vorpd_xmm_xmm_xmmm128, to, to, ones);
        } else {
            e.two(Code::Movq_xmm_rm64, to, MISSES[side]);
            e.two(Code::Orpd_xmm_xmmm128, to, ones);
        }
    }

    fn emit(self, e: &mut Emitter, side: usize, n: usize) {
        let register = written(n);
        match self {
            Filler::Nop => e.push(Instruction::with(Code::Nopd)),
            Filler::Mixture => {
                [Filler::Nop, Filler::Integer, Filler::Vector, Filler::Nop, Filler::Load][n % 5].emit(e, side, n / 5);
            }
            Filler::WaitingInteger => e.two(Code::Add_r64_rm64, register, MISSES[side]),
            Filler::Integer => e.two(Code::Add_r64_rm64, register, Register::RSI),
            Filler::WaitingVector => add(e, n, WAITED_FOR[side]),
            Filler::Vector => add(e, n, 15),
            Filler::Load if n.is_multiple_of(2) => {
                e.load(Code::Mov_r64_rm64, register, Register::RSI, SCRATCH + 8 * (n % 64) as i64);
            }
            Filler::Load => {
                let load = e.move_load(Width::W128);
                e.load(load, vector(Width::W128, 2 + n % 12), Register::RSI, SCRATCH + 8 * (n % 64 / 2 * 2) as i64);
            }
            Filler::Store => {
                e.store(Code::Mov_rm64_r64, Register::RSI, SCRATCH + 8 * (n % 64) as i64, Register::RSI);
            }
        }
    }
}

/// A vector addition that reads register `from`.
fn add(e: &mut Emitter, n: usize, from: usize) {
    let Some(opcode) = floating(FpOp::Add, Precision::Dp, Width::W128, e.features()) else { return };
    let (to, ones) = (vector(Width::W128, 2 + n % 12), e.operands(Width::W128).0);
    let from = vector(Width::W128, from);
    if e.features().avx {
        e.three(opcode.code, to, ones, from);
    } else {
        e.two(opcode.code, to, from);
    }
}

/// One hop of each of two chases, followed by `count` fillers each.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn kernel(filler: Filler, count: usize, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("{count} {filler:?} between misses"), features);
    e.load_operands(Precision::Dp, Width::W128);
    e.load_chains(Precision::Dp, Width::W128, 14);
    for (n, register) in MISSES.into_iter().enumerate() {
        e.load(Code::Mov_r64_rm64, register, Register::RSI, CHAINS + 8 * n as i64);
    }
    let head = e.label();
    for (side, register) in MISSES.into_iter().enumerate() {
        e.load(Code::Mov_r64_rm64, register, register, 0);
        filler.begin(&mut e, side);
        for n in 0..count {
            filler.emit(&mut e, side, n);
        }
    }
    e.loop_end(Register::RDI, head);
    let instructions = 2 * (count as u64 + 1) + 2;
    e.finish(PerIteration { instructions, payload: 1, ..Default::default() })
}
