//! What a last level keeps of streams that go round in more memory than it holds. The cache model replaces by LRU, which keeps
//! nothing of them; CPUs that protect their last level from streams keep part of each round, and then memory moved less than the
//! model says. How much shows in the time of a line of the sweep `workingset.read`:
//!
//! ```text
//! kept(bytes) = (1/R_dram − 1/R(bytes)) / (1/R_dram − 1/R_l3) · capacity misses / misses · lines with a stride / lines
//! ```
//!
//! Lines without a stride are met as LRU has it (Zen 5, 32 MiB: of 64 MiB that go round half is kept of a stream, and a tenth of a
//! chase). 0 where anything of it was not measured.

use crate::profile::evidence::memory::Traffic;
use crate::profile::machine::Machine;
use crate::profile::pages::Pages;

use super::Subject;

/// Share of the function's lines from memory that the last level may have kept; from 0 to 1.
pub fn share(subject: &Subject<'_>) -> f64 {
    let function = subject.function;
    let traffic = function.work.as_ref().and_then(|work| work.traffic);
    let Some(going_round) = traffic.as_ref().map(going_round).filter(|share| *share > 0.0) else { return 0.0 };
    let round = function.pages.map_or(0, |pages| pages.touched * Pages::BYTES);
    going_round * of_streams(subject.host.machine(), round as f64).unwrap_or(0.0)
}

/// Share of what streams through `bytes`, again and again, that this host's last level keeps beyond what LRU does; `None` where that
/// was not measured, or where all of it has room.
fn of_streams(machine: &Machine, bytes: f64) -> Option<f64> {
    machine.caches.iter().max_by_key(|cache| cache.level).filter(|last| bytes > last.size as f64)?;
    let sweep = machine.sweep("workingset.read", 1)?;
    // The farthest point may have met the memory in a better moment than the ceiling did.
    let far = [machine.value("dram.read", 1), sweep.at(f64::INFINITY)].into_iter().flatten().reduce(f64::max)?;
    let (near, here) = (machine.value("l3.read", 1)?, sweep.at(bytes)?);
    (near > far).then(|| ((1.0 / far - 1.0 / here) / (1.0 / far - 1.0 / near)).clamp(0.0, 1.0))
}

/// Share of the lines from memory that came with a stride and had been there before.
fn going_round(t: &Traffic) -> f64 {
    let regular = t.irregular_share().map_or(0.0, |irregular| 1.0 - irregular);
    if t.capacity > 0.0 { regular * t.capacity / t.misses() } else { 0.0 }
}
