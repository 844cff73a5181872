//! `forward.*`: a load of data that a store has not yet written.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::emission::{Body, Vectors, looped};
use super::found::{Found, Unit, Value};
use super::rounds::{Piece, Timed};
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::x86_64::emit::{Emitter, SCRATCH, vector};
use rprof_isa::operation::{Precision, Width};

/// Links of a chain.
const LINKS: usize = 16;

/// A second register with the address of `rsi`, and an index with the value of [`SCRATCH`].
const BASE: Register = Register::R8;
const INDEX: Register = Register::R9;

const VECTORS: [Width; 3] = [Width::W128, Width::W256, Width::W512];

/// Indices of the pieces, by id; `None` if this CPU has no such vectors.
pub struct Forwarding(Vec<(String, Option<usize>)>);

/// Emits the kernels after `pieces`.
///
/// # Errors
/// A chain that cannot be encoded.
pub fn emit(features: Features, pieces: &mut Vec<Piece>) -> Result<Forwarding, MachineError> {
    let mut places = Vec::new();
    for (id, body) in general() {
        places.push((format!("forward.{id}"), Some(pieces.len())));
        // Whether a core fuses a load with the next instruction depends on the addresses of both; in short loops it does.
        let links = if id == "computed" { 1 } else { LINKS };
        pieces.push(Piece::new(chain(features, None, &body, links)?)?);
    }
    for width in VECTORS {
        let id = format!("forward.vector.{}", width.name());
        if !features.widths().contains(&width) {
            places.push((id, None));
            continue;
        }
        let body: Body = Box::new(move |e, _| {
            let (load, store) = (e.move_load(width), e.move_store(width));
            e.store(store, Register::RSI, SCRATCH, vector(width, 0));
            e.load(load, vector(width, 0), Register::RSI, SCRATCH);
        });
        places.push((id, Some(pieces.len())));
        pieces.push(Piece::new(chain(features, Some(Vectors { precision: Precision::Dp, width }), &body, LINKS)?)?);
    }
    Ok(Forwarding(places))
}

/// Chains through a general register. Some cores rename memory, but not with every operand.
fn general() -> [(&'static str, Body); 5] {
    let eax = Register::EAX;
    let rax = Register::RAX;
    let indexed = MemoryOperand::with_base_index(Register::RSI, INDEX);
    [
        (
            "wide",
            Box::new(move |e, _| {
                e.store(Code::Mov_rm32_r32, Register::RSI, SCRATCH, eax);
                e.store(Code::Mov_rm32_r32, Register::RSI, SCRATCH + 4, eax);
                e.load(Code::Mov_r64_rm64, rax, Register::RSI, SCRATCH);
            }),
        ),
        (
            "narrow",
            Box::new(move |e, _| {
                e.store(Code::Mov_rm32_r32, Register::RSI, SCRATCH, eax);
                e.load(Code::Mov_r32_rm32, eax, Register::RSI, SCRATCH);
            }),
        ),
        (
            "indexed",
            Box::new(move |e, _| {
                e.checked(Instruction::with2(Code::Mov_rm64_r64, indexed, rax));
                e.checked(Instruction::with2(Code::Mov_r64_rm64, rax, indexed));
            }),
        ),
        (
            "base",
            Box::new(move |e, _| {
                e.store(Code::Mov_rm64_r64, Register::RSI, SCRATCH, rax);
                e.load(Code::Mov_r64_rm64, rax, BASE, SCRATCH);
            }),
        ),
        (
            "computed",
            Box::new(move |e, _| {
                e.load(Code::Mov_r64_rm64, rax, Register::RSI, SCRATCH);
                e.two(Code::Add_rm64_r64, rax, INDEX);
                e.store(Code::Mov_rm64_r64, Register::RSI, SCRATCH, rax);
            }),
        ),
    ]
}

fn chain(
    features: Features,
    vectors: Option<Vectors>,
    body: &Body,
    links: usize,
) -> Result<crate::kernels::Kernel, MachineError> {
    let steps: Vec<(&Body, usize)> = (0..links).map(|n| (body, n)).collect();
    looped("forward", features, vectors, (&steps, links as u64), |e: &mut Emitter| {
        e.two(Code::Mov_r64_rm64, BASE, Register::RSI);
        e.immediate(Code::Mov_r64_imm64, INDEX, SCRATCH);
    })
}

impl Forwarding {
    /// Notes the times of the pieces.
    pub fn note(&self, timed: &[Option<Timed>], found: &mut Found) {
        for (id, place) in &self.0 {
            let Some(place) = *place else {
                found.missing(id, Unit::Time, "this CPU has no vectors of this width");
                continue;
            };
            match timed.get(place).copied().flatten() {
                Some(Timed { cycles, clock_hz, spread }) => {
                    found.measured(id, Unit::Time, Value { value: cycles, clock_hz, spread });
                }
                None => found.no_time(id, Unit::Time),
            }
        }
    }
}
