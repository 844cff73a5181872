//! Assembles the kernels of this folder: registers set up, then a loop of equal steps.

use iced_x86::{Code, Register};

use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::x86_64::emit::Emitter;
use crate::kernels::{Kernel, PerIteration};
use rprof_isa::operation::{Precision, Width};

/// General registers that steps may use; `rsi` and `rdi` belong to the loop. All are zero at first.
pub const GENERAL: [Register; 13] = [
    Register::RAX,
    Register::RDX,
    Register::RBX,
    Register::RBP,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
    Register::RCX,
];

/// Appends the n-th step of its kind.
pub type Body = Box<dyn Fn(&mut Emitter, usize)>;

/// The initial values of the vector registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vectors {
    /// Precision of the values, which are near one.
    pub precision: Precision,
    /// Width of the registers.
    pub width: Width,
}

/// General register `n` of those that independent steps use in turn.
pub fn general(n: usize) -> Register {
    GENERAL[n % GENERAL.len()]
}

/// A kernel with a loop of `steps`, each a body and its ordinal number. `payload`: events of one iteration.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn looped(
    name: &str,
    features: Features,
    vectors: Option<Vectors>,
    (steps, payload): (&[(&Body, usize)], u64),
    setup: impl Fn(&mut Emitter),
) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(name, features);
    if let Some(Vectors { precision, width }) = vectors {
        let registers = e.free_registers(width);
        e.load_operands(precision, width);
        e.load_chains(precision, width, registers);
    }
    if features.avx512f {
        e.three(Code::VEX_Kxnorw_kr_kr_kr, Register::K1, Register::K0, Register::K0);
    }
    for register in GENERAL {
        e.two(Code::Xor_r32_rm32, register.full_register32(), register.full_register32());
    }
    setup(&mut e);
    let head = e.loop_head();
    let before = e.count();
    for (body, n) in steps {
        body(&mut e, *n);
    }
    e.loop_end(Register::RDI, head);
    let instructions = (e.count() - before) as u64;
    e.finish(PerIteration { instructions, payload, ..Default::default() })
}
