//! Measured parameters on their way into the list of ceilings.

use std::collections::BTreeMap;

use super::rounds::Timed;
use crate::estimate::class::Class;
use rprof_profile::machine::{Ceiling, How, Missing, Quality};

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Cycles, stored as seconds at the clock of the measurement.
    Time,
    /// Instructions a cycle, stored as a rate at the clock of the measurement.
    Rate,
    /// A count.
    Count,
}

/// A value with the conditions of its measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// In cycles, instructions a cycle, or a count.
    pub value: f64,
    /// Core clock, in hertz.
    pub clock_hz: f64,
    /// Largest distance of another measurement from it, as a share of it.
    pub spread: f64,
}

/// Parameters by id, in cycles.
#[derive(Debug, Default)]
pub struct Found {
    values: BTreeMap<String, Value>,
    ceilings: Vec<Ceiling>,
}

impl Found {
    /// Notes a measured value.
    pub fn measured(&mut self, id: impl Into<String>, unit: Unit, value: Value) {
        self.note(id.into(), unit, value, How::Measured, None);
    }

    /// Notes a value that was computed from others; `how` explains it.
    pub fn derived(&mut self, id: impl Into<String>, unit: Unit, value: Value, how: impl Into<String>) {
        self.note(id.into(), unit, value, How::Derived, Some(how.into()));
    }

    /// Notes a measured value with a remark.
    pub fn remarked(&mut self, id: impl Into<String>, unit: Unit, value: Value, remark: impl Into<String>) {
        self.note(id.into(), unit, value, How::Measured, Some(remark.into()));
    }

    /// Notes that this host has no such value, and why.
    pub fn missing(&mut self, id: impl Into<String>, unit: Unit, reason: impl Into<String>) {
        self.lacks(id.into(), unit, Missing::Host, reason.into());
    }

    /// Notes that there was no time for it.
    pub fn no_time(&mut self, id: impl Into<String>, unit: Unit) {
        self.lacks(id.into(), unit, Missing::Time, "the core was so busy that there was no time for it".into());
    }

    fn lacks(&mut self, id: String, unit: Unit, missing: Missing, reason: String) {
        let quality = Quality::Missing(missing);
        self.ceilings.push(Ceiling { quality, reason: Some(reason), ..blank(id, unit, How::Measured) });
    }

    /// Notes a rate from the cycles of one event.
    pub fn rate_of(&mut self, id: impl Into<String>, timed: Option<Timed>) {
        match timed {
            Some(Timed { cycles, clock_hz, spread }) => {
                self.measured(id, Unit::Rate, Value { value: 1.0 / cycles, clock_hz, spread });
            }
            None => self.no_time(id, Unit::Rate),
        }
    }

    /// The value under `id`.
    pub fn value(&self, id: &str) -> Option<Value> {
        self.values.get(id).copied()
    }

    /// All values as ceilings of one thread, in the order of their notes.
    pub fn into_ceilings(self) -> Vec<Ceiling> {
        self.ceilings
    }

    fn note(&mut self, id: String, unit: Unit, value: Value, how: How, reason: Option<String>) {
        let Value { value: number, clock_hz, spread } = value;
        if !(number.is_finite() && number > 0.0) {
            self.missing(id, unit, "it is a difference of two values that are equal within their error");
            return;
        }
        let scaled = match unit {
            Unit::Time => number / clock_hz,
            Unit::Rate => number * clock_hz,
            Unit::Count => number,
        };
        self.values.insert(id.clone(), value);
        self.ceilings.push(Ceiling {
            value: Some(scaled),
            clock_hz: Some(clock_hz),
            spread: Some(spread.max(Class::Core.least_interval(false))),
            quality: Quality::Reproduced,
            reason,
            ..blank(id, unit, how)
        });
    }
}

fn blank(id: String, unit: Unit, how: How) -> Ceiling {
    let unit = match unit {
        Unit::Time => "s",
        Unit::Rate => "instr/s",
        Unit::Count => "op",
    };
    Ceiling { how, ..Ceiling::blank(id, unit, 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_kept_at_their_clock() {
        let mut found = Found::default();
        let value = Value { value: 4.0, clock_hz: 2e9, spread: 0.01 };
        found.measured("form.fadd.s.lat", Unit::Time, value);
        found.measured("form.fadd.s.rate", Unit::Rate, value);
        found.derived("window.rob", Unit::Count, value, "guessed");
        found.measured("mispredict.indirect", Unit::Time, Value { value: -1.0, ..value });
        assert_eq!(found.value("form.fadd.s.lat"), Some(value));
        assert_eq!(found.value("mispredict.indirect"), None);
        let ceilings = found.into_ceilings();
        let values: Vec<_> = ceilings.iter().map(|c| c.value).collect();
        assert_eq!(values, [Some(2e-9), Some(8e9), Some(4.0), None]);
        assert!(ceilings[3].reason.is_some() && ceilings[2].how == How::Derived);
    }
}
