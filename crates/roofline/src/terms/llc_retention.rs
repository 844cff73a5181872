//! The part of cyclic streams larger than the last level that the last level retains. The cache model replaces by LRU, which retains
//! nothing of them; CPUs with a scan-resistant last level retain part of each round, and then memory moved less than the
//! model says. The time per line in the sweep `workingset.read` shows how much:
//!
//! ```text
//! kept(bytes) = (1/R_dram − 1/R(bytes)) / (1/R_dram − 1/R_l3) · capacity misses / misses · lines with a stride / lines
//! ```
//!
//! Lines without a stride behave as LRU predicts (Zen 5, 32 MiB: of a cyclic stream of 64 MiB half is retained, of a chase a
//! tenth). 0 if one of these figures was not measured.

use rprof_profile::evidence::memory::Traffic;
use rprof_profile::machine::Machine;
use rprof_profile::pages::Pages;

use super::Subject;

/// Share of the function's lines from memory that the last level may have kept; from 0 to 1.
pub fn share(subject: &Subject<'_>) -> f64 {
    let function = subject.function;
    let traffic = function.work.as_ref().and_then(|work| work.traffic);
    let Some(going_round) = traffic.as_ref().map(going_round).filter(|share| *share > 0.0) else { return 0.0 };
    let round = function.pages.map_or(0, |pages| pages.touched * Pages::BYTES);
    going_round * of_streams(subject.host.machine(), round as f64).unwrap_or(0.0)
}

/// Share of a cyclic stream through `bytes` that this host's last level retains beyond LRU; `None` if that was not measured, or if
/// the whole stream has room.
fn of_streams(machine: &Machine, bytes: f64) -> Option<f64> {
    machine.caches.iter().max_by_key(|cache| cache.level).filter(|last| bytes > last.size as f64)?;
    let sweep = machine.sweep("workingset.read", 1)?;
    // The farthest point may be of a better moment of the memory than the ceiling.
    let far = [machine.value("dram.read", 1), sweep.at(f64::INFINITY)].into_iter().flatten().reduce(f64::max)?;
    let (near, here) = (machine.value("l3.read", 1)?, sweep.at(bytes)?);
    (near > far).then(|| ((1.0 / far - 1.0 / here) / (1.0 / far - 1.0 / near)).clamp(0.0, 1.0))
}

/// Share of the lines from memory that came with a stride and had been there before.
fn going_round(t: &Traffic) -> f64 {
    let regular = t.irregular_share().map_or(0.0, |irregular| 1.0 - irregular);
    if t.capacity > 0.0 { regular * t.capacity / t.misses() } else { 0.0 }
}
