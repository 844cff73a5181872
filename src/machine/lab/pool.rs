//! What neighbours do to one ceiling of the memory they do to all.
//!
//! A few moments show one ceiling's own range badly, but there are many ceilings: what nine tenths of those of the same memory
//! and thread count keep within, and somewhat more for another run, is the least that is promised of each. Of what else lies beyond
//! a core's own caches there are too few to learn from.

use super::Steadiness;
use crate::profile::clock;
use crate::profile::machine::{Ceiling, ON_SMALL_PAGES};

/// Share of the ceilings whose intervals the least one covers.
const COVERED: f64 = 0.9;

/// Fewer ceilings than this say nothing of one another.
const ENOUGH: usize = 8;

/// How much more another run differs than the moments of one do: its neighbours are those of another minute. Of pairs of runs a
/// minute apart one ceiling in ten left what the moments of the first kept within, by up to half of it.
pub const ANOTHER_RUN: f64 = 1.5;

/// What is promised at least of a ceiling beyond a core's own caches, and of a cost: another run's buffers lie on other pages, which meet the last
/// level's slices and sets otherwise. Of pairs of runs the same ceiling of L3 differed by up to 2.3 %; of small pages most depends on
/// where they are, and a fault's time on what kernel and hypervisor have at hand. In a guest other guests use the same last level
/// and memory: the rate of one stream from DRAM stays within 1 % for seconds and then goes to one 6 to 10 % away, which the
/// half minute of a measurement need not show. A mispredicted branch cost up to 4.4 % more in one run of a pair on Zen 1, whose moments
/// agreed within 1 to 3 %.
fn least(id: &str, guest: bool) -> f64 {
    match clock::of_all_cpus(id) {
        "mispredict" => 0.05,
        _ if guest => 0.10,
        "pagefault" => 0.10,
        id if id.ends_with(ON_SMALL_PAGES) => 0.10,
        _ => 0.025,
    }
}

/// Widens the intervals of settled ceilings beyond a core's own caches, and of costs, to [`least`], and those of DRAM on huge
/// pages to `factor` times what [`COVERED`] of those with as many threads keep within: [`ANOTHER_RUN`], or 1 where that has been done.
pub fn widen(ceilings: &mut [Ceiling], factor: f64, guest: bool) {
    let has_least = |id: &str| matches!(Steadiness::of(id), Steadiness::Shared | Steadiness::Cost);
    let widened = |c: &&mut Ceiling| c.settled && c.how == "measured" && has_least(&c.id);
    for ceiling in ceilings.iter_mut().filter(widened) {
        ceiling.spread = ceiling.spread.map(|s| s.max(least(&ceiling.id, guest)));
    }
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
        let most = Steadiness::Shared.tolerance();
        let common = (factor * spreads[((spreads.len() - 1) as f64 * COVERED) as usize]).min(most);
        for ceiling in ceilings.iter_mut().filter(|c| of_pool(c)) {
            ceiling.spread = ceiling.spread.map(|s| s.max(common));
        }
    }
}

fn is_pooled(ceiling: &Ceiling) -> bool {
    let of_memory = ["dram.", "lat.dram"].iter().any(|id| clock::of_all_cpus(&ceiling.id).starts_with(id));
    of_memory && !ceiling.id.ends_with(ON_SMALL_PAGES) && ceiling.settled && ceiling.value.is_some()
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
            resting_hz: None,
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
            (0..11).map(|n| ceiling(&format!("dram.{n}"), 2, 0.01 * f64::from(n) / 3.0, true)).collect();
        all.push(ceiling("dram.unsettled", 2, 0.5, false));
        all.push(ceiling("dram.read", 1, 0.01, true));
        all.push(ceiling("l3.read", 2, 0.01, true));
        all.push(ceiling("l2.read", 2, 0.01, true));
        widen(&mut all, ANOTHER_RUN, false);
        let spread = |id: &str, threads| all.iter().find(|c| c.is(id, threads)).and_then(|c| c.spread);
        let of = |id| (spread(id, 2).expect("there") * 1000.0).round();
        assert_eq!(
            (of("dram.0"), of("dram.9"), of("dram.10")),
            (45.0, 45.0, 45.0),
            "half as much again as nine tenths"
        );
        // An unsettled one does not widen the others; other memories and thread counts are others.
        assert_eq!((spread("dram.read", 1), spread("l3.read", 2)), (Some(0.025), Some(0.025)));
        assert_eq!(spread("l2.read", 2), Some(0.01), "a core's own");
        let before = all.clone();
        widen(&mut all, 1.0, false);
        assert_eq!(all, before, "again changes nothing");
        widen(&mut all, 1.0, true);
        let of = |id: &str, threads| all.iter().find(|c| c.is(id, threads)).and_then(|c| c.spread);
        assert_eq!(
            [of("dram.0", 2), of("l3.read", 2), of("l2.read", 2)],
            [Some(0.1), Some(0.1), Some(0.01)],
            "a guest"
        );
    }
}
