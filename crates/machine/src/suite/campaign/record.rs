//! Records ceilings on the bench: measured, derived and missing ones, one for each id and thread count.

use super::{Campaign, Effort, Label};
use crate::estimate::class::Class;
use crate::estimate::rounds::Round;
use crate::harness::timing::Rate;
use rprof_profile::clock;
use rprof_profile::machine::{Ceiling, How, Missing, Quality};

impl Campaign {
    /// Adds one round to a rate and records the estimate of all its rounds.
    pub fn record(&mut self, label: Label, rate: &Rate) {
        self.measured(label, rate, |rate| rate);
    }

    /// Adds one round to the time of one event and records it; `rate` is in events a second.
    pub fn record_time(&mut self, label: Label, rate: &Rate) {
        self.measured(label, rate, |rate| 1.0 / rate);
    }

    fn measured(&mut self, label: Label, rate: &Rate, value: impl Fn(f64) -> f64) {
        let round = Round::of(rate, self.shares_cores());
        let Some(estimate) = self.rounds.note(&label.id, label.threads, round) else {
            return self.too_late(label);
        };
        let ceiling = Ceiling {
            value: Some(value(estimate.rate)),
            spread: Some(estimate.interval(Class::of(&label.id), self.guest)),
            clock_hz: Some(estimate.clock_hz),
            idle_clock_hz: estimate.idle_clock_hz,
            quality: estimate.quality,
            reason: estimate.reason,
            ..blank(label)
        };
        self.replace(ceiling);
    }

    /// Records `value`, computed from `source`, and inherits the conditions of that.
    pub fn derive(&mut self, label: Label, value: f64, source: &Ceiling, reason: impl Into<String>) {
        self.replace(Ceiling {
            id: label.id,
            value: Some(value),
            unit: label.unit.into(),
            threads: label.threads as u32,
            how: How::Derived,
            reason: Some(reason.into()),
            ..source.clone()
        });
    }

    /// Records under `label` a ceiling that another bench measured.
    pub fn take_over(&mut self, label: Label, found: Ceiling) {
        self.replace(Ceiling { id: label.id, ..found });
    }

    /// Records another name for a ceiling.
    pub fn alias(&mut self, id: &str, source: &Ceiling) {
        let reason = if source.is_reproduced() { None } else { source.reason.clone() };
        let reason = reason.map_or(format!("is {}", source.id), |reason| format!("is {}: {reason}", source.id));
        self.replace(Ceiling { id: id.into(), reason: Some(reason), ..source.clone() });
    }

    /// Records that this host has no such ceiling, and why; an existing value stays.
    pub fn missing(&mut self, label: Label, reason: impl Into<String>) {
        self.lacks(label, Missing::Host, reason.into());
    }

    /// Records that there was no time; a later run tries it again.
    pub fn too_late(&mut self, label: Label) {
        let reason = format!("did not fit the time of a {} measurement; a later run measures it", self.effort.name());
        self.lacks(label, Missing::Time, reason);
    }

    /// Records that quick measurements leave this ceiling out.
    pub fn left_out(&mut self, label: Label) {
        let reason = "left out of a quick measurement; `rprof machine` measures it";
        self.lacks(label, Missing::Effort, reason.into());
    }

    /// Whether a quick measurement leaves `label` out; records that if so.
    pub fn is_left_out(&mut self, label: &Label) -> bool {
        let left_out = self.effort == Effort::Quick;
        if left_out {
            self.left_out(label.clone());
        }
        left_out
    }

    fn lacks(&mut self, label: Label, missing: Missing, reason: String) {
        if self.found(&label.id, label.threads).is_none() {
            let quality = Quality::Missing(missing);
            self.replace(Ceiling { quality, reason: Some(reason), ..blank(label) });
        }
    }

    /// Records a parameter of the core, which `machine/suite/core/` measures in rounds of its own.
    pub fn record_parameter(&mut self, parameter: Ceiling) {
        let is_known = self.found(&parameter.id, parameter.threads as usize).is_some();
        if parameter.value.is_some() || !is_known {
            self.replace(parameter);
        }
    }

    pub(super) fn replace(&mut self, ceiling: Ceiling) {
        match self.ceilings.iter_mut().find(|c| c.is_same(&ceiling)) {
            Some(old) => *old = ceiling,
            None => self.ceilings.push(ceiling),
        }
    }

    /// The ceiling recorded under `id` at `threads`, if it has a value.
    pub fn found(&self, id: &str, threads: usize) -> Option<&Ceiling> {
        self.ceilings.iter().find(|c| c.is(id, threads as u32) && c.value.is_some())
    }

    /// The highest of `ids` at `threads`, compared at one clock if they scale with it.
    pub fn highest(&self, ids: &[String], threads: usize) -> Option<Ceiling> {
        let found: Vec<&Ceiling> = ids.iter().filter_map(|id| self.found(id, threads)).collect();
        let reference_clock_hz = found.first().and_then(|c| c.reference_clock_hz()).unwrap_or(0.0);
        let value = |c: &Ceiling| clock::value_at(c, c.value.unwrap_or(0.0), reference_clock_hz);
        found.into_iter().max_by(|a, b| value(a).total_cmp(&value(b))).cloned()
    }
}

/// A measured ceiling without a value.
fn blank(label: Label) -> Ceiling {
    Ceiling::blank(label.id, label.unit, label.threads as u32)
}
