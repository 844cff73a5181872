//! Ceilings before and after the timed pass.
//!
//! On a shared host the neighbours leave more of the memory at one minute than at the next. rprof probes the ceilings again
//! when the program has run. It uses the better value of each, and marks one that moved with the range.

use crate::machine::estimate::class::Class;
use crate::profile::clock;
use crate::profile::machine::{Ceiling, Machine};
use crate::profile::run::Warning;

/// The warning's code.
pub const MOVED_CODE: &str = "ceilings-moved";

/// The ceilings of a run with those from `before` and `after` it, and a warning if any moved. Those that follow the core's clock
/// are compared per cycle.
pub fn around(mut before: Machine, after: &Machine) -> (Machine, Option<Warning>) {
    let mut moved: Vec<(String, f64, f64)> = Vec::new();
    for ceiling in &mut before.ceilings {
        let later = after.ceilings.iter().find(|later| later.is_same(ceiling) && *later != ceiling);
        let Some((later, new)) = later.and_then(|later| Some((later, later.value?))) else { continue };
        let at_its_clock = |value| later.reference_clock_hz().map_or(value, |hz| clock::value_at(ceiling, value, hz));
        let Some(old) = ceiling.value.map(at_its_clock) else {
            *ceiling = later.clone();
            continue;
        };
        let apart = 1.0 - old.min(new) / old.max(new);
        if (Ceiling { value: Some(old), ..ceiling.clone() }).gain(later) > 0.0 {
            *ceiling = later.clone();
        }
        let spread = ceiling.spread.unwrap_or(0.0).max(later.spread.unwrap_or(0.0));
        if apart > Class::of(&ceiling.id).noisy_from().max(spread) {
            ceiling.spread = Some(ceiling.spread.unwrap_or(0.0).max(apart));
            *ceiling = ceiling.clone().noisy(format!("{old:.4e} before the run, {new:.4e} after it"));
            moved.push((ceiling.id.to_string(), old, new));
        }
    }
    let is_new = |later: &&Ceiling| !before.ceilings.iter().any(|c| c.is_same(later));
    let new: Vec<Ceiling> = after.ceilings.iter().filter(is_new).cloned().collect();
    before.ceilings.extend(new);
    for sweep in &after.sweeps {
        if before.sweep(&sweep.id, sweep.threads).is_none() {
            before.sweeps.push(sweep.clone());
        }
    }
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

fn apart((_, old, new): &(String, f64, f64)) -> f64 {
    (old / new).ln().abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::machine::{Missing, Quality};

    fn ceiling(id: &str, unit: &str, value: Option<f64>) -> Ceiling {
        let quality = if value.is_some() { Quality::Reproduced } else { Quality::Missing(Missing::Time) };
        Ceiling { value, spread: Some(0.01), quality, ..Ceiling::blank(id, unit, 2) }
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
        assert_eq!((by("dp.fma").value, by("dp.fma").is_reproduced()), (Some(1.02e11), true));
        assert!(!by("dram.read").is_reproduced() && by("dram.read").spread == Some(0.5));
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
        assert!(merged.ceilings[0].is_reproduced() && !merged.ceilings[1].is_reproduced() && warning.is_some());
    }

    #[test]
    fn what_was_measured_only_after_the_run_is_taken() {
        let (merged, warning) = around(machine(None, 1e-7, 1e11), &machine(Some(30e9), 1e-7, 1e11));
        assert_eq!(merged.value("dram.read", 2), Some(30e9));
        assert!(warning.is_none());
    }
}
