//! Loads of random lines of a buffer: the kernel of `misses.l1` and `banks.*`.

use iced_x86::{Code, Register};

use super::{fastest, timed};
use crate::error::MachineError;
use crate::harness::arena::{Buffer, Pages};
use crate::host::features::Features;
use crate::kernels::x86_64::emit::{CHAINS, Emitter};
use crate::kernels::{Kernel, PerIteration};

/// Bit positions in a random number from which the loads of an iteration take their lines; its lowest bits repeat too soon.
const SHIFTS: [i64; 4] = [12, 20, 29, 38];
/// Loads of one iteration, iterations of a run, and runs of each kernel (the second-fastest counts).
const LOADS: usize = SHIFTS.len();
const ITERATIONS: u64 = 750;
const RUNS: usize = 25;

/// Passes that bring the buffer into the caches.
const PASSES: u32 = 3;

/// Which lines are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lines {
    /// Bytes of the buffer that they lie in, a power of two.
    pub(super) bytes: u64,
    /// Every which line of it, a power of two.
    pub(super) every: u64,
    /// Whether the address of a load rests on the load before.
    pub(super) dependent: bool,
}

/// A buffer of zeros in the caches.
pub(super) struct RandomLoads {
    buffer: Buffer,
    features: Features,
}

impl RandomLoads {
    /// `bytes`: a power of two.
    ///
    /// # Errors
    /// A refused mapping.
    pub(super) fn new(bytes: u64, features: Features) -> Result<RandomLoads, MachineError> {
        let buffer = Buffer::new(bytes, Pages::Huge)?;
        for page in (0..bytes).step_by(4096) {
            // SAFETY: inside the buffer, which no other code knows. Pages that were not written are all the same one.
            unsafe { ((buffer.address() + page) as *mut u64).write(0) };
        }
        // After one pass, part of the buffer was still not in the last level (a guest on an Intel server of 2024: 50 ns instead of 30).
        for line in (0..PASSES).flat_map(|_| (0..bytes).step_by(64)) {
            // SAFETY: as above.
            unsafe { ((buffer.address() + line) as *const u64).read_volatile() };
        }
        Ok(RandomLoads { buffer, features })
    }

    /// Seconds of one load; `lines.bytes` is at most the buffer's.
    ///
    /// # Errors
    /// An instruction that cannot be encoded.
    pub(super) fn seconds(&self, lines: Lines) -> Result<f64, MachineError> {
        let kernel = loads(lines, self.features)?;
        let run = fastest(RUNS, |arguments| {
            arguments.chains[0] = self.buffer.address();
            // SAFETY: the loads stay in the buffer, which holds zeros.
            unsafe { timed(&kernel, ITERATIONS, arguments) }
        });
        Ok(run / LOADS as f64)
    }
}

/// Random loads: `rax` is a linear congruential generator, `rdx` sums the loaded zeros.
fn loads(lines: Lines, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new("random lines", features);
    e.load(Code::Mov_r64_rm64, Register::R8, Register::RSI, CHAINS);
    e.immediate(Code::Mov_r64_imm64, Register::R9, 6_364_136_223_846_793_005);
    e.immediate(Code::Mov_r64_imm64, Register::R10, 1_442_695_040_888_963_407);
    e.immediate(Code::Mov_r64_imm64, Register::R11, lines.bytes as i64 - 64 * lines.every as i64);
    e.load(Code::Mov_r64_rm64, Register::RAX, Register::RSI, CHAINS + 8);
    e.two(Code::Xor_r32_rm32, Register::EDX, Register::EDX);
    let load = if lines.dependent { Code::Mov_r64_rm64 } else { Code::Add_r64_rm64 };
    let head = e.loop_head();
    let before = e.count();
    e.two(Code::Imul_r64_rm64, Register::RAX, Register::R9);
    e.two(Code::Add_r64_rm64, Register::RAX, Register::R10);
    for shift in SHIFTS {
        e.two(Code::Mov_r64_rm64, Register::RCX, Register::RAX);
        if lines.dependent {
            e.two(Code::Add_r64_rm64, Register::RCX, Register::RDX);
        }
        e.immediate(Code::Shr_rm64_imm8, Register::RCX, shift);
        e.two(Code::And_r64_rm64, Register::RCX, Register::R11);
        e.load_indexed(load, Register::RDX, Register::R8, Register::RCX);
    }
    e.loop_end(Register::RDI, head);
    let instructions = (e.count() - before) as u64;
    e.store(Code::Mov_rm64_r64, Register::RSI, CHAINS + 8, Register::RAX);
    e.finish(PerIteration { instructions, payload: LOADS as u64, ..Default::default() })
}
