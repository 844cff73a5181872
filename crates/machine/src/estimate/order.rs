//! Orders among ceilings that hold on every machine (docs/conventions.md, Ceilings): a measurement that breaks one is wrong.

use std::collections::BTreeSet;

use crate::kernels::x86_64::stream::Stream;
use rprof_profile::clock;
use rprof_profile::machine::Ceiling;

/// A lower ceiling may exceed the upper one by this share of it, or by their intervals.
const SLACK: f64 = 0.03;

/// Two ceilings that are in the wrong order.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// Thread count of both.
    pub threads: u32,
    /// Id of the ceiling that should be at least as high.
    pub upper: String,
    /// Id of the ceiling that exceeds it.
    pub lower: String,
    /// The lower ceiling's value divided by the upper one's.
    pub factor: f64,
}

/// Ids with the amount of work in one unit, from the highest rate to the lowest: `tlp ≤ ilp ≤ simd ≤ fma ≤ peak`; L1 ≥ L2 ≥ L3 ≥ DRAM in
/// elements per second for each kind of stream; stream > random ≥ chase.16 ≥ … ≥ chase.1.
fn descending() -> Vec<Vec<(String, f64)>> {
    let mut orders: Vec<Vec<(String, f64)>> = ["dp", "sp"]
        .iter()
        .map(|p| ["peak", "fma", "simd", "ilp", "tlp"].iter().map(|rung| (format!("{p}.{rung}"), 1.0)).collect())
        .collect();
    for kind in Stream::ALL {
        let at =
            |level: &&str| (format!("{level}.{}", kind.name()), kind.bytes_per_element(*level != "l1", false) as f64);
        orders.push(["l1", "l2", "l3", "dram"].iter().map(at).collect());
    }
    let irregular = ["read", "random", "chase.16", "chase.8", "chase.4", "chase.2", "chase.1"];
    orders.push(irregular.iter().map(|name| (format!("dram.{name}"), 1.0)).collect());
    orders
}

/// Neighbours in the wrong order, at every thread count; ceilings without a value are skipped. An in-core ceiling is converted to the clock
/// of the other one, since the clocks of some hosts jump by 18 % for seconds at a time.
pub fn violations(ceilings: &[Ceiling]) -> Vec<Violation> {
    let counts: BTreeSet<u32> = ceilings.iter().map(|c| c.threads).collect();
    let mut found = Vec::new();
    for (threads, order) in counts.iter().flat_map(|n| descending().into_iter().map(|o| (*n, o))) {
        let with_value = |id: &str| ceilings.iter().find(|c| c.is(id, threads) && c.value.is_some());
        let known: Vec<(&Ceiling, f64)> =
            order.iter().filter_map(|(id, unit)| with_value(id).map(|c| (c, *unit))).collect();
        for pair in known.windows(2) {
            let [(upper, of_upper), (lower, of_lower)] = [pair[0], pair[1]];
            let reference_clock_hz = lower.reference_clock_hz().unwrap_or(0.0);
            let most =
                upper.value.map_or(f64::INFINITY, |value| clock::value_at(upper, value, reference_clock_hz) / of_upper);
            let factor = lower.value.unwrap_or(0.0) / of_lower / most;
            let slack = [upper, lower].iter().filter_map(|c| c.spread).fold(SLACK, f64::max);
            if factor > 1.0 + slack {
                found.push(Violation { threads, upper: upper.id.to_string(), lower: lower.id.to_string(), factor });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_clock_is_compared_at_one() {
        let at = |id: &str, value: f64, hz: f64| Ceiling {
            clock_hz: Some(hz),
            ..Ceiling::reproduced(id, value, "byte/s", 1)
        };
        let broken = |l1, l2, l3| {
            let all = [at("l1.read", l1, 2.5e9), at("l2.read", l2, 3e9), at("l3.read", l3, 2.5e9)];
            violations(&all).into_iter().map(|v| v.lower).collect::<Vec<_>>()
        };
        assert!(broken(80e9, 95e9, 70e9).is_empty(), "32 and 31.7 bytes a cycle");
        assert_eq!(broken(75e9, 95e9, 70e9), ["l2.read"]);
        // At the clock of L3, L2 reads no more than 79 GB/s.
        assert_eq!(broken(80e9, 95e9, 85e9), ["l3.read"]);
    }
}
