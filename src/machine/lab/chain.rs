//! Chains that latencies are derived from: what one step takes, as their moments say.
//!
//! A latency is a small difference of such chains. One that something else on the core held up at its only moment makes it wrong by
//! far more than its repetitions differ.

use std::time::Instant;

use super::record::{clocked, unsettled_because};
use super::{Doubtful, Lab, Label, Steadiness};
use crate::machine::bench::timing::Rate;
use crate::machine::doubt;
use crate::profile::clock::is_parameter;
use crate::profile::machine::Ceiling;

/// How far the cycles of a chain differ from one run to the next, at least.
const RESOLUTION: f64 = 0.006;

/// What one step of a chain takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// In cycles.
    pub cycles: f64,
    /// By how many these may be off.
    pub off: f64,
    /// The clock that it was measured at, in hertz.
    clock_hz: f64,
    /// How many moments showed that; `None`: there was but one.
    agreeing: Option<usize>,
    /// Why it is not settled, if it is not.
    reason: Option<String>,
}

impl Chain {
    fn of(ceiling: &Ceiling, agreeing: Option<usize>) -> Chain {
        let clock_hz = ceiling.clock_hz.unwrap_or(0.0);
        let cycles = ceiling.value.unwrap_or(0.0) * clock_hz;
        let off = ceiling.spread.unwrap_or(1.0).max(RESOLUTION) * cycles;
        let reason = ceiling.reason.clone().filter(|_| !ceiling.settled);
        Chain { cycles, off, clock_hz, agreeing, reason }
    }
}

impl Lab {
    /// What a step of the chain `id` takes, of which `rate` steps a second were made now. It is the median of the faster half that
    /// counts, since a chain through the divider now and then runs in step for a while, which no loop can count on.
    pub fn chain(&mut self, id: String, rate: &Rate) -> Chain {
        self.chain_at(Instant::now(), id, rate)
    }

    fn chain_at(&mut self, now: Instant, id: String, rate: &Rate) -> Chain {
        let reason = unsettled_because(rate, Steadiness::Core);
        let spread = (rate.best / rate.typical - 1.0).max(rate.spread) + rate.clock_doubt;
        let fresh = Ceiling {
            value: Some(1.0 / rate.typical),
            spread: Some(spread),
            settled: reason.is_none(),
            reason,
            ..clocked(Label::new(id, "s", 1), rate)
        };
        let key = (fresh.id.clone(), 1, None);
        if self.tells_a_moment(rate, Steadiness::Core) {
            let compared = Steadiness::Core.compared(rate.typical, rate.clock_hz);
            self.moments.note(key.clone(), Some(now), (compared, Vec::new()), fresh.clone());
        }
        match self.moments.verdict(&key) {
            Some((verdict, best)) => Chain::of(&doubt::by_moments(best, verdict), Some(verdict.agreeing)),
            None => Chain::of(&fresh, None),
        }
    }

    /// Records a latency of `cycles`, off by at most `off`, as `how` says from `chains`, the last of which tells the clock.
    pub fn record_latency(&mut self, label: Label, (cycles, off): (f64, f64), chains: &[&Chain], how: &str) {
        let Some(last) = chains.last() else { return };
        let reason = chains.iter().find_map(|chain| chain.reason.clone());
        let is_confirmed = chains.iter().all(|chain| chain.agreeing > Some(1));
        self.set_confirmed(&label, is_confirmed);
        let fresh = Ceiling {
            id: label.id,
            value: Some(cycles / last.clock_hz),
            unit: label.unit.into(),
            threads: label.threads as u32,
            clock_hz: Some(last.clock_hz),
            resting_hz: None,
            spread: Some(off / cycles.max(1.0)),
            settled: reason.is_none(),
            how: "derived".into(),
            reason: reason.or(Some(how.into())),
            device: "cpu".into(),
        };
        let of_one_moment = chains.iter().any(|chain| chain.agreeing.is_none());
        let fresh = match self.found(&fresh.id, fresh.threads as usize) {
            Some(old) if old.how == "derived" && of_one_moment => doubt::surer(old.clone(), fresh),
            _ => fresh,
        };
        self.replace(fresh);
    }

    /// Notes whether another moment has confirmed what a derived ceiling was derived from.
    pub fn set_confirmed(&mut self, derived: &Label, is_confirmed: bool) {
        let name = (derived.id.clone(), derived.threads);
        if is_confirmed {
            self.derived_once.remove(&name);
        } else {
            self.derived_once.insert(name);
        }
    }

    /// What a core does by itself and no second moment has confirmed yet.
    pub fn unconfirmed(&self) -> Doubtful {
        let confirmed = |c: &Ceiling| {
            let verdict = self.moments.verdict(&(c.id.clone(), c.threads, None));
            verdict.is_some_and(|(v, _)| v.is_confirmed())
        };
        let by_itself = |c: &Ceiling| c.how == "measured" && Steadiness::of(&c.id) != Steadiness::Shared;
        let by_itself = |c: &Ceiling| by_itself(c) && !is_parameter(&c.id);
        let mut all = doubt::measured(&self.ceilings, |c| by_itself(c) && !doubt::is_alias(c) && !confirmed(c));
        all.extend(self.derived_once.iter().cloned());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::bench::timing::Repetition;
    use crate::machine::features::Features;
    use crate::machine::lab::Effort;
    use crate::machine::lab::moments::APART;
    use crate::machine::topology::{Identity, Topology};

    fn lab(effort: Effort) -> Lab {
        let (topology, _) = Topology::detect_of(Identity::ask(), "/sys".as_ref(), &[0]);
        Lab::new(Features::detect(), topology, 1, 64 << 20, effort).expect("one thread")
    }

    /// Chains of which a step takes so many cycles, at 1 GHz.
    fn of(cycles: f64) -> Rate {
        let run =
            Repetition { seconds: cycles * 1e-9, clock_hz: 1e9, resting_hz: 1e9, disturbed: false, shared: false };
        Rate::judge(&[run; 8], 1.0, 8)
    }

    /// Records what follows from chains of 3 cycles more than one, both held up by `factor` at moment `n`.
    fn latency(lab: &mut Lab, now: Instant, n: u32, factor: f64) -> Ceiling {
        let at = now + 2 * n * APART;
        let (alone, with) = (of(1.0), of(4.0 * factor));
        let alone = lab.chain_at(at, "alone".into(), &alone);
        let with = lab.chain_at(at, "with".into(), &with);
        let found = (with.cycles - alone.cycles, with.off + alone.off);
        lab.record_latency(Label::new("lat.test", "s", 1), found, &[&alone, &with], "from two chains");
        lab.found("lat.test", 1).cloned().expect("recorded")
    }

    #[test]
    fn a_chain_that_was_held_up_once_makes_no_latency() {
        let (mut lab, now) = (lab(Effort::Full), Instant::now());
        let is = |c: &Ceiling, cycles: f64| c.value.is_some_and(|s| (s * 1e9 - cycles).abs() < 1e-6);
        let held_up = latency(&mut lab, now, 0, 1.1);
        assert!(is(&held_up, 3.4) && lab.unconfirmed().contains(&("lat.test".into(), 1)), "{held_up:?}");
        let better = latency(&mut lab, now, 1, 1.0);
        assert!(is(&better, 3.0) && !better.settled && lab.unconfirmed().len() == 1, "{better:?}");
        let again = latency(&mut lab, now, 2, 1.0);
        assert!(is(&again, 3.0) && again.settled && lab.unconfirmed().is_empty(), "{again:?}");
        let held_up = latency(&mut lab, now, 3, 1.2);
        assert_eq!((held_up.value, held_up.spread), (again.value, again.spread));
        assert_eq!(held_up.reason.as_deref(), Some("from two chains"));
    }

    #[test]
    fn a_quick_measurement_knows_one_moment() {
        let (mut lab, now) = (lab(Effort::Quick), Instant::now());
        latency(&mut lab, now, 0, 1.0);
        let again = latency(&mut lab, now, 1, 1.1);
        assert!(again.settled && again.spread.is_some_and(|s| s > 0.1), "an interval that reaches to both: {again:?}");
    }
}
