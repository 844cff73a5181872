//! `misses.l1`: lines that the core waits for at once.
//!
//! Groups of M loads of lines that are in no cache; the next group begins when all of one have arrived. A group takes as long as one miss
//! while the core can wait for M lines at once, and twice as long from the M on at which it cannot.

use std::time::Instant;

use iced_x86::{Code, Register};

use super::lines::Lines;
use super::{fastest, reason_of, search, timed};
use crate::machine::core::found::{Found, Unit, Value};
use crate::machine::error::MachineError;
use crate::machine::features::Features;
use crate::machine::kernels::x86_64::emit::{CHAINS, Emitter};
use crate::machine::kernels::{Kernel, PerIteration};

/// Groups of a run, runs, and most lines of a group.
const GROUPS: u64 = 8;
const RUNS: usize = 9;
const MOST: usize = 96;

/// Bytes from one line of a group to the next one in memory.
const APART: u64 = 320;

/// Where the n-th line of a group lies: in scattered order, so that nothing is fetched ahead.
fn offset(n: usize) -> u64 {
    (1 + (n as u64 * 37) % MOST as u64) * APART
}

fn group(count: usize, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("{count} misses at once"), features);
    let (base, sum) = (Register::RAX, Register::RDX);
    e.load(Code::Mov_r64_rm64, base, Register::RSI, CHAINS);
    let head = e.label();
    e.two(Code::Xor_r32_rm32, sum.full_register32(), sum.full_register32());
    for n in 0..count {
        // These lines hold zeros.
        e.load(Code::Add_r64_rm64, sum, base, offset(n) as i64);
    }
    e.two(Code::Add_r64_rm64, base, sum);
    e.load(Code::Mov_r64_rm64, base, base, 0);
    e.loop_end(Register::RDI, head);
    e.finish(PerIteration { instructions: count as u64 + 5, payload: 1, ..Default::default() })
}

pub(super) fn measure(clock_hz: f64, features: Features, end: Instant, found: &mut Found) -> Result<(), MachineError> {
    let lines = Lines::of(1, GROUPS, (MOST as u64 + 2) * APART)?;
    let all: Vec<u64> = (0..MOST).map(offset).collect();
    let time = |count: usize| {
        let kernel = group(count, features)?;
        Ok(fastest(RUNS, |arguments| {
            arguments.chains[0] = lines.node(0, 0);
            // But not the node: that would be a miss behind the others.
            lines.flush(&all[..count]);
            // SAFETY: the loads stay in the lines behind the nodes.
            unsafe { timed(&kernel, GROUPS, arguments) }
        }))
    };
    let id = "misses.l1";
    match search(1, MOST, end, time)? {
        Ok(count) => found.measured(id, Unit::Count, Value { value: count as f64, clock_hz, spread: super::SPREAD }),
        Err(why) => found.missing(id, Unit::Count, reason_of(why)),
    }
    Ok(())
}
