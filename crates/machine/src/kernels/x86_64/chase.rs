//! Pointer chases: the latency of a level, and how many misses overlap.

use iced_x86::{Code, Register};

use super::emit::{CHAINS, Emitter, FREE, SCRATCH};
use super::fp::arithmetic;
use super::opcodes::Opcode;
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::{Kernel, PerIteration};
use rprof_isa::operation::{Precision, Width};

/// Hops of each chain in one iteration.
const HOPS: usize = 8;

/// Registers for chains; further chains are kept in memory that stays in L1.
const REGISTERS: [Register; 12] = [
    FREE[0],
    FREE[1],
    FREE[2],
    FREE[3],
    FREE[4],
    FREE[5],
    FREE[6],
    FREE[7],
    Register::RBX,
    Register::R8,
    Register::R9,
    Register::R10,
];

/// `chains` (1 to 16) interleaved chases; the arguments' `chains` hold their positions before and after.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn chase(chains: usize, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("chase {chains}"), features);
    let slot = |n: usize| CHAINS + 8 * n as i64;
    let held = chains.min(REGISTERS.len());
    for (n, register) in REGISTERS.iter().enumerate().take(held) {
        e.load(Code::Mov_r64_rm64, *register, Register::RSI, slot(n));
    }
    let head = e.loop_head();
    let before = e.count();
    for _ in 0..HOPS {
        for register in REGISTERS.iter().take(held) {
            e.load(Code::Mov_r64_rm64, *register, *register, 0);
        }
        for n in held..chains {
            e.load(Code::Mov_r64_rm64, Register::R11, Register::RSI, slot(n));
            e.load(Code::Mov_r64_rm64, Register::R11, Register::R11, 0);
            e.store(Code::Mov_rm64_r64, Register::RSI, slot(n), Register::R11);
        }
    }
    e.loop_end(Register::RDI, head);
    let instructions = (e.count() - before) as u64;
    for (n, register) in REGISTERS.iter().enumerate().take(held) {
        e.store(Code::Mov_rm64_r64, Register::RSI, slot(n), *register);
    }
    let payload = (HOPS * chains) as u64;
    let spilled = (HOPS * (chains - held)) as u64;
    e.finish(PerIteration {
        instructions,
        payload,
        loads: payload + spilled,
        stores: spilled,
        bytes_loaded: 8 * (payload + spilled),
        bytes_stored: 8 * spilled,
        ..Default::default()
    })
}

/// A load that depends on the store before it, through memory: store-to-load forwarding of a general register.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn forward(features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new("forward gpr", features);
    let head = e.loop_head();
    for _ in 0..16 {
        e.store(Code::Mov_rm64_r64, Register::RSI, SCRATCH, Register::RAX);
        e.load(Code::Mov_r64_rm64, Register::RAX, Register::RSI, SCRATCH);
    }
    e.loop_end(Register::RDI, head);
    e.finish(forwarded())
}

/// The same through a vector register (one double), with `operation` between load and store.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn through_memory(operation: Option<Opcode>, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new("forward vector", features);
    let (load, store) = (e.move_load(Width::Scalar), e.move_store(Width::Scalar));
    e.load_operands(Precision::Dp, Width::Scalar);
    let head = e.loop_head();
    for _ in 0..16 {
        e.load(load, Register::XMM0, Register::RSI, SCRATCH);
        if let Some(opcode) = operation {
            arithmetic(&mut e, opcode, Width::Scalar, 0, true, Register::None);
        }
        e.store(store, Register::RSI, SCRATCH, Register::XMM0);
    }
    e.loop_end(Register::RDI, head);
    let mut work = forwarded();
    if let Some(opcode) = operation {
        work.instructions += 16;
        work.flops = 16 * opcode.flops;
    }
    e.finish(work)
}

fn forwarded() -> PerIteration {
    PerIteration {
        instructions: 34,
        payload: 16,
        loads: 16,
        stores: 16,
        bytes_loaded: 128,
        bytes_stored: 128,
        ..Default::default()
    }
}
