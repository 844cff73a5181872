//! The part of the last-level cache that a host gets, by its working-set sweep: a guest sees the size of the whole cache, but other guests
//! fill a part of it.

use super::machine::Machine;

/// The measured size replaces the reported one below this share of it: a stream leaves a cache gradually.
const WORTH_TELLING: f64 = 0.7;
/// A last level of less than this many times L2 is implausible: the sweep was disturbed.
const LEAST: u64 = 4;
/// Working sets of this many times the last level are in memory.
const BEYOND: f64 = 4.0;

/// Bytes that `machine` was measured to get of a last-level cache of `told` bytes, if they are much fewer. `private`: bytes of the cache
/// before it; `l2`: those of L2, if there is one.
pub fn available(machine: &Machine, private: u64, l2: Option<u64>, told: u64) -> Option<f64> {
    let least = l2.map_or(u64::MAX, |l2| LEAST * l2) as f64;
    let is_plausible = |bytes: &f64| *bytes >= least && *bytes < WORTH_TELLING * told as f64;
    measured(machine, private as f64, told as f64).filter(is_plausible)
}

/// Bytes up to which the read rate is nearer to that of a last-level cache of `told` bytes than to that of memory, in the sweep over
/// working sets of one thread; `None` if that was not measured, or shows no such point. `private`: bytes of the cache before it.
///
/// Both rates are from the sweep: ceilings are measured again from time to time, when memory may be in another state.
fn measured(machine: &Machine, private: f64, told: f64) -> Option<f64> {
    let points = &machine.sweep("workingset.read", 1)?.points;
    let fastest = |within: &dyn Fn(f64) -> bool| {
        points.iter().filter(|(bytes, _)| within(*bytes)).map(|(_, rate)| 1.0 / rate).min_by(f64::total_cmp)
    };
    let cache = fastest(&|bytes| bytes > 2.0 * private && bytes <= told / 2.0)?;
    let largest = points.last()?.0;
    let memory = fastest(&|bytes| bytes >= (BEYOND * told).min(largest))?;
    let middle = (cache + memory) / 2.0;
    let last = points.iter().rposition(|(_, rate)| 1.0 / rate < middle)?;
    let ((x, fast), (y, slow)) = (points[last], *points.get(last + 1)?);
    let part = (middle - 1.0 / fast) / (1.0 / slow - 1.0 / fast);
    (memory > cache).then(|| x * (y / x).powf(part))
}
