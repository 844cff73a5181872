//! T_latency: misses whose latency the core cannot hide (Little's law: misses × latency / concurrency).
//!
//! ```text
//! chases   T = Σ over loops of [ n_dram / R_chase(c) + (n_l3 · lat_l3 + n_l2 · lat_l2 + n_l1 · lat_l1 + other steps) / c ]
//! random   T = irregular lines from memory outside chases / R_random,   gathered lines / R_gather
//! ```
//!
//! c is the number of independent pointer chases of the loop, n_level the chase's loads that each level serves, taken
//! from the function's irregular misses. R are the measured `dram.chase.{1,2,4,8,16}`, `dram.random` and `dram.gather`
//! in accesses per second; they contain the concurrency that this host reaches.

use crate::profile::evidence::memory::Traffic;
use crate::profile::function::{Chain, ChainStep};

use super::super::host::{Host, Scaling, Trace};
use super::{Subject, chain};

/// Measured numbers of interleaved chases.
const CHASES: [u32; 5] = [1, 2, 4, 8, 16];
/// Bytes that a line-sized access moves, for ceilings of access classes that are given in bytes per second.
const LINE: f64 = 64.0;

/// The parts of T_latency at one thread count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    /// Seconds waiting for memory.
    pub dram: f64,
    /// Seconds waiting for caches and for the other steps of the chase.
    pub cache: f64,
}

/// T_latency at `threads`, in seconds.
pub fn seconds(subject: &Subject<'_>, threads: u32, trace: &mut Trace) -> Option<f64> {
    parts(subject, threads, trace).map(|p| p.dram + p.cache)
}

/// T_latency at `threads` by where the latency comes from.
pub fn parts(subject: &Subject<'_>, threads: u32, trace: &mut Trace) -> Option<Parts> {
    let Some(work) = &subject.function.work else {
        trace.lacks("address dependencies not counted");
        return None;
    };
    let chases: Vec<&Chain> = work.chains.iter().filter(|c| c.cycles.iter().any(chain::is_chase)).collect();
    let Some(traffic) = work.traffic else {
        trace.lacks("misses not measured (no memory model ran)");
        return None;
    };
    let irregular = irregular_share(&traffic, !chases.is_empty());
    let loads: f64 = chases.iter().map(|c| c.iterations as f64 * loads_per_iteration(c)).sum();
    let mut parts = Parts::default();
    let mut chased = 0.0;
    if loads > 0.0 {
        let served = Served::of(&traffic, irregular, loads);
        chased = served.dram * loads;
        for c in &chases {
            let part = chase_seconds(c, served, subject.host, threads, trace)?;
            parts.dram += part.dram;
            parts.cache += part.cache;
        }
    }
    let lines = traffic.unit_lines + traffic.strided_lines + traffic.random_lines + traffic.gathered_lines;
    if lines > 0.0 {
        let random = (traffic.l3_misses * traffic.random_lines / lines - chased).max(0.0);
        let gathered = traffic.l3_misses * traffic.gathered_lines / lines;
        let mut scattered = 0.0;
        for (misses, id) in [(random, "dram.random"), (gathered, "dram.gather")] {
            if misses > 0.05 * traffic.l3_misses {
                scattered += misses / access_rate(id, subject.host, threads, trace)?;
            }
        }
        parts.dram = parts.dram.max(scattered);
    }
    Some(parts)
}

/// Share of the misses that follow no constant stride. A chase without stride statistics counts as irregular.
fn irregular_share(t: &Traffic, chasing: bool) -> f64 {
    let irregular = t.random_lines + t.gathered_lines;
    let all = irregular + t.unit_lines + t.strided_lines;
    if all > 0.0 {
        irregular / all
    } else if chasing {
        1.0
    } else {
        0.0
    }
}

/// Shares of a chase's loads by the level that serves them; they sum to 1.
#[derive(Debug, Clone, Copy)]
struct Served {
    l1: f64,
    l2: f64,
    l3: f64,
    dram: f64,
}

impl Served {
    fn of(t: &Traffic, irregular: f64, loads: f64) -> Served {
        let beyond = |misses: f64| (misses * irregular / loads).clamp(0.0, 1.0);
        let (past_l1, past_l2, past_l3) = (beyond(t.l1_misses), beyond(t.l2_misses), beyond(t.l3_misses));
        let past_l2 = past_l2.min(past_l1);
        let past_l3 = past_l3.min(past_l2);
        Served { l1: 1.0 - past_l1, l2: past_l1 - past_l2, l3: past_l2 - past_l3, dram: past_l3 }
    }
}

/// Independent chases of a loop: its cycles through a load's address.
pub fn concurrency(c: &Chain) -> u32 {
    c.cycles.iter().filter(|cycle| chain::is_chase(cycle)).count().max(1) as u32
}

fn loads_per_iteration(c: &Chain) -> f64 {
    let loads = |steps: &[ChainStep]| steps.iter().filter(|s| **s == ChainStep::Load).count() as f64;
    c.cycles.iter().map(|cycle| loads(&cycle.steps) / f64::from(cycle.distance.max(1))).sum()
}

fn chase_seconds(c: &Chain, served: Served, host: Host<'_>, threads: u32, trace: &mut Trace) -> Option<Parts> {
    let concurrent = concurrency(c);
    let loads = c.iterations as f64 * loads_per_iteration(c);
    let mut dram = 0.0;
    if served.dram > 0.0 {
        dram = loads * served.dram / chase_rate(concurrent, host, threads, trace)?;
    }
    let mut cache = 0.0;
    for (share, id) in [(served.l1, "lat.l1"), (served.l2, "lat.l2"), (served.l3, "lat.l3")] {
        if share > 0.0 {
            cache += loads * share * host.latency(id, trace)?;
        }
    }
    // Integer and floating-point steps of the slowest chase, which `cycle_seconds` adds up without its loads.
    let steps = c
        .cycles
        .iter()
        .filter(|cycle| chain::is_chase(cycle))
        .map(|cycle| chain::cycle_seconds(cycle, host, trace))
        .fold(0.0, f64::max);
    let other = c.iterations as f64 * steps;
    Some(Parts { dram, cache: (cache / f64::from(concurrent) + other) / f64::from(threads) })
}

/// Accesses per second of `chains` interleaved chases: linear between the measured numbers of chains.
fn chase_rate(chains: u32, host: Host<'_>, threads: u32, trace: &mut Trace) -> Option<f64> {
    let known: Vec<(u32, f64)> = CHASES
        .into_iter()
        .filter(|n| host.has(&format!("dram.chase.{n}")))
        .filter_map(|n| access_rate(&format!("dram.chase.{n}"), host, threads, trace).map(|r| (n, r)))
        .collect();
    if known.is_empty() {
        let latency = host.latency("lat.dram", trace)?;
        return Some(f64::from(chains) * f64::from(threads) / latency);
    }
    let below = known.iter().rev().find(|(n, _)| *n <= chains);
    let above = known.iter().find(|(n, _)| *n >= chains);
    Some(match (below, above) {
        (Some((n, r)), Some((m, s))) if m > n => r + (s - r) * f64::from(chains - n) / f64::from(m - n),
        (Some((_, r)), _) => *r,
        (None, Some((n, r))) => r * f64::from(chains) / f64::from(*n),
        (None, None) => return None,
    })
}

/// A ceiling of an access class in accesses per second, whatever of `access/s`, `byte/s` and `s` its unit is.
fn access_rate(id: &str, host: Host<'_>, threads: u32, trace: &mut Trace) -> Option<f64> {
    let value = host.value(id, threads, Scaling::Shared, trace)?;
    Some(match host.unit(id) {
        Some("byte/s") => value / LINE,
        Some("s") => f64::from(threads) / value,
        _ => value,
    })
}
