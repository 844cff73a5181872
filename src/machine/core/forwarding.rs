//! `forward.*`: a load of what a store has not yet written.

use iced_x86::{Code, Register};

use super::emission::{Body, Vectors, repeated};
use super::found::{Found, NO_TIME, Unit, Value};
use super::rounds::{Piece, Timed};
use crate::isa::operation::{Precision, Width};
use crate::machine::error::MachineError;
use crate::machine::features::Features;
use crate::machine::kernels::x86_64::emit::{SCRATCH, vector};

/// Links of a chain.
const LINKS: usize = 16;

const VECTORS: [Width; 3] = [Width::W128, Width::W256, Width::W512];

/// Where the pieces are.
pub struct Forwarding {
    wide: usize,
    vectors: [Option<usize>; 3],
}

/// Emits the kernels behind `pieces`.
///
/// # Errors
/// A chain that cannot be encoded.
pub fn emit(features: Features, pieces: &mut Vec<Piece>) -> Result<Forwarding, MachineError> {
    let wide = pieces.len();
    let halves: Body = Box::new(|e, _| {
        e.store(Code::Mov_rm32_r32, Register::RSI, SCRATCH, Register::EAX);
        e.store(Code::Mov_rm32_r32, Register::RSI, SCRATCH + 4, Register::EAX);
        e.load(Code::Mov_r64_rm64, Register::RAX, Register::RSI, SCRATCH);
    });
    pieces.push(Piece::new(repeated("forward two to one", features, None, &halves, LINKS)?)?);
    let mut vectors = [None; 3];
    for (place, width) in vectors.iter_mut().zip(VECTORS) {
        if !features.widths().contains(&width) {
            continue;
        }
        let body: Body = Box::new(move |e, _| {
            let (load, store) = (e.move_load(width), e.move_store(width));
            e.store(store, Register::RSI, SCRATCH, vector(width, 0));
            e.load(load, vector(width, 0), Register::RSI, SCRATCH);
        });
        *place = Some(pieces.len());
        let of = Some(Vectors { precision: Precision::Dp, width });
        pieces.push(Piece::new(repeated("forward a vector", features, of, &body, LINKS)?)?);
    }
    Ok(Forwarding { wide, vectors })
}

impl Forwarding {
    /// Notes what the pieces took.
    pub fn note(&self, timed: &[Option<Timed>], found: &mut Found) {
        let names = VECTORS.map(|width| format!("forward.vector.{}", width.name()));
        let vectors = names.iter().map(String::as_str).zip(self.vectors);
        for (id, place) in std::iter::once(("forward.wide", Some(self.wide))).chain(vectors) {
            let Some(place) = place else {
                found.missing(id, Unit::Time, "this CPU has no vectors of this width");
                continue;
            };
            match timed.get(place).copied().flatten() {
                Some(Timed { cycles, clock_hz, spread }) => {
                    found.measured(id, Unit::Time, Value { value: cycles, clock_hz, spread });
                }
                None => found.missing(id, Unit::Time, NO_TIME),
            }
        }
    }
}
