//! T_chain: loop-carried dependency chains with measured latencies.
//!
//! ```text
//! c        = max over cycles of  Σ latency(step after its producer) / distance        seconds per iteration
//! T_chain  = Σ over loops of  iterations · c / k(n)  /  threads
//! k(n)     = n / (n − W)   n ≥ 2W       chains of n FP instructions that are restarted overlap in the window W
//!          = 2             W ≤ n < 2W
//!          = 1 + W / n     n < W
//! ```
//!
//! A chain that restarts in every iteration, and is shorter than W, is none: the window holds many iterations at once, more than its
//! floating-point instructions show. With partial results (ILP) a sum waits no more; a recurrence does: each of its values depends
//! on the one before by more than a sum, or is stored. A vector iteration is as long as a scalar one. It replaces as many scalar ones as it
//! has lanes only if the chain is a sum, which vectors split into partial results: that changes the order of its operations.
//!
//! A chain that runs through has k = 1. Cycles through a load's address are pointer chases: they are memory stalls and
//! belong to [`latency`](super::latency).

use std::collections::BTreeMap;

use rprof_isa::dependency::are_serial;
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::function::{Chain, ChainStep, Cycle};

use super::super::deficiency::{Deficiency, Removed};
use super::super::host::{Host, Scaling, Trace};
use super::Subject;

/// Iterations of a loop each time that it is entered, for vectors to be worth their prologue.
const SHORTEST: f64 = 4.0;

/// T_chain at `threads`, in seconds.
pub fn seconds(subject: &Subject<'_>, threads: u32, removed: Removed, trace: &mut Trace) -> Option<f64> {
    let Some(work) = &subject.function.work else {
        trace.lacks("dependency chains not counted");
        return None;
    };
    if work.chains.is_empty() && work.chain_coverage < 0.5 {
        trace.lacks("loops not analysed for dependency chains");
        return None;
    }
    let vectors = removed.has(Deficiency::Simd) && subject.vector.is_possible();
    let by_loop = slowest_by_loop(&work.chains, |c| {
        if removed.has(Deficiency::Ilp) && !is_recurrence(c) {
            return 0.0;
        }
        let shrink = if vectors && can_be_vectorised(c) { subject.vector.shrink() } else { 1.0 };
        shrink * chain_seconds(c, subject.host, trace)
    });
    Some(by_loop / f64::from(threads))
}

/// Whether partial results can shorten T_chain of `subject`.
pub fn breakable(subject: &Subject<'_>) -> bool {
    let chains = subject.function.work.as_ref().map_or(&[][..], |work| &work.chains);
    chains.iter().any(|c| !is_recurrence(c) && chain_seconds(c, subject.host, &mut Trace::default()) > 0.0)
}

/// Whether each value of `chain` needs the one before for more than a sum, or is a result itself: it has no partial results.
pub fn is_recurrence(chain: &Chain) -> bool {
    // A chain that restarts in every iteration waits for no earlier iteration.
    let restarts = chain.restart_every.is_some_and(|every| every <= 1.0);
    !restarts && are_serial(&chain.cycles, chain.stored)
}

/// Whether vectors change the order of a floating-point sum (product, minimum) of `subject` that takes time: it is split into partial
/// results.
pub fn is_reordered(subject: &Subject<'_>) -> bool {
    let chains = subject.function.work.as_ref().map_or(&[][..], |work| &work.chains);
    chains.iter().any(|c| {
        let critical = critical(c, subject.host, &mut Trace::default());
        let floats = critical.is_some_and(|(cycle, _)| fp_steps(cycle) > 0.0);
        let restarts = c.restart_every.is_some_and(|every| every <= 1.0);
        floats && !restarts && can_be_vectorised(c)
    })
}

/// Σ over loops of the greatest `seconds` of the loop's chains: those of one loop run side by side.
pub fn slowest_by_loop<'c>(chains: impl IntoIterator<Item = &'c Chain>, mut seconds: impl FnMut(&Chain) -> f64) -> f64 {
    let mut by_loop: BTreeMap<u64, f64> = BTreeMap::new();
    for chain in chains {
        let slot = by_loop.entry(chain.header).or_default();
        *slot = slot.max(seconds(chain));
    }
    by_loop.values().sum()
}

/// Seconds that one loop's critical cycle takes on one thread, over all its iterations.
pub fn chain_seconds(chain: &Chain, host: Host<'_>, trace: &mut Trace) -> f64 {
    if is_within_iterations(chain, host, trace) {
        return 0.0;
    }
    let per_iteration = critical(chain, host, trace).map_or(0.0, |(_, seconds)| seconds);
    chain.iterations as f64 * per_iteration / restart_overlap(chain, host, trace)
}

/// Whether it restarts in every iteration and the window holds more than one of them.
fn is_within_iterations(chain: &Chain, host: Host<'_>, trace: &mut Trace) -> bool {
    let restarts = chain.restart_every.is_some_and(|every| every <= 1.0);
    restarts && {
        let window = if host.has("overlap.window") { host.latency("overlap.window", trace) } else { None };
        chain.cycles.iter().map(fp_steps).fold(0.0, f64::max) < window.unwrap_or(WINDOW)
    }
}

/// W if it was not measured.
const WINDOW: f64 = 64.0;

/// The cycle that takes longest and its seconds per iteration; `None` if the loop has no cycle outside memory.
pub fn critical<'c>(chain: &'c Chain, host: Host<'_>, trace: &mut Trace) -> Option<(&'c Cycle, f64)> {
    chain
        .cycles
        .iter()
        .filter(|cycle| !cycle.is_chase())
        .map(|cycle| (cycle, cycle_seconds(cycle, host, trace)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Seconds per iteration of one cycle, Σ latency / distance. A chase's loads are left to [`latency`](super::latency).
pub fn cycle_seconds(cycle: &Cycle, host: Host<'_>, trace: &mut Trace) -> f64 {
    let turn: f64 = (0..cycle.steps.len())
        .map(|i| {
            let producer = cycle.steps[(i + cycle.steps.len() - 1) % cycle.steps.len()];
            step_seconds(cycle.steps[i], producer, host, trace)
        })
        .sum();
    turn / f64::from(cycle.distance.max(1))
}

fn step_seconds(step: ChainStep, producer: ChainStep, host: Host<'_>, trace: &mut Trace) -> f64 {
    let cycles = |n: f64, trace: &mut Trace| n * host.cycle(trace).unwrap_or(0.0);
    match step {
        ChainStep::Fp { op, precision, width, .. } => fp_latency(op, precision, width, producer, host, trace),
        ChainStep::Vector => {
            first_latency(&["lat.vector", "lat.shuffle"], host, trace).unwrap_or_else(|| cycles(1.0, trace))
        }
        ChainStep::Integer | ChainStep::Compare | ChainStep::Select => {
            first_latency(&["lat.int.add"], host, trace).unwrap_or_else(|| cycles(1.0, trace))
        }
        ChainStep::IntegerMultiply => {
            first_latency(&["lat.int.mul"], host, trace).unwrap_or_else(|| cycles(3.0, trace))
        }
        ChainStep::IntegerDivide => host.latency("lat.int.div", trace).unwrap_or_else(|| cycles(1.0, trace)),
        ChainStep::Load => 0.0,
        ChainStep::Forward => first_latency(&["lat.forward", "lat.store.forward"], host, trace)
            .or_else(|| host.latency("lat.l1", trace))
            .unwrap_or(0.0),
    }
}

fn first_latency(ids: &[&str], host: Host<'_>, trace: &mut Trace) -> Option<f64> {
    ids.iter().find(|id| host.has(id)).and_then(|id| host.latency(id, trace))
}

/// Latency of an FP operation after its producer, by the most specific ceiling there is:
/// `lat.dp.add.after.mul.512`, without width, `lat.dp.add.512`, `lat.dp.add`, for adds 1 / `dp.tlp`.
fn fp_latency(op: FpOp, p: Precision, w: Width, producer: ChainStep, host: Host<'_>, trace: &mut Trace) -> f64 {
    let p = if p == Precision::X87 { Precision::Dp } else { p };
    let (o, w, p) = (if op == FpOp::Other { "mul" } else { op.name() }, w.name(), p.name());
    let after = match producer {
        ChainStep::Fp { op, .. } => op.name(),
        ChainStep::Forward | ChainStep::Load => "load",
        _ => "other",
    };
    let ids = [
        format!("lat.{p}.{o}.after.{after}.{w}"),
        format!("lat.{p}.{o}.after.{after}.scalar"),
        format!("lat.{p}.{o}.after.{after}"),
        format!("lat.{p}.{o}.{w}"),
        format!("lat.{p}.{o}.after.{o}.{w}"),
        format!("lat.{p}.{o}.after.{o}.scalar"),
        format!("lat.{p}.{o}"),
        format!("{p}.{o}.{w}.latency"),
    ];
    if let Some(found) = ids.iter().find(|id| host.has(id)).and_then(|id| host.latency(id, trace)) {
        return found;
    }
    match host.peek(&format!("{p}.tlp"), 1, Scaling::PerCore) {
        Some(adds) => {
            trace.from.insert(format!("{p}.tlp"));
            1.0 / adds
        }
        None => {
            trace.lacks(format!("latency of {p}.{o} not measured"));
            0.0
        }
    }
}

/// k of the module's docstring: how many restarted chains are in flight together.
pub fn restart_overlap(chain: &Chain, host: Host<'_>, trace: &mut Trace) -> f64 {
    let Some(every) = chain.restart_every.filter(|n| *n > 0.0) else { return 1.0 };
    let on_cycle = chain.cycles.iter().map(|c| fp_steps(c) / f64::from(c.distance.max(1))).fold(0.0, f64::max);
    let n = every * chain.fp_per_iteration.max(on_cycle).max(1.0);
    let window = if host.has("overlap.window") { host.latency("overlap.window", trace) } else { None };
    match (window, measured_overlap(n, host)) {
        (Some(window), None) => overlap(n, window),
        // Beyond the longest chain that was measured, the formula.
        (Some(window), Some(_)) if n >= 2.0 * window => overlap(n, window),
        (_, Some(k)) => k,
        (None, None) => {
            trace.lacks("overlap of restarted chains not measured: taken as complete");
            f64::INFINITY
        }
    }
}

/// k(n) from the measured curve `overlap.add.scalar` or `overlap.fma.scalar`, linear in log n; `None` outside it.
fn measured_overlap(n: f64, host: Host<'_>) -> Option<f64> {
    let curve = host.machine().sweeps.iter().find(|s| s.id.starts_with("overlap."))?;
    let after = curve.points.iter().position(|(x, _)| *x >= n)?;
    let (x1, k1) = curve.points[after];
    let (x0, k0) = if after == 0 { return (x1 <= n).then_some(k1) } else { curve.points[after - 1] };
    let share = (n / x0).ln() / (x1 / x0).ln();
    Some(k0 + (k1 - k0) * share)
}

fn fp_steps(cycle: &Cycle) -> f64 {
    cycle.steps.iter().filter(|s| matches!(s, ChainStep::Fp { .. })).count() as f64
}

/// k(n) for a window of `window` FP instructions.
fn overlap(n: f64, window: f64) -> f64 {
    if n >= 2.0 * window {
        n / (n - window)
    } else if n >= window {
        2.0
    } else {
        1.0 + window / n
    }
}

/// Whether the loop of `chain` can be vectorised, as far as the chain shows.
pub fn can_be_vectorised(chain: &Chain) -> bool {
    let long = chain.iterations as f64 >= SHORTEST * chain.entries.max(1) as f64;
    long && !chain.cycles.iter().any(Cycle::is_chase) && !is_recurrence(chain)
}

#[cfg(test)]
mod tests {
    use super::overlap;

    #[test]
    fn overlap_is_continuous_and_falls_with_length() {
        assert!((overlap(132.0, 66.0) - 2.0).abs() < 1e-12);
        assert!((overlap(66.0, 66.0) - 2.0).abs() < 1e-12);
        assert!((overlap(65.999, 66.0) - 2.0).abs() < 1e-3);
        let at: Vec<f64> = [1.0, 8.0, 64.0, 100.0, 256.0, 4096.0].iter().map(|n| overlap(*n, 66.0)).collect();
        assert!(at.windows(2).all(|p| p[0] >= p[1]), "{at:?}");
        // Measured: a chain of 256 adds of 2 cycles, restarted, takes 1.474 cycles an add.
        assert!((2.0 / overlap(256.0, 66.0) - 1.474).abs() < 0.02);
    }
}
