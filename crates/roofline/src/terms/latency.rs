//! T_latency: misses with a latency that the core cannot hide (Little's law: misses × latency / concurrency).
//!
//! ```text
//! chases   T = Σ over loops of [ n_dram / R_chase(c) + (n_l3 · lat_l3 + n_l2 · lat_l2 + n_l1 · lat_l1 + other steps) / c ]
//! random   T = irregular lines from memory outside chases / R_random,   gathered lines / R_gather
//! ```
//!
//! Without the deficiency `latency` chases advance 16 at once, the most that was measured, and other accesses come in order.
//!
//! n_level are the irregular accesses that each level serves. c is their concurrency: irregular misses for each link of
//! the slowest chase (eight interleaved chases miss eight times while one advances by one), times the overlap k(n) of
//! short chases that start anew. R are the measured `dram.chase.{1,2,4,8,16}`, `dram.random` and `dram.gather`
//! in accesses per second; they contain the concurrency that this host reaches. For the cost of pages of 4 KiB see `paging.rs`.

use rprof_profile::evidence::memory::{LINE_BYTES, Traffic};
use rprof_profile::function::{Chain, ChainStep, Cycle};

use super::super::deficiency::{Deficiency, Removed};
use super::super::host::{Host, Scaling, Trace};
use super::{Subject, chain, paging};

/// Measured numbers of interleaved chases.
const CHASES: [u32; 5] = [1, 2, 4, 8, 16];
/// More misses under way than this are bandwidth, not latency.
const MOST_CONCURRENT: f64 = 16.0;

/// The parts of T_latency at one thread count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    /// Seconds waiting for memory.
    pub dram: f64,
    /// Seconds waiting for caches and for the other steps of the chase.
    pub cache: f64,
}

/// T_latency at `threads`, in seconds.
pub fn seconds(subject: &Subject<'_>, threads: u32, removed: Removed, trace: &mut Trace) -> Option<f64> {
    parts(subject, threads, removed, trace).map(|p| p.dram + p.cache)
}

/// T_latency at `threads` by the source of the latency.
pub fn parts(subject: &Subject<'_>, threads: u32, removed: Removed, trace: &mut Trace) -> Option<Parts> {
    let Some(work) = &subject.function.work else {
        trace.lacks("address dependencies not counted");
        return None;
    };
    let chases: Vec<&Chain> = one_by_loop(work.chains.iter().filter(|c| c.cycles.iter().any(Cycle::is_chase)));
    let Some(traffic) = work.traffic else {
        trace.lacks("misses not measured (no memory model ran)");
        return None;
    };
    let memory = Memory { host: subject.host, threads, walked: paging::walked_share(subject, removed) };
    let irregular = irregular_share(&traffic, !chases.is_empty());
    let links: f64 = chases.iter().map(|c| c.iterations as f64 * loads_per_iteration(c)).sum();
    let mut parts = Parts::default();
    let mut chased = 0.0;
    if links > 0.0 {
        let side_by_side = (traffic.l1_misses * irregular / links).max(1.0);
        let restarted =
            chases.iter().map(|c| chain::restart_overlap(c, subject.host, trace)).fold(f64::INFINITY, f64::min);
        let concurrent = (side_by_side * restarted).clamp(1.0, MOST_CONCURRENT);
        let concurrent = if removed.has(Deficiency::Latency) { MOST_CONCURRENT } else { concurrent };
        let served = Served::of(&traffic, irregular, links * side_by_side);
        chased = served.dram * links * side_by_side;
        let flight = Flight { side_by_side, concurrent };
        for c in &chases {
            let part = chase_seconds(c, flight, served, memory, trace)?;
            parts.dram += part.dram;
            parts.cache += part.cache;
        }
    }
    let lines = traffic.lines_of_known_order();
    if lines > 0.0 && !removed.has(Deficiency::Latency) {
        let random = (traffic.l3_misses * traffic.random_lines / lines - chased).max(0.0);
        let gathered = traffic.l3_misses * traffic.gathered_lines / lines;
        let mut scattered = 0.0;
        for (misses, id) in [(random, "dram.random"), (gathered, "dram.gather")] {
            if misses > 0.05 * traffic.l3_misses {
                scattered += misses / memory.access_rate(id, trace)?;
            }
        }
        parts.dram = parts.dram.max(scattered);
    }
    Some(parts)
}

/// Share of the misses that follow no constant stride. A chase without stride statistics counts as irregular.
fn irregular_share(t: &Traffic, chasing: bool) -> f64 {
    t.irregular_share().unwrap_or(if chasing { 1.0 } else { 0.0 })
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

/// Chases that advance together, and with the overlap of restarted ones the accesses that are under way at once.
#[derive(Debug, Clone, Copy)]
struct Flight {
    side_by_side: f64,
    concurrent: f64,
}

/// The chain with most links of each loop.
fn one_by_loop<'c>(chains: impl Iterator<Item = &'c Chain>) -> Vec<&'c Chain> {
    let mut all: Vec<&Chain> = chains.collect();
    all.sort_by(|a, b| a.header.cmp(&b.header).then(loads_per_iteration(b).total_cmp(&loads_per_iteration(a))));
    all.dedup_by_key(|c| c.header);
    all
}

/// Loads on the slowest chase of the loop, per iteration.
fn loads_per_iteration(c: &Chain) -> f64 {
    let loads = |steps: &[ChainStep]| steps.iter().filter(|s| **s == ChainStep::Load).count() as f64;
    c.cycles.iter().map(|cycle| loads(&cycle.steps) / f64::from(cycle.distance.max(1))).fold(0.0, f64::max)
}

fn chase_seconds(c: &Chain, flight: Flight, served: Served, memory: Memory<'_>, trace: &mut Trace) -> Option<Parts> {
    let Memory { host, threads, .. } = memory;
    let Flight { side_by_side, concurrent } = flight;
    let loads = c.iterations as f64 * loads_per_iteration(c) * side_by_side;
    let mut dram = 0.0;
    if served.dram > 0.0 {
        dram = loads * served.dram / memory.chase_rate(concurrent, trace)?;
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
        .filter(|cycle| cycle.is_chase())
        .map(|cycle| chain::cycle_seconds(cycle, host, trace))
        .fold(0.0, f64::max);
    let other = c.iterations as f64 * steps;
    Some(Parts { dram, cache: (cache / concurrent + other) / f64::from(threads) })
}

/// Memory as accesses that follow no stride see it.
#[derive(Debug, Clone, Copy)]
struct Memory<'h> {
    host: Host<'h>,
    threads: u32,
    /// Share of the cost of 4 KiB pages that the function pays.
    walked: f64,
}

impl Memory<'_> {
    /// Accesses per second of `chains` interleaved chases: linear between the measured numbers of chains.
    fn chase_rate(self, chains: f64, trace: &mut Trace) -> Option<f64> {
        let known: Vec<(u32, f64)> = CHASES
            .into_iter()
            .filter(|n| self.host.has(&format!("dram.chase.{n}")))
            .filter_map(|n| self.access_rate(&format!("dram.chase.{n}"), trace).map(|r| (n, r)))
            .collect();
        if known.is_empty() {
            let latency = self.host.latency("lat.dram", trace)?;
            return Some(chains * f64::from(self.threads) / latency);
        }
        let below = known.iter().rev().find(|(n, _)| f64::from(*n) <= chains);
        let above = known.iter().find(|(n, _)| f64::from(*n) >= chains);
        Some(match (below, above) {
            (Some((n, r)), Some((m, s))) if m > n => r + (s - r) * (chains - f64::from(*n)) / f64::from(m - n),
            (Some((_, r)), _) => *r,
            (None, Some((n, r))) => r * chains / f64::from(*n),
            (None, None) => return None,
        })
    }

    /// A ceiling of an access class in accesses per second, on the pages that there are.
    fn access_rate(self, id: &str, trace: &mut Trace) -> Option<f64> {
        let on_huge = self.ceiling(id, trace)?;
        let small = paging::small_id(id);
        if self.walked == 0.0 || !self.host.has(&small) {
            return Some(on_huge);
        }
        let on_small = self.ceiling(&small, trace)?;
        Some(1.0 / paging::per_unit(on_huge, on_small, self.walked))
    }

    /// A ceiling in accesses per second, whatever of `access/s`, `byte/s` and `s` its unit is.
    fn ceiling(self, id: &str, trace: &mut Trace) -> Option<f64> {
        let value = self.host.value(id, self.threads, Scaling::Shared, trace)?;
        Some(match self.host.unit(id) {
            Some("byte/s") => value / LINE_BYTES,
            Some("s") => f64::from(self.threads) / value,
            _ => value,
        })
    }
}
