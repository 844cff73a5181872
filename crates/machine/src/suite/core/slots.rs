//! `width.*`: instructions that enter the core in a cycle, and taken jumps.

use iced_x86::{Code, Instruction, Register};

use super::emission::{Body, Vectors, general, looped};
use super::found::{Found, Unit, Value};
use super::rounds::{Piece, Timed};
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::PerIteration;
use crate::kernels::x86_64::emit::{Emitter, SCRATCH, vector};
use crate::kernels::x86_64::opcodes::{Form, floating};
use rprof_isa::operation::{FpOp, Precision, Width};

/// Instructions of a loop: a common multiple of the mixes' lengths, large enough that the loop overhead does not matter.
const INSTRUCTIONS: usize = 240;

/// Jumps of a loop, and bytes from one to the next.
const JUMPS: usize = 64;
const SPACINGS: [usize; 4] = [8, 16, 32, 64];

/// An instruction of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Move,
    Add,
    Vector,
    Load,
    Nop,
}

/// Mixes in which each unit is needed by only part of the instructions.
const MIXES: [&[Slot]; 5] = [
    &[Slot::Move],
    &[Slot::Add],
    &[Slot::Move, Slot::Add, Slot::Vector],
    &[Slot::Move, Slot::Add, Slot::Vector, Slot::Add, Slot::Load],
    &[Slot::Nop],
];

impl Slot {
    fn emit(self, e: &mut Emitter, n: usize) {
        match self {
            Slot::Move => e.two(Code::Mov_r64_rm64, general(n % 6), Register::RSI),
            Slot::Add => e.two(Code::Add_r64_rm64, general(6 + n % 6), Register::RSI),
            Slot::Load => e.load(Code::Mov_r64_rm64, Register::RCX, Register::RSI, SCRATCH + 8 * (n % 64) as i64),
            Slot::Nop => e.push(Instruction::with(Code::Nopd)),
            Slot::Vector => {
                let Some(add) = floating(FpOp::Add, Precision::Dp, Width::W128, e.features()) else { return };
                let (to, ones) = (vector(Width::W128, n % 12), e.operands(Width::W128).0);
                match add.form {
                    Form::Destructive => e.two(add.code, to, ones),
                    _ => e.three(add.code, to, ones, ones),
                }
            }
        }
    }
}

/// Emits the kernels after `pieces`; returns the index of the first of each kind.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn emit(features: Features, pieces: &mut Vec<Piece>) -> Result<Slots, MachineError> {
    let mixes = pieces.len();
    for mix in MIXES {
        let body: Body = Box::new(move |e, n| mix[n % mix.len()].emit(e, n));
        let steps: Vec<(&Body, usize)> = (0..INSTRUCTIONS).map(|n| (&body, n)).collect();
        let vectors = Some(Vectors { precision: Precision::Dp, width: Width::W128 });
        let name = format!("issue {mix:?}");
        pieces.push(Piece::new(looped(&name, features, vectors, (&steps, INSTRUCTIONS as u64), |_| ())?)?);
    }
    let jumps = pieces.len();
    for spacing in SPACINGS {
        pieces.push(Piece::new(taken(spacing, features)?)?);
    }
    Ok(Slots { mixes, jumps })
}

/// A chain of taken jumps over code that is never executed.
fn taken(spacing: usize, features: Features) -> Result<crate::kernels::Kernel, MachineError> {
    let mut e = Emitter::new(format!("jumps {spacing} bytes apart"), features);
    let head = e.loop_head();
    for _ in 0..JUMPS {
        let next = e.forward();
        e.branch(Code::Jmp_rel32_64, next);
        // The jump itself has two bytes.
        (2..spacing).for_each(|_| e.push(Instruction::with(Code::Int3)));
        e.place(next);
    }
    e.loop_end(Register::RDI, head);
    let jumps = JUMPS as u64;
    e.finish(PerIteration { instructions: jumps + 2, payload: jumps + 1, ..Default::default() })
}

/// Indices of the pieces.
pub struct Slots {
    mixes: usize,
    jumps: usize,
}

impl Slots {
    /// Notes the times of the pieces.
    pub fn note(&self, timed: &[Option<Timed>], found: &mut Found) {
        let at = |first: usize, count: usize| timed.iter().skip(first).take(count).map(|timed| timed.map(value));
        let mixes: Vec<Option<Value>> = at(self.mixes, MIXES.len()).collect();
        let (nops, others) = mixes.split_last().map_or((None, &[][..]), |(nops, others)| (*nops, others));
        // Some cores drop nops before they count them, so nops do not show the width for other instructions.
        match (best(others), nops) {
            (Some(best), Some(nops)) if nops.value > MORE * best.value => {
                let remark = format!("the best of mixes; of nops {:.1} a cycle", nops.value);
                found.remarked("width.dispatch", Unit::Rate, best, remark);
            }
            (Some(best), _) => found.measured("width.dispatch", Unit::Rate, best),
            (None, _) => found.no_time("width.dispatch", Unit::Rate),
        }
        match best(&at(self.jumps, SPACINGS.len()).collect::<Vec<_>>()) {
            Some(best) => found.measured("width.taken", Unit::Rate, best),
            None => found.no_time("width.taken", Unit::Rate),
        }
    }
}

/// Ratio of nops to the best of the other mixes from which on a remark mentions it.
const MORE: f64 = 1.05;

/// Events a cycle.
fn value(timed: Timed) -> Value {
    Value { value: 1.0 / timed.cycles, clock_hz: timed.clock_hz, spread: timed.spread }
}

fn best(values: &[Option<Value>]) -> Option<Value> {
    values.iter().flatten().copied().max_by(|a, b| a.value.total_cmp(&b.value))
}
