//! `mispredict.indirect`: the cost of an indirect jump with another target than last time.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::found::{Found, Unit, Value};
use super::rounds::{Piece, Timed};
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::x86_64::emit::{Emitter, Label, SEEDS};
use crate::kernels::{Kernel, PerIteration};

/// Multiplier and increment of a 64-bit generator (Knuth's MMIX).
const MULTIPLIER: i64 = 6_364_136_223_846_793_005;
const INCREMENT: i32 = 1_442_695_041;

/// A jump to one of two places by a random bit (`random`), or always to the same. All else is equal.
fn jumps(random: bool, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(if random { "indirect random" } else { "indirect predictable" }, features);
    e.load(Code::Mov_r64_rm64, Register::RAX, Register::RSI, SEEDS);
    e.immediate(Code::Mov_r64_imm64, Register::R9, MULTIPLIER);
    e.two(Code::Xor_r32_rm32, Register::EBP, Register::EBP);
    let tested = if random { Register::RAX } else { Register::RBP };
    let (one, other) = (e.forward(), e.forward());
    address(&mut e, Register::R12, one);
    address(&mut e, Register::R13, other);
    let head = e.loop_head();
    e.two(Code::Imul_r64_rm64, Register::RAX, Register::R9);
    e.immediate(Code::Add_rm64_imm32, Register::RAX, i64::from(INCREMENT));
    e.two(Code::Test_rm64_r64, tested, tested);
    e.two(Code::Mov_r64_rm64, Register::RBX, Register::R12);
    e.two(Code::Cmovs_r64_rm64, Register::RBX, Register::R13);
    e.one(Code::Jmp_rm64, Register::RBX);
    e.place(one);
    e.immediate(Code::Add_rm64_imm8, Register::RCX, 1);
    e.place(other);
    e.loop_end(Register::RDI, head);
    e.store(Code::Mov_rm64_r64, Register::RSI, SEEDS, Register::RAX);
    e.finish(PerIteration { instructions: 9, payload: 1, ..Default::default() })
}

/// Puts the address of a label into a register.
fn address(e: &mut Emitter, to: Register, label: Label) {
    let at = MemoryOperand::with_base_displ_size(Register::RIP, label.target() as i64, 8);
    e.checked(Instruction::with2(Code::Lea_r64_m, to, at));
}

/// Emits the kernels after `pieces`; returns the index of the first.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn emit(features: Features, pieces: &mut Vec<Piece>) -> Result<usize, MachineError> {
    let first = pieces.len();
    for random in [false, true] {
        pieces.push(Piece::of_random(jumps(random, features)?)?);
    }
    Ok(first)
}

/// Notes the times of the pieces from `first` on.
pub fn note(first: usize, timed: &[Option<Timed>], found: &mut Found) {
    let id = "mispredict.indirect";
    let at = |n: usize| timed.get(first + n).copied().flatten();
    let (Some(predicted), Some(random)) = (at(0), at(1)) else {
        found.no_time(id, Unit::Time);
        return;
    };
    // A random one of two places is mispredicted every second time.
    let value = 2.0 * (random.cycles - predicted.cycles);
    let how = "random jumps to two places less such to one, twice";
    found.derived(id, Unit::Time, Value { value, clock_hz: random.clock_hz, spread: random.spread }, how);
}
