//! `misses.l1`: lines that L1 waits for at once.
//!
//! Loads of random lines of a buffer that no L2 holds, once each after the other and once independent of one another: the latency of
//! the first, divided by the time of one of the second, is how many are under way at a time (Little's law). Hits of L2 among them
//! count in both.

use iced_x86::{Code, Register};

use super::{fastest, timed};
use crate::machine::bench::arena::{Buffer, Pages};
use crate::machine::core::found::{Found, Unit, Value};
use crate::machine::error::MachineError;
use crate::machine::features::Features;
use crate::machine::kernels::x86_64::emit::{CHAINS, Emitter};
use crate::machine::kernels::{Kernel, PerIteration};

/// Bytes of the buffer, a power of two: several times the largest L2, less than a last level.
const BYTES: u64 = 8 << 20;
/// Bytes that L1 holds.
const SMALL: u64 = 16 << 10;

/// Passes that bring the buffer into the caches.
const PASSES: u32 = 3;

/// Loads of one iteration, iterations of a run, and runs of each kernel, of which the second-fastest counts.
const LOADS: usize = 2;
const ITERATIONS: u64 = 1500;
const RUNS: usize = 25;

/// Cycles from load to use that L1 has at least: they are in the latency.
const L1: f64 = 4.0;

/// How far another measurement may lie from it.
const SPREAD: f64 = 0.1;

/// Loads at random: `rax` is a linear congruential generator, `rdx` sums zeros that are loaded.
fn loads(bytes: u64, dependent: bool, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new("misses of L1", features);
    e.load(Code::Mov_r64_rm64, Register::R8, Register::RSI, CHAINS);
    e.immediate(Code::Mov_r64_imm64, Register::R9, 6_364_136_223_846_793_005);
    e.immediate(Code::Mov_r64_imm64, Register::R10, 1_442_695_040_888_963_407);
    e.immediate(Code::Mov_r64_imm64, Register::R11, bytes as i64 - 64);
    e.load(Code::Mov_r64_rm64, Register::RAX, Register::RSI, CHAINS + 8);
    e.two(Code::Xor_r32_rm32, Register::EDX, Register::EDX);
    let head = e.loop_head();
    let before = e.count();
    e.two(Code::Imul_r64_rm64, Register::RAX, Register::R9);
    e.two(Code::Add_r64_rm64, Register::RAX, Register::R10);
    for shift in [20, 38] {
        e.two(Code::Mov_r64_rm64, Register::RCX, Register::RAX);
        if dependent {
            e.two(Code::Add_r64_rm64, Register::RCX, Register::RDX);
        }
        e.immediate(Code::Shr_rm64_imm8, Register::RCX, shift);
        e.two(Code::And_r64_rm64, Register::RCX, Register::R11);
        if dependent {
            e.load_indexed(Code::Mov_r64_rm64, Register::RDX, Register::R8, Register::RCX);
        } else {
            e.load_indexed(Code::Add_r64_rm64, Register::RDX, Register::R8, Register::RCX);
        }
    }
    e.loop_end(Register::RDI, head);
    let instructions = (e.count() - before) as u64;
    e.store(Code::Mov_rm64_r64, Register::RSI, CHAINS + 8, Register::RAX);
    e.finish(PerIteration { instructions, payload: LOADS as u64, ..Default::default() })
}

/// Measures it.
///
/// # Errors
/// A refused mapping, an instruction that cannot be encoded.
pub(super) fn measure(clock_hz: f64, features: Features, found: &mut Found) -> Result<(), MachineError> {
    let buffer = Buffer::new(BYTES, Pages::Huge)?;
    for page in (0..BYTES).step_by(4096) {
        // SAFETY: inside the buffer, which nobody else knows. Pages that nobody wrote are all the same one.
        unsafe { ((buffer.address() + page) as *mut u64).write(0) };
    }
    // After one pass the last level still lacked a part (a guest on an Intel server of 2024: 50 ns instead of 30).
    for line in (0..PASSES).flat_map(|_| (0..BYTES).step_by(64)) {
        // SAFETY: as above.
        unsafe { ((buffer.address() + line) as *const u64).read_volatile() };
    }
    let seconds = |bytes: u64, dependent: bool| -> Result<f64, MachineError> {
        let kernel = loads(bytes, dependent, features)?;
        let run = fastest(RUNS, |arguments| {
            arguments.chains[0] = buffer.address();
            // SAFETY: the loads stay in the buffer, which holds zeros.
            unsafe { timed(&kernel, ITERATIONS, arguments) }
        });
        Ok(run / LOADS as f64)
    };
    let latency = seconds(BYTES, true)? - seconds(SMALL, true)? + L1 / clock_hz;
    let each = seconds(BYTES, false)?;
    let how = format!(
        "latency over time of random loads of {} MiB: {:.1} ns over {:.2} ns",
        BYTES >> 20,
        1e9 * latency,
        1e9 * each
    );
    found.derived("misses.l1", Unit::Count, Value { value: latency / each, clock_hz, spread: SPREAD }, how);
    Ok(())
}
