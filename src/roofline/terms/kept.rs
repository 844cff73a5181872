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
    let Some(traffic) = function.work.as_ref().and_then(|work| work.traffic) else { return 0.0 };
    let round = function.pages.map_or(0, |pages| pages.touched * Pages::BYTES);
    of_streams(subject.host.machine(), round as f64) * going_round(&traffic)
}

/// Share of what streams through `bytes`, again and again, that this host's last level keeps beyond what LRU does.
fn of_streams(machine: &Machine, bytes: f64) -> f64 {
    let last = machine.caches.iter().max_by_key(|cache| cache.level);
    let sweep = machine.sweeps.iter().find(|sweep| sweep.id == "workingset.read" && sweep.threads == 1);
    let (Some(last), Some(sweep)) = (last, sweep) else { return 0.0 };
    // The farthest point may have met the memory in a better moment than the ceiling did.
    let far = [machine.value("dram.read", 1), sweep.at(f64::INFINITY)].into_iter().flatten().reduce(f64::max);
    let (Some(near), Some(far), Some(here)) = (machine.value("l3.read", 1), far, sweep.at(bytes)) else { return 0.0 };
    let beyond = bytes > last.size as f64 && near > far;
    if beyond { ((1.0 / far - 1.0 / here) / (1.0 / far - 1.0 / near)).clamp(0.0, 1.0) } else { 0.0 }
}

/// Share of the lines from memory that came with a stride and had been there before.
fn going_round(t: &Traffic) -> f64 {
    let part = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
    let (regular, irregular) = (t.unit_lines + t.strided_lines, t.random_lines + t.gathered_lines);
    let misses = t.compulsory + t.capacity + t.conflict + t.coherence;
    part(t.capacity, misses) * part(regular, regular + irregular)
}
