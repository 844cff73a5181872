//! Ceilings before and after the timed pass.
//!
//! On a shared host the neighbours leave more of the memory at one minute than at the next. The ceilings are looked at
//! again when the program has run: of each the better value stands, and one that moved is marked with the range.

use crate::profile::clock;
use crate::profile::machine::{Ceiling, Machine, bring_small_pages_along};
use crate::profile::placement::{self, Placed};
use crate::profile::run::Warning;

/// The warning's code.
pub const MOVED_CODE: &str = "ceilings-moved";

/// A ceiling that moved by more than this is not settled.
const MOVED: f64 = 0.10;

/// The ceilings of a run with those from `before` and `after` it, and a doubt if the memory's moved. Those that depend on where
/// the CPUs are are compared with those of the same placement, those that follow the core's clock per cycle.
pub fn around(mut before: Machine, after: &Machine) -> (Machine, Option<Warning>) {
    let mut moved: Vec<(String, f64, f64)> = Vec::new();
    let (earlier, as_before) = (before.by_placement(), before.ceilings.clone());
    let here = before.core_to_core.as_ref().filter(|_| after.core_to_core.is_some());
    for ceiling in &mut before.ceilings {
        let same = |c: &&Ceiling| c.is_same(ceiling);
        let later = match here.filter(|_| placement::depends(ceiling)) {
            Some(here) => after.ceilings_at(here).and_then(|there| there.iter().find(same)),
            None => after.ceilings.iter().find(same),
        };
        let Some(later) = later else { continue };
        if later == ceiling {
            continue;
        }
        let at_its_clock = |value| later.looked_hz().map_or(value, |hz| clock::value_at(ceiling, value, hz));
        let (Some(old), Some(new)) = (ceiling.value.map(at_its_clock), later.value) else {
            if later.value.is_some() {
                *ceiling = later.clone();
            }
            continue;
        };
        let (least, most) = (old.min(new), old.max(new));
        let spread = if most > 0.0 { 1.0 - least / most } else { 0.0 };
        if is_better(&ceiling.unit, new, old) {
            *ceiling = later.clone();
        }
        if spread > MOVED {
            ceiling.settled = false;
            ceiling.spread = Some(ceiling.spread.unwrap_or(0.0).max(spread));
            ceiling.reason = Some(format!("{old:.4e} before the run, {new:.4e} after it"));
            moved.push((ceiling.id.clone(), old, new));
        }
    }
    bring_small_pages_along(&mut before.ceilings, &as_before);
    before.placements = union(earlier, after.by_placement());
    let warning = moved.iter().max_by(|a, b| apart(a).total_cmp(&apart(b))).map(|(id, old, new)| {
        Warning::new(
            MOVED_CODE,
            format!(
                "{} ceiling{} of this host moved while the program ran; {id} most, from {old:.3e} to {new:.3e}",
                moved.len(),
                if moved.len() == 1 { "" } else { "s" }
            ),
            "the better value is used, so functions that ran while the machine was slower look worse than they were",
            "profile again on a quiet host",
        )
    });
    (before, warning)
}

/// The placements of both; of each ceiling of one placement the better value. Nothing where there is but one.
fn union(mut all: Vec<Placed>, others: Vec<Placed>) -> Vec<Placed> {
    for other in others {
        let Some(known) = all.iter_mut().find(|p| p.core_to_core.is_same(&other.core_to_core)) else {
            all.push(other);
            continue;
        };
        for ceiling in other.ceilings {
            match known.ceilings.iter_mut().find(|c| c.is_same(&ceiling)) {
                Some(old) => {
                    if ceiling.value.is_some_and(|new| old.value.is_none_or(|old| is_better(&ceiling.unit, new, old))) {
                        *old = ceiling;
                    }
                }
                None => known.ceilings.push(ceiling),
            }
        }
    }
    if all.len() > 1 { all } else { Vec::new() }
}

/// Latencies are better the smaller they are.
fn is_better(unit: &str, value: f64, than: f64) -> bool {
    if unit == "s" { value < than } else { value > than }
}

fn apart((_, old, new): &(String, f64, f64)) -> f64 {
    (old / new).ln().abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::placement::CoreToCore;

    fn ceiling(id: &str, unit: &str, value: Option<f64>) -> Ceiling {
        Ceiling {
            id: id.into(),
            value,
            unit: unit.into(),
            threads: 2,
            clock_hz: None,
            resting_hz: None,
            spread: Some(0.01),
            settled: value.is_some(),
            how: "measured".into(),
            reason: None,
            device: "cpu".into(),
        }
    }

    fn machine(read: Option<f64>, latency: f64, roof: f64) -> Machine {
        let ceilings = vec![
            ceiling("dram.read", "byte/s", read),
            ceiling("lat.dram", "s", Some(latency)),
            ceiling("dp.fma", "flop/s", Some(roof)),
        ];
        Machine { ceilings, ..Machine::default() }
    }

    #[test]
    fn the_better_value_stands_and_what_moved_is_marked() {
        let (merged, warning) = around(machine(Some(60e9), 2e-7, 1.00e11), &machine(Some(30e9), 1e-7, 1.02e11));
        let by = |id: &str| merged.ceilings.iter().find(|c| c.id == id).unwrap();
        assert_eq!((by("dram.read").value, by("lat.dram").value), (Some(60e9), Some(1e-7)));
        assert_eq!((by("dp.fma").value, by("dp.fma").settled), (Some(1.02e11), true));
        assert!(!by("dram.read").settled && by("dram.read").spread == Some(0.5));
        assert_eq!(warning.unwrap().code, "ceilings-moved");
    }

    #[test]
    fn another_clock_is_no_move_of_what_follows_it() {
        let at = |id: &str, value: f64, ghz: f64| Ceiling {
            clock_hz: Some(ghz * 1e9),
            ..ceiling(id, "flop/s", Some(value))
        };
        let of = |ceilings| Machine { ceilings, ..Machine::default() };
        let before = of(vec![at("dp.fma", 60e9, 3.0), at("dp.tlp", 1.0e9, 3.0)]);
        let after = of(vec![at("dp.fma", 48e9, 2.4), at("dp.tlp", 0.9e9, 2.4)]);
        let (merged, warning) = around(before, &after);
        assert_eq!(merged.ceilings[0].value, Some(60e9));
        assert_eq!(
            (merged.ceilings[1].value, merged.ceilings[1].clock_hz),
            (Some(0.9e9), Some(2.4e9)),
            "more in a cycle"
        );
        assert!(merged.ceilings[0].settled && !merged.ceilings[1].settled && warning.is_some());
    }

    #[test]
    fn what_was_measured_only_after_the_run_is_taken() {
        let (merged, warning) = around(machine(None, 1e-7, 1e11), &machine(Some(30e9), 1e-7, 1e11));
        assert_eq!(merged.value("dram.read", 2), Some(30e9));
        assert!(warning.is_none());
    }

    #[test]
    fn what_depends_on_the_placement_of_the_cpus_is_compared_with_its_like() {
        let at = |ns: f64| CoreToCore::of(vec![ns * 1e-9]);
        let placed = |read, ns| Machine { core_to_core: Some(at(ns)), ..machine(Some(read), 1e-7, 1e11) };
        let (merged, warning) = around(placed(40e9, 45.0), &placed(70e9, 205.0));
        assert_eq!((merged.value("dram.read", 2), warning), (Some(40e9), None), "the CPUs were moved, not the ceiling");
        let reads = |m: &Machine| m.placements.iter().map(|p| p.value("dram.read", 2)).collect::<Vec<_>>();
        assert_eq!(reads(&merged), [Some(40e9), Some(70e9)]);
        // Later on both are known, and one of them moved.
        let (merged, warning) = around(merged, &placed(30e9, 47.0));
        assert_eq!((merged.value("dram.read", 2), warning.is_some()), (Some(40e9), true));
        assert_eq!(reads(&merged), [Some(40e9), Some(70e9)]);
    }
}
