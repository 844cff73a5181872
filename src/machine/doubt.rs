//! Ceilings in doubt: which there are, what two measurements of one say together, and orders that must hold.
//!
//! What is in doubt is measured again, at once and by later runs; what stays in doubt says why.

use super::lab::{Doubtful, Steadiness, Verdict, is_of_given_pages};
use super::order::{self, Violation};
use crate::profile::machine::{Ceiling, EARLIER};

/// How the reason of what did not fit the time begins.
pub const TOO_LATE: &str = "did not fit the time";

/// The reason of what was measured on shared cores only.
pub const SHARED_CORES: &str = "a thread shared its core with something else in almost every repetition: another guest, or the hypervisor put two CPUs on one core";

/// How the reason of a ceiling whose repetitions differ begins.
pub const DIFFER: &str = "its repetitions differ";

/// How the reason of a ceiling begins whose rate is known better than the clock that it was reached at.
pub const CLOCK: &str = "the core clock varied by";

/// How the reason of another name begins.
pub const ALIAS: &str = "is ";

/// Whether a ceiling is another name of one.
pub fn is_alias(ceiling: &Ceiling) -> bool {
    ceiling.reason.as_deref().is_some_and(|r| r.starts_with(ALIAS))
}

/// Marks what `moved` as measured before it did: it is measured again, and any new value takes its place.
pub fn outdate(ceilings: &mut [Ceiling], what: &str, moved: impl Fn(&Ceiling) -> bool) {
    for ceiling in ceilings.iter_mut().filter(|c| c.value.is_some() && moved(c)) {
        ceiling.settled = false;
        // Another name, and what was derived, keep the reason that says so.
        if ceiling.how == "measured" && !is_alias(ceiling) {
            ceiling.reason = Some(format!("{EARLIER} {what} moved; a later run measures it again"));
        }
    }
}

/// The reason of a ceiling that is another name of `id`.
pub fn alias_of(id: &str) -> String {
    format!("{ALIAS}{id}")
}

/// The id under which a ceiling is measured: its own, or that of which it is another name.
pub fn measured_as(ceiling: &Ceiling) -> &str {
    ceiling.reason.as_deref().and_then(|r| r.strip_prefix(ALIAS)).unwrap_or(&ceiling.id)
}

/// What should be measured again: what did not fit the time, what is unsettled, and what breaks an order.
pub fn doubtful(ceilings: &[Ceiling]) -> Doubtful {
    let own = ceilings
        .iter()
        .filter(|c| late(c) || (c.value.is_some() && !c.settled && (c.how == "measured" || c.id.starts_with("lat."))))
        .map(|c| (measured_as(c).to_owned(), c.threads as usize));
    let broken = order::violations(ceilings).into_iter().flat_map(|v| {
        [v.upper, v.lower].into_iter().filter_map(move |id| {
            let ceiling = ceilings.iter().find(|c| c.is(&id, v.threads))?;
            Some((measured_as(ceiling).to_owned(), v.threads as usize))
        })
    });
    own.chain(broken).collect()
}

/// Whether there was no time for a ceiling.
fn late(ceiling: &Ceiling) -> bool {
    ceiling.value.is_none() && ceiling.reason.as_deref().is_some_and(|r| r.starts_with(TOO_LATE))
}

/// Whether there was no time for `id`, at any number of threads.
pub fn is_late(ceilings: &[Ceiling], id: &str) -> bool {
    ceilings.iter().any(|c| c.id == id && late(c))
}

/// What has a value and is `of` a kind: of what neighbours or the placement of the CPUs are part, another moment tells how much.
pub fn measured(ceilings: &[Ceiling], of: impl Fn(&Ceiling) -> bool) -> Doubtful {
    ceilings
        .iter()
        .filter(|c| c.value.is_some() && of(c))
        .map(|c| (measured_as(c).to_owned(), c.threads as usize))
        .collect()
}

/// Whether a ceiling itself is from before something moved.
pub fn is_earlier(ceiling: &Ceiling) -> bool {
    ceiling.reason.as_deref().is_some_and(|r| r.starts_with(EARLIER))
}

/// Whether a ceiling, or what it is another name of, is from before something moved.
fn is_outdated(ceilings: &[Ceiling], ceiling: &Ceiling) -> bool {
    let of = |c: &&Ceiling| c.is(measured_as(ceiling), ceiling.threads);
    ceilings.iter().find(of).is_some_and(is_earlier)
}

/// Marks both sides of every order that is still broken as unsettled. What is from before something moved is so already, and
/// says nothing about what was measured since.
pub fn mark(ceilings: &mut [Ceiling]) {
    let current: Vec<Ceiling> = ceilings.iter().filter(|c| !is_outdated(ceilings, c)).cloned().collect();
    for Violation { threads, upper, lower, factor } in order::violations(&current) {
        let percent = 100.0 * (factor - 1.0);
        for (id, text) in [
            (&upper, format!("{lower} is {percent:.0} % above it, which cannot be")),
            (&lower, format!("it is {percent:.0} % above {upper}, which cannot be")),
        ] {
            let of = ceilings.iter().find(|c| c.is(id, threads)).map(|c| measured_as(c).to_owned());
            let Some(of) = of else { continue };
            for ceiling in ceilings.iter_mut().filter(|c| c.threads == threads && measured_as(c) == of) {
                ceiling.settled = false;
                // Another name keeps the reason that says so.
                if ceiling.id == of {
                    ceiling.reason = Some(text.clone());
                }
            }
        }
    }
}

/// Settles ceilings of several threads against which nothing speaks but shared cores, and their other names, where their
/// repetitions agreed; whether there was any.
pub fn accept_shared_cores(ceilings: &mut [Ceiling]) -> bool {
    let shared = |c: &Ceiling| c.threads > 1 && c.reason.as_deref().is_some_and(|r| r.starts_with(SHARED_CORES));
    let accepted: Doubtful =
        ceilings.iter().filter(|c| shared(c)).map(|c| (c.id.clone(), c.threads as usize)).collect();
    for ceiling in ceilings.iter_mut() {
        if accepted.contains(&(measured_as(ceiling).to_owned(), ceiling.threads as usize)) {
            ceiling.settled = ceiling.spread.is_some_and(|s| s <= Steadiness::of(&ceiling.id).tolerance());
            ceiling.reason = ceiling.reason.take().filter(|r| !r.starts_with(SHARED_CORES));
        }
    }
    !accepted.is_empty()
}

/// Whether a measurement was undisturbed: what speaks against it, if anything, is that its own repetitions differ.
pub fn undisturbed(ceiling: &Ceiling) -> bool {
    ceiling.settled || ceiling.reason.as_deref().is_some_and(|r| r.starts_with(DIFFER))
}

fn has_doubtful_clock(ceiling: &Ceiling) -> bool {
    ceiling.reason.as_deref().is_some_and(|r| r.starts_with(CLOCK))
}

/// The measurement with the better value; where one has none, the other.
pub fn better_value(old: Ceiling, new: Ceiling) -> Ceiling {
    ranked(old, new).0
}

/// The better of two measurements and the other one, unless only one has a value.
fn ranked(old: Ceiling, new: Ceiling) -> (Ceiling, Option<Ceiling>) {
    let (Some(a), Some(b)) = (old.value, new.value) else {
        return (if new.value.is_some() { new } else { old }, None);
    };
    // What was done in how many cycles is not known where the clock is not: neither better nor worse.
    match (has_doubtful_clock(&old), has_doubtful_clock(&new)) {
        _ if is_earlier(&old) => return (new, None),
        (true, false) if undisturbed(&new) => return (new, None),
        (false, true) if undisturbed(&old) => return (old, None),
        _ => {}
    }
    let new_is_better = if new.unit == "s" { b <= a } else { b >= a };
    if new_is_better { (new, Some(old)) } else { (old, Some(new)) }
}

/// The one of two measurements that says less doubt of itself (a difference of two figures is not better for being smaller),
/// with an interval that reaches to the other.
pub fn surer(old: Ceiling, new: Ceiling) -> Ceiling {
    let doubt = |c: &Ceiling| c.spread.unwrap_or(f64::INFINITY);
    let (sure, other) = if is_earlier(&old) || doubt(&new) <= doubt(&old) { (new, old) } else { (old, new) };
    let cycles = |c: &Ceiling| Some(c.value? * c.clock_hz?);
    match (cycles(&sure), cycles(&other)) {
        (Some(a), Some(b)) if a > 0.0 && !is_earlier(&other) => {
            let apart = (a / b - 1.0).abs();
            Ceiling { spread: sure.spread.map(|s| s.max(apart)), ..sure }
        }
        _ => sure,
    }
}

/// What two measurements of one ceiling say: the better value; settled if that one is, or if both agree: a best value that
/// comes out twice is one, whatever the other repetitions did.
pub fn better(old: Ceiling, new: Ceiling) -> Ceiling {
    let (best, other) = match ranked(old, new) {
        (best, Some(other)) => (best, other),
        (only, None) => return only,
    };
    let apart = match (best.value, other.value) {
        (Some(a), Some(b)) => 1.0 - (a / b).min(b / a),
        _ => return best,
    };
    let tolerance = Steadiness::of(&best.id).tolerance();
    let reproduced = undisturbed(&best) && undisturbed(&other) && apart <= tolerance / 3.0;
    if !best.settled && (reproduced || (other.settled && apart <= tolerance)) {
        let spread = if other.settled { other.spread.map(|s| s.max(apart)) } else { Some(apart) };
        return Ceiling { settled: true, reason: None, spread, ..best };
    }
    best
}

/// `best` with the spread that its moments tell: settled where the best state came back. A lower state is told in its reason.
pub fn by_moments(best: Ceiling, verdict: Verdict) -> Ceiling {
    let settled = verdict.spread <= Steadiness::of(&best.id).tolerance();
    let percent = |share: f64| 100.0 * share;
    let (lower, higher) = (percent(1.0 - verdict.lowest), percent(verdict.highest - 1.0));
    let reason = if is_of_given_pages(&best.id) {
        let mean = format!("a mean: single measurements are {lower:.0} % lower to {higher:.0} % higher");
        Some(if settled { mean } else { format!("{DIFFER}; {mean}") })
    } else if !settled {
        Some(format!("{DIFFER} by {:.0} % from one moment to another", percent(verdict.spread)))
    } else if verdict.agreeing < verdict.moments {
        let others = verdict.moments - verdict.agreeing;
        Some(match verdict.highest > 1.0 {
            true => format!("{higher:.0} % higher in one of {} measurements; not reproduced", verdict.moments),
            false => format!("up to {lower:.0} % lower in {others} of {} measurements", verdict.moments),
        })
    } else {
        None
    };
    Ceiling { settled, reason, spread: Some(verdict.spread), ..best }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(id: &str, value: f64, settled: bool) -> Ceiling {
        Ceiling {
            id: id.into(),
            value: Some(value),
            unit: if id.starts_with("lat") { "s" } else { "byte/s" }.into(),
            threads: 2,
            clock_hz: Some(1e9),
            resting_hz: None,
            spread: Some(if settled { 0.01 } else { 0.5 }),
            settled,
            how: "measured".into(),
            reason: None,
            device: "cpu".into(),
        }
    }

    #[test]
    fn the_better_measurement_stands_and_agreement_settles_it() {
        assert_eq!(better(ceiling("l2.read", 1.0, true), ceiling("l2.read", 2.0, true)).value, Some(2.0));
        assert_eq!(better(ceiling("lat.l2", 1.0, true), ceiling("lat.l2", 2.0, true)).value, Some(1.0));
        let agreed = better(ceiling("l2.read", 1.02, false), ceiling("l2.read", 1.0, true));
        assert!(agreed.settled && agreed.value == Some(1.02) && agreed.spread < Some(0.03), "{agreed:?}");
        let mut differing = ceiling("l2.read", 1.0, false);
        differing.reason = Some(format!("{DIFFER} by 5 %"));
        let twice = better(differing.clone(), Ceiling { value: Some(1.005), ..differing });
        assert!(twice.settled && twice.value == Some(1.005), "{twice:?}");
        let apart = better(ceiling("l2.read", 1.5, false), ceiling("l2.read", 1.0, true));
        assert!(!apart.settled && apart.value == Some(1.5));
        let late = better(ceiling("lat.l2", 1.0, false), ceiling("lat.l2", 1.02, true));
        assert!(late.settled && late.value == Some(1.0), "{late:?}");
    }

    #[test]
    fn a_figure_whose_clock_is_known_replaces_one_whose_clock_is_not() {
        let mut doubtful = ceiling("mix.alu.4", 102.0, false);
        doubtful.reason = Some(format!("{CLOCK} 2.0 % only"));
        let known = ceiling("mix.alu.4", 100.0, true);
        for (old, new) in [(&doubtful, &known), (&known, &doubtful)] {
            assert_eq!(better(old.clone(), new.clone()).value, Some(100.0));
        }
        let mut crowded = ceiling("mix.alu.4", 50.0, false);
        crowded.reason = Some(SHARED_CORES.into());
        assert_eq!(better(doubtful.clone(), crowded).value, Some(102.0), "half a core is no better");
        assert_eq!(better(doubtful.clone(), Ceiling { value: Some(103.0), ..doubtful }).value, Some(103.0));
    }

    #[test]
    fn of_two_differences_the_surer_one_stands_and_reaches_to_the_other() {
        let of = |cycles: f64, spread| Ceiling {
            unit: "s".into(),
            spread: Some(spread),
            ..ceiling("lat.dp.div.after.add.512", cycles * 1e-9, true)
        };
        let both = surer(of(2.0, 0.05), of(2.1, 0.01));
        assert!(both.value == Some(2.1e-9) && both.spread.is_some_and(|s| (s - 0.05).abs() < 1e-9), "{both:?}");
        assert_eq!(surer(of(2.0, 0.01), of(1.9, 0.05)).value, Some(2.0e-9), "not the smaller one");
        let mut earlier = of(2.0, 0.01);
        earlier.reason = Some(format!("{EARLIER} the core moved"));
        assert_eq!(surer(earlier, of(4.0, 0.05)).spread, Some(0.05));
    }

    #[test]
    fn a_lower_state_is_told_beside_the_ceiling() {
        let verdict = |spread, agreeing| Verdict { spread, agreeing, moments: 4, lowest: 0.6, highest: 1.0 };
        let came_back = by_moments(ceiling("dram.read", 70.0, false), verdict(0.04, 2));
        assert!(came_back.settled && came_back.spread == Some(0.04));
        assert_eq!(came_back.reason.as_deref(), Some("up to 40 % lower in 2 of 4 measurements"));
        let once = by_moments(ceiling("dram.read", 70.0, true), verdict(0.6, 1));
        assert!(!once.settled && once.reason.is_some_and(|r| r.starts_with(DIFFER)));
        let mut crowded = ceiling("dram.read", 1.0, false);
        crowded.reason = Some(SHARED_CORES.into());
        let apart = better(crowded, ceiling("dram.read", 2.0, true));
        assert!(apart.settled && apart.value == Some(2.0), "{apart:?}");
    }

    #[test]
    fn where_cores_are_always_shared_the_figures_stand() {
        let mut crowded = ceiling("dp.add.512", 1.0, true);
        (crowded.settled, crowded.reason) = (false, Some(SHARED_CORES.into()));
        let alias = Ceiling { id: "dp.simd".into(), reason: Some(alias_of("dp.add.512")), ..crowded.clone() };
        let single = Ceiling { threads: 1, ..crowded.clone() };
        let mut all = [crowded, alias, single];
        assert!(accept_shared_cores(&mut all));
        assert_eq!(all.iter().map(|c| c.settled).collect::<Vec<_>>(), [true, true, false]);
        assert!(!accept_shared_cores(&mut all));
    }

    #[test]
    fn what_is_from_before_is_doubted_and_gives_way_to_any_new_value() {
        let mut alias = ceiling("dram.noprefetch", 70.0, true);
        alias.reason = Some(alias_of("dram.read"));
        let mut all = [ceiling("dram.read", 70.0, true), alias, ceiling("l2.read", 90.0, true)];
        outdate(&mut all, "the memory", |c| c.id.starts_with("dram."));
        assert_eq!(all.iter().map(|c| c.settled).collect::<Vec<_>>(), [false, false, true]);
        assert!(is_alias(&all[1]));
        assert_eq!(doubtful(&all).into_iter().map(|d| d.0).collect::<Vec<_>>(), ["dram.read"]);
        let now = better_value(all[0].clone(), ceiling("dram.read", 37.0, true));
        assert!(now.value == Some(37.0) && now.settled);
        assert_eq!(better(all[0].clone(), ceiling("dram.read", 37.0, true)).value, Some(37.0));
        // A broken order does not hide that it is from before.
        let mut both = [ceiling("dram.read", 40.0, true), ceiling("dram.random", 70.0, true)];
        outdate(&mut both, "the memory", |c| c.id == "dram.random");
        mark(&mut both);
        assert!(both[0].settled && both[1].reason.as_deref().is_some_and(|r| r.starts_with(EARLIER)), "{both:?}");
    }

    #[test]
    fn a_slow_level_is_doubted_with_the_one_that_it_contradicts() {
        // As a busy host had it: two threads from L2 at half of what they had from L3.
        let mut busy =
            vec![ceiling("l2.read", 40e9, true), ceiling("l3.read", 80e9, true), ceiling("dram.read", 1e9, true)];
        let doubted: Vec<_> = doubtful(&busy).into_iter().map(|d| d.0).collect();
        assert_eq!(doubted, ["l2.read", "l3.read"]);
        mark(&mut busy);
        assert_eq!(busy.iter().map(|c| c.settled).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(busy[0].reason.as_deref(), Some("l3.read is 100 % above it, which cannot be"));
    }

    #[test]
    fn what_came_too_late_or_is_another_name_is_measured_under_its_own() {
        let mut late = ceiling("l2.read", 1.0, false);
        (late.value, late.reason) = (None, Some(format!("{TOO_LATE} of a quick measurement")));
        let mut alias = ceiling("dp.simd", 1.0, false);
        alias.reason = Some(alias_of("dp.add.512"));
        let mut absent = ceiling("hp.fma.512", 1.0, false);
        (absent.value, absent.reason) = (None, Some("this CPU has no AVX512-FP16".into()));
        let doubted: Vec<_> = doubtful(&[late, alias, absent]).into_iter().map(|d| d.0).collect();
        assert_eq!(doubted, ["dp.add.512", "l2.read"]);
    }
}
