//! Integer arithmetic, and the chains that measure the clock.

use iced_x86::{Code, Register};

use super::emit::{Emitter, FREE};
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::{Kernel, PerIteration};

/// A long dependent chain of `add r64, r64`: exactly one cycle each on every x86-64 core.
///
/// Immediates are no alternative: some cores fold them into the rename stage.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn additions(features: Features) -> Result<Kernel, MachineError> {
    chain_of(Scalar::Add, 512, features)
}

/// A long dependent chain of `imul r64, r64`: the same number of cycles each, three on most cores.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn multiplications(features: Features) -> Result<Kernel, MachineError> {
    chain_of(Scalar::Mul, 128, features)
}

/// A scalar integer instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// `add r64, r64`
    Add,
    /// `imul r64, r64`
    Mul,
    /// `xor r64, r64`
    Logic,
    /// `rol r64, 7`
    Rotate,
    /// `add r64, 18`
    AddImmediate,
    /// `xor r64, 85`
    LogicImmediate,
    /// `div r64`-free 64-bit division is left out: `div r32`, quotient chained.
    Divide,
}

fn scalar(e: &mut Emitter, op: Scalar, register: Register) {
    match op {
        Scalar::Add => e.two(Code::Add_r64_rm64, register, Register::RSI),
        Scalar::Mul => e.two(Code::Imul_r64_rm64, register, Register::RSI),
        Scalar::Logic => e.two(Code::Xor_r64_rm64, register, Register::RSI),
        Scalar::Rotate => e.immediate(Code::Rol_rm64_imm8, register, 7),
        Scalar::AddImmediate => e.immediate(Code::Add_rm64_imm8, register, 18),
        Scalar::LogicImmediate => e.immediate(Code::Xor_rm64_imm8, register, 85),
        Scalar::Divide => {
            e.two(Code::Xor_r32_rm32, Register::EDX, Register::EDX);
            e.two(Code::Or_r32_rm32, Register::EAX, Register::R8D);
            e.one(Code::Div_rm32, Register::R9D);
        }
    }
}

/// Integer instructions on eight registers, `ops` taking turns.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn throughput(ops: &[Scalar], features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("integer {ops:?}"), features);
    let head = e.loop_head();
    let count = 8 * ops.len() * 4;
    for n in 0..count {
        scalar(&mut e, ops[n % ops.len()], FREE[n % FREE.len()]);
    }
    e.loop_end(Register::RDI, head);
    let count = count as u64;
    e.finish(PerIteration { instructions: count + 2, payload: count, int_ops: count, ..Default::default() })
}

/// One dependent chain.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn chain(op: Scalar, features: Features) -> Result<Kernel, MachineError> {
    chain_of(op, 32, features)
}

fn chain_of(op: Scalar, steps: u64, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("integer chain {op:?}"), features);
    e.immediate(Code::Mov_r32_imm32, Register::R8D, 0x4000_0000);
    e.immediate(Code::Mov_r32_imm32, Register::R9D, 3);
    let head = e.loop_head();
    let before = e.count();
    for _ in 0..steps {
        scalar(&mut e, op, Register::RAX);
    }
    e.loop_end(Register::RDI, head);
    let instructions = (e.count() - before) as u64;
    let int_ops = if op == Scalar::Divide { 3 * steps } else { steps };
    e.finish(PerIteration { instructions, payload: steps, int_ops, ..Default::default() })
}
