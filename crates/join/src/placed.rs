//! Whether the hypervisor moved the CPUs while the program ran, or since the ceilings were measured.

use rprof_profile::Machine;
use rprof_profile::core_to_core::CoreToCore;
use rprof_profile::evidence::timed::TimedEvidence;
use rprof_profile::run::Warning;

/// Minimum probes that see a placement: a placement seen once is a disturbance.
const SEEN: usize = 2;

/// A warning if the CPUs were moved: the watch saw them in several places, or elsewhere than when `machine` was measured.
pub fn warning(timed: &TimedEvidence, machine: &Machine) -> Option<Warning> {
    let mut places: Vec<(CoreToCore, usize)> = machine.core_to_core.iter().map(|p| (p.clone(), SEEN)).collect();
    for look in &timed.placements {
        match places.iter_mut().find(|(place, _)| place.is_same(&look.core_to_core)) {
            Some((place, times)) => (*place, *times) = (place.least(&look.core_to_core), *times + 1),
            None => places.push((look.core_to_core.clone(), 1)),
        }
    }
    let words: Vec<String> = places.iter().filter(|(_, times)| *times >= SEEN).map(|(p, _)| p.words()).collect();
    (words.len() > 1 && !timed.placements.is_empty()).then(|| {
        Warning::new(
            "cpus-moved",
            format!(
                "the hypervisor moved this host's CPUs while the program ran, or since the ceilings were measured: {}",
                words.join(", then ")
            ),
            "L3 and DRAM may give several threads up to twice or half of what the ceilings say",
            "use whole cores that the provider pins",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::evidence::timed::PlacementSeen;

    fn at(ns: f64) -> CoreToCore {
        CoreToCore::of(vec![ns * 1e-9])
    }

    #[test]
    fn cpus_that_were_moved_are_told() {
        let of = |measured: Option<f64>, looks: &[f64]| {
            let placements = looks.iter().map(|ns| PlacementSeen { time_ns: 0, core_to_core: at(*ns) }).collect();
            let timed = TimedEvidence { placements, ..TimedEvidence::default() };
            let machine = Machine { core_to_core: measured.map(at), ..Machine::default() };
            warning(&timed, &machine).map(|w| w.text)
        };
        let moved = of(None, &[46.0, 60.0, 210.0, 205.0, 600.0]).expect("moved");
        assert!(moved.ends_with("46 ns, then lines cross in 205 ns"), "600 ns were seen once: {moved}");
        assert!(of(Some(45.0), &[205.0, 210.0]).is_some(), "since the ceilings were measured");
        assert_eq!((of(Some(45.0), &[46.0, 600.0, 47.0]), of(Some(45.0), &[]), of(None, &[])), (None, None, None));
    }
}
