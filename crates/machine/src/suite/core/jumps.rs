//! `btb.*`: the cost of a taken branch with a target that is not in the first-level branch target buffer.
//!
//! A ring of N jumps, each to the next. Up to `btb.first.entries` of them, a jump takes as long as `width.taken` says; with more, it takes
//! `btb.second`. All of the code is in L1I.

use std::time::Instant;

use iced_x86::{Code, Register};

use super::found::{Found, Unit, Value};
use super::windows::{between, fastest, timed};
use crate::error::MachineError;
use crate::harness::ClockChain;
use crate::host::features::Features;
use crate::kernels::x86_64::emit::Emitter;
use crate::kernels::{Arguments, Kernel, PerIteration};

const ENTRIES: &str = "btb.first.entries";
const SECOND: &str = "btb.second";

/// Jumps that every first level holds, and most jumps to try: each number is twice the one before. The code of the most is 23 KiB.
const FEW: usize = 32;
const MANY: usize = 1024;

/// Least jumps of a run, and number of runs (the second-fastest counts).
const JUMPS: usize = 8192;
const RUNS: usize = 9;

/// Least ratio of a jump in the longest ring to one in the shortest, if there is a second level.
const HIGHER: f64 = 1.25;

/// How far another measurement may lie from the values.
const SPREAD: f64 = 0.1;

/// `count` jumps with code between them that is never executed.
fn ring(count: usize, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("{count} jumps"), features);
    let head = e.loop_head();
    for n in 0..count {
        let next = e.forward();
        e.branch(Code::Jmp_rel32_64, next);
        for _ in 0..2 {
            e.immediate(Code::Mov_r64_imm64, Register::RAX, 0x0123_4567_89ab_cdef + n as i64);
        }
        e.place(next);
    }
    e.loop_end(Register::RDI, head);
    e.finish(PerIteration { instructions: count as u64 + 2, payload: count as u64, ..Default::default() })
}

/// Measures them, until `end`.
///
/// # Errors
/// An instruction that cannot be encoded.
pub fn measure(clock: &ClockChain, features: Features, end: Instant, found: &mut Found) -> Result<(), MachineError> {
    let clock_hz = clock.hz(&mut Arguments::new());
    let mut cycles: Vec<(f64, f64)> = Vec::new();
    let mut count = FEW;
    while count <= MANY {
        if Instant::now() >= end {
            found.no_time(ENTRIES, Unit::Count);
            found.no_time(SECOND, Unit::Time);
            return Ok(());
        }
        let kernel = ring(count, features)?;
        // SAFETY: the kernel touches no memory.
        let seconds = fastest(RUNS, |arguments| unsafe { timed(&kernel, (JUMPS / count) as u64, arguments) });
        cycles.push((count as f64, seconds / count as f64 * clock_hz));
        count *= 2;
    }
    let (low, high) = (cycles[0].1.min(cycles[1].1), cycles[cycles.len() - 1].1);
    if high < HIGHER * low {
        let reason = format!("{MANY} jumps take as long as {FEW}");
        found.missing(ENTRIES, Unit::Count, reason.clone());
        found.missing(SECOND, Unit::Time, reason);
        return Ok(());
    }
    let middle = (low + high) / 2.0;
    let above = cycles.iter().position(|(_, own)| *own > middle).unwrap_or(cycles.len() - 1).max(1);
    let entries = between(cycles[above - 1], cycles[above], middle);
    let value = |value: f64| Value { value, clock_hz, spread: SPREAD };
    found.measured(ENTRIES, Unit::Count, value(entries.round()));
    found.measured(SECOND, Unit::Time, value(high));
    Ok(())
}
