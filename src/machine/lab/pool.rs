//! What neighbours do to one ceiling of the memory they do to all.
//!
//! A few moments show one ceiling's own range badly, but there are many ceilings: what nine tenths of those of the same memory
//! and thread count keep within is the least that is promised of each.

use crate::profile::machine::Ceiling;

/// Share of the ceilings whose intervals the least one covers.
const COVERED: f64 = 0.9;

/// Fewer ceilings than this say nothing of one another.
const ENOUGH: usize = 8;

/// Widens the intervals of settled ceilings of DRAM, and of page faults, whose pages are written there, to what [`COVERED`] of those with as many threads keep within.
pub fn widen(ceilings: &mut [Ceiling]) {
    let mut counts: Vec<u32> = ceilings.iter().filter(|c| is_pooled(c)).map(|c| c.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    for threads in counts {
        let of_pool = |c: &Ceiling| is_pooled(c) && c.threads == threads;
        let mut spreads: Vec<f64> = ceilings.iter().filter(|c| of_pool(c)).filter_map(|c| c.spread).collect();
        if spreads.len() < ENOUGH {
            continue;
        }
        spreads.sort_unstable_by(f64::total_cmp);
        let least = spreads[((spreads.len() - 1) as f64 * COVERED) as usize];
        for ceiling in ceilings.iter_mut().filter(|c| of_pool(c)) {
            ceiling.spread = ceiling.spread.map(|s| s.max(least));
        }
    }
}

fn is_pooled(ceiling: &Ceiling) -> bool {
    let of_memory = ["dram.", "lat.dram", "pagefault"].iter().any(|id| ceiling.id.starts_with(id));
    of_memory && ceiling.settled && ceiling.value.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(id: &str, threads: u32, spread: f64, settled: bool) -> Ceiling {
        Ceiling {
            id: id.into(),
            value: Some(1.0),
            unit: "byte/s".into(),
            threads,
            clock_hz: None,
            spread: Some(spread),
            settled,
            how: "measured".into(),
            reason: None,
            device: "cpu".into(),
        }
    }

    #[test]
    fn what_most_keep_within_is_promised_of_each() {
        let mut all: Vec<Ceiling> =
            (0..11).map(|n| ceiling(&format!("dram.{n}"), 2, 0.01 * f64::from(n), true)).collect();
        all.push(ceiling("dram.unsettled", 2, 0.5, false));
        all.push(ceiling("dram.read", 1, 0.01, true));
        all.push(ceiling("l3.read", 2, 0.01, true));
        widen(&mut all);
        let spread = |id: &str, threads| all.iter().find(|c| c.is(id, threads)).and_then(|c| c.spread);
        assert_eq!((spread("dram.0", 2), spread("dram.10", 2)), (Some(0.09), Some(0.1)));
        // An unsettled one does not widen the others; other memories and thread counts are others.
        assert_eq!((spread("dram.read", 1), spread("l3.read", 2)), (Some(0.01), Some(0.01)));
        let before = all.clone();
        widen(&mut all);
        assert_eq!(all, before, "again changes nothing");
    }
}
