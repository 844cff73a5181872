//! Chains from which latencies are derived: the time of one step, estimated from their rounds.

use super::{Campaign, Label};
use crate::estimate::class::Class;
use crate::estimate::rounds::Round;
use crate::harness::timing::Rate;
use rprof_profile::machine::{Ceiling, CeilingId, How, Quality};

/// Smallest difference between the cycles of a chain in two runs.
const RESOLUTION: f64 = 0.006;

/// The time of one step of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// In cycles.
    pub cycles: f64,
    /// Error of `cycles`.
    pub off: f64,
    /// The clock that it was measured at, in hertz.
    clock_hz: f64,
    quality: Quality,
    reason: Option<String>,
}

impl Campaign {
    /// Adds a round of `rate` steps a second to the chain `name` and returns the time of one step. The median of the faster half of a round
    /// counts, since a chain through the divider sometimes runs in step for a while, which no loop can count on.
    pub fn chain(&mut self, name: String, rate: &Rate) -> Chain {
        let round = Round { rate: rate.typical, ..Round::of(rate, self.shares_cores()) };
        match self.rounds.note(&CeilingId::from(name), 1, round) {
            Some(found) => {
                let cycles = found.clock_hz / found.rate;
                let off = found.spread.max(RESOLUTION) * cycles;
                Chain { cycles, off, clock_hz: found.clock_hz, quality: found.quality, reason: found.reason }
            }
            // Nothing was timed.
            None => Chain { cycles: 1.0, off: 1.0, clock_hz: 1.0, quality: Quality::Noisy, reason: None },
        }
    }

    /// Records a latency of `cycles`, off by at most `off`; `how` explains its computation from `chains`, the last of which gives the
    /// clock.
    pub fn record_latency(&mut self, label: Label, (cycles, off): (f64, f64), chains: &[&Chain], how: &str) {
        let Some(last) = chains.last().filter(|_| self.wants(&label)) else { return };
        let noisy = chains.iter().find(|chain| chain.quality != Quality::Reproduced);
        let is_sure = self.found(&label.id, label.threads).is_some_and(Ceiling::is_reproduced);
        if is_sure && noisy.is_some() && !self.measures_all() {
            // A later run has few rounds.
            return;
        }
        let least = Class::of(&label.id).least_interval(self.guest);
        self.replace(Ceiling {
            value: Some(cycles / last.clock_hz),
            clock_hz: Some(last.clock_hz),
            spread: Some((off / cycles.max(1.0)).max(least)),
            quality: noisy.map_or(Quality::Reproduced, |chain| chain.quality),
            how: How::Derived,
            reason: noisy.and_then(|chain| chain.reason.clone()).or(Some(how.into())),
            ..Ceiling::blank(label.id, label.unit, label.threads as u32)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::timing::Repetition;
    use crate::host::features::Features;
    use crate::host::topology::{Identity, Topology};
    use crate::suite::campaign::Effort;

    /// The rate of a chain with a step of `cycles` cycles, at 1 GHz.
    fn of(cycles: f64) -> Rate {
        let run =
            Repetition { seconds: cycles * 1e-9, clock_hz: 1e9, idle_clock_hz: 1e9, disturbed: false, shared: false };
        Rate::judge(&[run; 8], 1.0, 8)
    }

    #[test]
    fn a_chain_that_was_held_up_once_makes_no_latency() {
        let (topology, _) = Topology::detect_of(Identity::ask(), "/sys".as_ref(), &[0]);
        let mut campaign = Campaign::new(Features::detect(), topology, 1, 64 << 20, Effort::Full).expect("one thread");
        // Chains of 3 cycles more than one, both held up by `factor`.
        let mut latency = |factor: f64| {
            let alone = campaign.chain("alone".into(), &of(1.0));
            let with = campaign.chain("with".into(), &of(4.0 * factor));
            let found = (with.cycles - alone.cycles, with.off + alone.off);
            campaign.record_latency(Label::new("lat.test", "s", 1), found, &[&alone, &with], "from two chains");
            let found = campaign.found("lat.test", 1).cloned().expect("recorded");
            ((found.value.expect("a value") * 1e9 * 1000.0).round() / 1000.0, found.is_reproduced())
        };
        assert_eq!(latency(1.1), (3.4, false), "one round");
        assert_eq!(latency(1.0), (3.4, false), "the median is held up");
        assert_eq!(latency(1.0), (3.0, true));
        assert_eq!(latency(1.2), (3.0, false), "half of them were");
        assert_eq!(latency(1.0), (3.0, true));
    }
}
