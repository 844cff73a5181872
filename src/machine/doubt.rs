//! Ceilings in doubt: which there are, what two measurements of one say together, and orders that must hold.
//!
//! What is in doubt is measured again, at once and by later runs; what stays in doubt says why.

use super::lab::{Doubtful, Steadiness};
use super::order::{self, Violation};
use crate::profile::machine::Ceiling;

/// How the reason of what did not fit the time begins.
pub const TOO_LATE: &str = "did not fit the time";

const ALIAS: &str = "is ";

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
    let late = |c: &Ceiling| c.value.is_none() && c.reason.as_deref().is_some_and(|r| r.starts_with(TOO_LATE));
    let own = ceilings
        .iter()
        .filter(|c| late(c) || (c.value.is_some() && !c.settled && c.how == "measured"))
        .map(|c| (measured_as(c).to_owned(), c.threads as usize));
    let broken = order::violations(ceilings).into_iter().flat_map(|v| {
        [v.upper, v.lower].into_iter().filter_map(move |id| {
            let ceiling = ceilings.iter().find(|c| c.id == id && c.threads == v.threads)?;
            Some((measured_as(ceiling).to_owned(), v.threads as usize))
        })
    });
    own.chain(broken).collect()
}

/// Marks both sides of every order that is still broken as unsettled.
pub fn mark(ceilings: &mut [Ceiling]) {
    for Violation { threads, upper, lower, factor } in order::violations(ceilings) {
        let percent = 100.0 * (factor - 1.0);
        for (id, text) in [
            (&upper, format!("{lower} is {percent:.0} % above it, which cannot be")),
            (&lower, format!("it is {percent:.0} % above {upper}, which cannot be")),
        ] {
            let of = ceilings.iter().find(|c| c.id == *id && c.threads == threads).map(|c| measured_as(c).to_owned());
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

/// What two measurements of one ceiling say: the better value; settled if that one is, or if both agree.
pub fn better(old: Ceiling, new: Ceiling) -> Ceiling {
    let (Some(a), Some(b)) = (old.value, new.value) else { return if new.value.is_some() { new } else { old } };
    let lower_is_better = new.unit == "s";
    let (best, other, apart) = if (b >= a) != lower_is_better { (new, old, b / a) } else { (old, new, a / b) };
    let apart = (1.0 - if lower_is_better { apart } else { 1.0 / apart }).max(0.0);
    if !best.settled && other.settled && apart <= Steadiness::of(&best.id).tolerance() {
        let spread = other.spread.map(|s| s.max(apart));
        return Ceiling { settled: true, reason: None, spread, ..best };
    }
    best
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
        let apart = better(ceiling("l2.read", 1.5, false), ceiling("l2.read", 1.0, true));
        assert!(!apart.settled && apart.value == Some(1.5));
        let late = better(ceiling("lat.l2", 1.0, false), ceiling("lat.l2", 1.02, true));
        assert!(late.settled && late.value == Some(1.0), "{late:?}");
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
