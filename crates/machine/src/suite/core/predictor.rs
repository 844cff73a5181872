//! `predictor.outcomes`: how many outcomes of one branch the core learns, if they repeat without a rule.
//!
//! The branch depends on random bits with a period of P: the core learns short periods, but no long ones. The result is the period at which
//! half of the wrong predictions are gone.

use std::time::Instant;

use iced_x86::{Code, Register};

use super::found::{Found, Unit, Value};
use super::windows::{between, timed};
use crate::error::MachineError;
use crate::harness::ClockChain;
use crate::harness::arena::{Buffer, Pages};
use crate::host::features::Features;
use crate::kernels::x86_64::emit::{CHAINS, Emitter};
use crate::kernels::{Arguments, Kernel, PerIteration};

const ID: &str = "predictor.outcomes";

/// A period that every predictor learns, and one that none does; the periods to try lie between them, each twice the one before.
const SHORT: u64 = 256;
const LONG: u64 = 1 << 17;

/// Passes in which the predictor learns the outcomes, and timed passes, the fastest of which counts.
const LEARNING: u64 = 8;
const TIMED: usize = 4;

/// Least ratio of the time of an outcome in the long period to one in the short period, if wrong predictions cost anything.
const HIGHER: f64 = 1.3;

/// How far another measurement may lie from it.
const SPREAD: f64 = 0.3;

/// A pass over `period` bytes with a branch on each.
fn pass(period: u64, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new("outcomes of a branch", features);
    e.load(Code::Mov_r64_rm64, Register::R8, Register::RSI, CHAINS);
    e.immediate(Code::Mov_r64_imm64, Register::R9, period as i64);
    let head = e.loop_head();
    e.two(Code::Xor_r32_rm32, Register::ECX, Register::ECX);
    let next = e.label();
    let over = e.forward();
    e.load_indexed(Code::Movzx_r32_rm8, Register::EAX, Register::R8, Register::RCX);
    e.two(Code::Test_rm32_r32, Register::EAX, Register::EAX);
    e.branch(Code::Je_rel32_64, over);
    e.immediate(Code::Add_rm64_imm8, Register::RDX, 1);
    e.place(over);
    e.immediate(Code::Add_rm64_imm8, Register::RCX, 1);
    e.two(Code::Cmp_r64_rm64, Register::RCX, Register::R9);
    e.branch(Code::Jne_rel32_64, next);
    e.loop_end(Register::RDI, head);
    e.finish(PerIteration { instructions: 7 * period, payload: period, ..Default::default() })
}

/// Measures it, until `end`.
///
/// # Errors
/// A refused mapping, an instruction that cannot be encoded.
pub fn measure(clock: &ClockChain, features: Features, end: Instant, found: &mut Found) -> Result<(), MachineError> {
    let buffer = Buffer::new(LONG, Pages::Huge)?;
    let mut state = 88_172_645_463_325_252_u64;
    for place in 0..LONG {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // SAFETY: inside the buffer, which no other code knows.
        unsafe { ((buffer.address() + place) as *mut u8).write((state >> 33) as u8 & 1) };
    }
    let mut arguments = Arguments::new();
    arguments.chains[0] = buffer.address();
    let clock_hz = clock.hz(&mut Arguments::new());
    // Seconds of an outcome.
    let mut seconds = |period: u64| -> Result<Option<f64>, MachineError> {
        if Instant::now() >= end {
            return Ok(None);
        }
        let kernel = pass(period, features)?;
        // SAFETY: the loads stay in the buffer.
        unsafe { timed(&kernel, LEARNING, &mut arguments) };
        // SAFETY: as above.
        let passes = (0..TIMED).map(|_| unsafe { timed(&kernel, 1, &mut arguments) });
        Ok(passes.min_by(f64::total_cmp).map(|pass| pass / period as f64))
    };
    let (Some(learnt), Some(unknown)) = (seconds(SHORT)?, seconds(LONG)?) else {
        found.no_time(ID, Unit::Count);
        return Ok(());
    };
    if unknown < HIGHER * learnt {
        found.missing(ID, Unit::Count, "random outcomes take no longer than known ones");
        return Ok(());
    }
    let middle = (learnt + unknown) / 2.0;
    let (mut below, mut height) = (SHORT, learnt);
    while below < LONG {
        let Some(next) = seconds(2 * below)? else {
            found.no_time(ID, Unit::Count);
            return Ok(());
        };
        if next >= middle {
            let value = between((below as f64, height), (2.0 * below as f64, next), middle);
            let how = format!(
                "outcomes take {:.2} ns where they are learnt, {:.2} ns where they are not",
                1e9 * learnt,
                1e9 * unknown
            );
            found.derived(ID, Unit::Count, Value { value, clock_hz, spread: SPREAD }, how);
            return Ok(());
        }
        (below, height) = (2 * below, next);
    }
    found.missing(ID, Unit::Count, "the longest period is half learnt");
    Ok(())
}
