//! Loads and stores per cycle from a few hot lines, by width and register file.

use iced_x86::{Code, Register};

use super::emit::{Emitter, FREE, SCRATCH, vector, vector_bytes};
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::{Kernel, PerIteration};
use rprof_isa::operation::Width;

/// Which register file an access uses, and how wide it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// A 64-bit general register.
    General,
    /// A vector register (scalar: one double).
    Vector(Width),
}

impl Data {
    /// Bytes of one access.
    pub fn bytes(self) -> u64 {
        match self {
            Data::General => 8,
            Data::Vector(width) => vector_bytes(width),
        }
    }

    /// The name used in ceiling ids: `int`, `fp.512`.
    pub fn name(self) -> String {
        match self {
            Data::General => "int".into(),
            Data::Vector(width) => format!("fp.{}", width.name()),
        }
    }
}

/// Bytes of the loaded data: one line. With several lines, bank conflicts occur now and then, and differ from repetition to repetition (on
/// Zen 4 1.73 to 2 loads of 512 bits in two cycles; from one line 2.000).
const LOADED: u64 = 64;

/// Accesses in a repeating pattern of `loads` loads from one line and then `stores` stores to 2 KiB that stay in L1; about
/// `body` of them in one iteration.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn access(data: Data, loads: u64, stores: u64, body: u64, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("access {} {loads}:{stores}", data.name()), features);
    let bytes = data.bytes();
    let turns = body / (loads + stores);
    let head = e.loop_head();
    let (mut next_load, mut next_store) = (0_u64, 0_u64);
    for _ in 0..turns {
        for _ in 0..loads {
            let at = SCRATCH + (next_load * bytes % LOADED) as i64;
            match data {
                Data::General => {
                    e.load(Code::Mov_r64_rm64, FREE[next_load as usize % FREE.len()], Register::RSI, at);
                }
                Data::Vector(width) => {
                    let code = e.move_load(width);
                    e.load(code, vector(width, next_load as usize % 12), Register::RSI, at);
                }
            }
            next_load += 1;
        }
        for _ in 0..stores {
            let at = SCRATCH + 2048 + (next_store * bytes % 2048) as i64;
            match data {
                Data::General => e.store(Code::Mov_rm64_r64, Register::RSI, at, Register::R8),
                Data::Vector(width) => {
                    let code = e.move_store(width);
                    e.store(code, Register::RSI, at, vector(width, 13));
                }
            }
            next_store += 1;
        }
    }
    e.loop_end(Register::RDI, head);
    e.finish(PerIteration {
        instructions: next_load + next_store + 2,
        payload: next_load + next_store,
        loads: next_load,
        stores: next_store,
        bytes_loaded: next_load * bytes,
        bytes_stored: next_store * bytes,
        ..Default::default()
    })
}
