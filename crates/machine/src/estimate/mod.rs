//! From rounds to ceilings: one rule for all of them (docs/ceilings.md).

pub mod class;
pub mod order;
pub mod rounds;

use std::collections::BTreeSet;

use order::Violation;
use rprof_profile::machine::{Ceiling, CeilingId};

/// Ids and thread counts of some ceilings.
pub type Keys = BTreeSet<(CeilingId, usize)>;

/// The keys of the `wanted` ones among `ceilings`.
pub fn keys(ceilings: &[Ceiling], wanted: impl Fn(&Ceiling) -> bool) -> Keys {
    ceilings.iter().filter(|c| wanted(c)).map(|c| (c.id.clone(), c.threads as usize)).collect()
}

/// Marks both sides of every order that is broken as noisy.
pub fn mark_violations(ceilings: &mut [Ceiling]) {
    for Violation { threads, upper, lower, factor } in order::violations(ceilings) {
        let percent = 100.0 * (factor - 1.0);
        for (id, text) in [
            (&upper, format!("{lower} is {percent:.0} % above it, which cannot be")),
            (&lower, format!("it is {percent:.0} % above {upper}, which cannot be")),
        ] {
            for ceiling in ceilings.iter_mut().filter(|c| c.is(id, threads)) {
                *ceiling = ceiling.clone().noisy(text.clone());
            }
        }
    }
}

/// Marks a ceiling measured before its part of the machine changed by `factor`: its interval reaches to the present value of that part.
pub fn outdate(ceiling: &mut Ceiling, what: &str, factor: f64) {
    let spread = ceiling.spread.unwrap_or(0.0).max((factor - 1.0).abs());
    let reason = format!("measured before {what} changed; `rprof machine --refresh` measures it again");
    *ceiling = Ceiling { spread: Some(spread), ..ceiling.clone().noisy(reason) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_an_order_is_noisy_on_both_sides() {
        let mut all = [("l1.read", 100e9), ("l2.read", 150e9), ("l3.read", 50e9)]
            .map(|(id, value)| Ceiling::reproduced(id, value, "byte/s", 1));
        mark_violations(&mut all);
        assert_eq!(all.clone().map(|c| c.is_reproduced()), [false, false, true]);
        assert!(all[1].reason.as_deref().is_some_and(|r| r.contains("above l1.read")));
    }

    #[test]
    fn the_interval_of_what_is_outdated_reaches_to_what_is_there_now() {
        let mut old = Ceiling { spread: Some(0.1), ..Ceiling::reproduced("dram.copy", 60e9, "byte/s", 2) };
        outdate(&mut old, "the memory", 0.5);
        assert_eq!((old.value, old.spread, old.is_reproduced()), (Some(60e9), Some(0.5), false));
    }
}
