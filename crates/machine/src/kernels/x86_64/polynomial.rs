//! The Roofline Toolkit's kernel: a polynomial of growing degree for each element, from L1-bound to FLOP-bound.

use iced_x86::{Code, Register};

use super::emit::{Emitter, INNER, POINTERS, vector, vector_bytes};
use super::opcodes::floating;
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::{Kernel, PerIteration};
use rprof_isa::operation::{FpOp, Precision, Width};

/// Vectors side by side in a body, so that their polynomials overlap.
pub const SIDE_BY_SIDE: usize = 8;

/// Loads a vector, does `flops` FLOPs on each element (1: one addition; else FMAs, or multiply-add pairs), stores it.
///
/// `flops` is 1 or even. One outer iteration is a pass of `inner` bodies over array 0.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn polynomial(flops: usize, width: Width, features: Features) -> Result<Option<Kernel>, MachineError> {
    let precision = Precision::Dp;
    let of = |op| floating(op, precision, width, features);
    let steps: Vec<_> = match (flops, of(FpOp::Fma), of(FpOp::Mul), of(FpOp::Add)) {
        (1, _, _, Some(add)) => vec![add],
        (n, Some(fma), _, _) => vec![fma; n / 2],
        (n, None, Some(mul), Some(add)) => (0..n).map(|i| if i % 2 == 0 { mul } else { add }).collect(),
        _ => return Ok(None),
    };
    let mut e = Emitter::new(format!("polynomial {flops}"), features);
    let (load, store) = (e.move_load(width), e.move_store(width));
    let bytes = vector_bytes(width) as i64;
    e.load_operands(precision, width);
    let outer = e.label();
    e.load(Code::Mov_r64_rm64, Register::R8, Register::RSI, POINTERS);
    e.load(Code::Mov_r64_rm64, Register::RBX, Register::RSI, INNER);
    let head = e.loop_head();
    let before = e.count();
    for n in 0..SIDE_BY_SIDE {
        e.load(load, vector(width, n), Register::R8, n as i64 * bytes);
    }
    for step in &steps {
        for n in 0..SIDE_BY_SIDE {
            super::fp::arithmetic(&mut e, *step, width, n, true, Register::None);
        }
    }
    for n in 0..SIDE_BY_SIDE {
        e.store(store, Register::R8, n as i64 * bytes, vector(width, n));
    }
    e.immediate(Code::Add_rm64_imm32, Register::R8, bytes * SIDE_BY_SIDE as i64);
    e.loop_end(Register::RBX, head);
    let instructions = (e.count() - before) as u64;
    e.loop_end(Register::RDI, outer);
    let side = SIDE_BY_SIDE as u64;
    let work = PerIteration {
        instructions,
        payload: side * (2 + steps.len() as u64),
        flops: side * steps.iter().map(|s| s.flops).sum::<u64>(),
        loads: side,
        stores: side,
        bytes_loaded: side * bytes as u64,
        bytes_stored: side * bytes as u64,
        ..Default::default()
    };
    e.finish(work).map(Some)
}
