//! The measurements of one GPU: rounds become ceilings by the rule of docs/ceilings.md.

use crate::estimate::class::Class;
use crate::estimate::rounds::{Round, Rounds};
use rprof_profile::machine::{Ceiling, CeilingId, Missing, Quality, Sweep};

/// The ceilings and curves of one GPU.
pub struct Ledger {
    device: String,
    /// The GPU's highest clock, for rounds with an unknown clock.
    nominal_hz: f64,
    rounds: Rounds,
    ceilings: Vec<Ceiling>,
    sweeps: Vec<Sweep>,
}

impl Ledger {
    /// An empty one for GPU `index`.
    pub fn new(index: u32, nominal_hz: f64) -> Ledger {
        let (rounds, ceilings, sweeps) = (Rounds::default(), Vec::new(), Vec::new());
        Ledger { device: format!("gpu{index}"), nominal_hz: nominal_hz.max(1.0), rounds, ceilings, sweeps }
    }

    /// Adds a round of `rate` events a second to ceiling `id`; its value is that rate, or for unit `s` the time of an event.
    pub fn note(&mut self, id: &str, unit: &'static str, rate: f64, clock_hz: Option<f64>) {
        let id = CeilingId::from(id);
        let clock = clock_hz.unwrap_or(self.nominal_hz);
        let round = Round { rate, clock_hz: clock, idle_clock_hz: clock, undisturbed: true, steady: true };
        let Some(estimate) = self.rounds.note(&id, 0, round) else { return };
        let class = Class::of(&id);
        self.put(Ceiling {
            value: Some(if unit == "s" { 1.0 / estimate.rate } else { estimate.rate }),
            clock_hz: clock_hz.map(|_| estimate.clock_hz),
            spread: Some(estimate.interval(class, false)),
            quality: estimate.quality,
            reason: estimate.reason,
            ..Ceiling::blank(id, unit, 0)
        });
    }

    /// Puts a ceiling in the place of an earlier one of its id.
    pub fn put(&mut self, ceiling: Ceiling) {
        let ceiling = Ceiling { device: self.device.clone(), ..ceiling };
        match self.ceilings.iter_mut().find(|c| c.id == ceiling.id) {
            Some(earlier) => *earlier = ceiling,
            None => self.ceilings.push(ceiling),
        }
    }

    /// Says why ceiling `id` has no value, unless it has one.
    pub fn missing(&mut self, id: &str, unit: &str, why: Missing, reason: &str) {
        if self.get(id).is_none() {
            let quality = Quality::Missing(why);
            self.put(Ceiling { quality, reason: Some(reason.into()), ..Ceiling::blank(id, unit, 0) });
        }
    }

    /// Ceiling `id`.
    pub fn get(&self, id: &str) -> Option<&Ceiling> {
        self.ceilings.iter().find(|c| c.id == id)
    }

    /// Adds a curve; one without points is left out.
    pub fn sweep(&mut self, id: &str, x_unit: &str, y_unit: &str, points: Vec<(f64, f64)>) {
        if points.is_empty() {
            return;
        }
        let (id, x_unit, y_unit) = (id.to_owned(), x_unit.to_owned(), y_unit.to_owned());
        self.sweeps.push(Sweep { id, x_unit, y_unit, threads: 0, points });
    }

    /// The measurements.
    pub fn finish(self) -> (Vec<Ceiling>, Vec<Sweep>) {
        (self.ceilings, self.sweeps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_become_a_ceiling_at_their_usual_clock() {
        let mut ledger = Ledger::new(1, 2e9);
        for (rate, clock) in [(66e12, 1.98e9), (65.9e12, 1.98e9), (60e12, 1.8e9)] {
            ledger.note("gpu.fp32.fma", "flop/s", rate, Some(clock));
        }
        ledger.note("gpu.launch", "s", 1e6 / 4.0, None);
        ledger.missing("gpu.launch", "s", Missing::Time, "late");
        let (ceilings, _) = ledger.finish();
        let fma = &ceilings[0];
        assert_eq!((fma.device.as_str(), fma.clock_hz, fma.is_reproduced()), ("gpu1", Some(1.98e9), true));
        assert!(fma.value.is_some_and(|value| (65.8e12..66.1e12).contains(&value)) && fma.spread == Some(0.01));
        assert_eq!((ceilings[1].value, ceilings[1].clock_hz), (Some(4e-6), None));
    }
}
