//! `misses.l1`: lines that the core waits for at once.
//!
//! Bursts of M independent loads of lines that are in no cache. A long burst takes longer by each further line as long as one miss takes,
//! divided by how many lines the core waits for at a time (Little's law). Where the memory gives one core fewer lines than the core could
//! wait for, it is those.

use iced_x86::{Code, Register};

use super::lines::Lines;
use super::{fastest, timed};
use crate::machine::core::found::{Found, Unit, Value};
use crate::machine::error::MachineError;
use crate::machine::features::Features;
use crate::machine::kernels::x86_64::emit::{CHAINS, Emitter};
use crate::machine::kernels::{Kernel, PerIteration};

/// Lines of the bursts that are compared, and runs of each: a few of many are undisturbed.
const BURSTS: [usize; 2] = [64, 192];
const RUNS: usize = 31;

/// Times that all is measured: the median counts.
const TIMES: usize = 11;

/// Bytes from one line of a burst to the next one in memory.
const APART: u64 = 3 * 4096 + 320;

/// Where the n-th line of a burst lies: in scattered order, so that nothing is fetched ahead.
fn offset(n: usize) -> u64 {
    (1 + (n as u64 * 83) % BURSTS[1] as u64) * APART
}

fn burst(count: usize, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("{count} misses at once"), features);
    e.load(Code::Mov_r64_rm64, Register::RAX, Register::RSI, CHAINS);
    let head = e.label();
    for n in 0..count {
        e.load(Code::Add_r64_rm64, Register::RDX, Register::RAX, offset(n) as i64);
    }
    e.loop_end(Register::RDI, head);
    e.finish(PerIteration { instructions: count as u64 + 2, payload: 1, ..Default::default() })
}

pub(super) fn measure(clock_hz: f64, features: Features, found: &mut Found) -> Result<(), MachineError> {
    let lines = Lines::of(1, 1, (BURSTS[1] as u64 + 2) * APART)?;
    let all: Vec<u64> = (0..BURSTS[1]).map(offset).collect();
    let [one, short, long] = [1, BURSTS[0], BURSTS[1]].map(|count| burst(count, features));
    let kernels = [(one?, 1), (short?, BURSTS[0]), (long?, BURSTS[1])];
    let time = |(kernel, count): &(Kernel, usize), flushed: bool| {
        fastest(RUNS, |arguments| {
            arguments.chains[0] = lines.node(0, 0);
            lines.flush(if flushed { &all[..*count] } else { &[] });
            // SAFETY: the loads stay in the lines behind the node.
            unsafe { timed(kernel, 1, arguments) }
        })
    };
    let mut counts: Vec<f64> = (0..TIMES)
        .map(|_| {
            let miss = time(&kernels[0], true) - time(&kernels[0], false);
            let further = (time(&kernels[2], true) - time(&kernels[1], true)) / (BURSTS[1] - BURSTS[0]) as f64;
            miss / further
        })
        .collect();
    counts.sort_unstable_by(f64::total_cmp);
    let value = counts[TIMES / 2];
    let spread = ((counts[3 * TIMES / 4] - counts[TIMES / 4]) / value).max(super::SPREAD);
    let how = "the time of a miss over that by which each further line lengthens a burst";

    found.derived("misses.l1", Unit::Count, Value { value, clock_hz, spread }, how);
    Ok(())
}
