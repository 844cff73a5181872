//! Ceilings in cycles.

use std::cell::RefCell;
use std::collections::BTreeSet;

use rprof_profile::Machine;
use rprof_profile::machine::Ceiling;

/// Reads ceilings of one thread in cycles, and notes the assumptions that it has to make.
pub(super) struct Source<'a> {
    machine: &'a Machine,
    assumed: RefCell<BTreeSet<String>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(machine: &'a Machine) -> Source<'a> {
        Source { machine, assumed: RefCell::default() }
    }

    fn ceiling(&self, id: &str, threads: u32) -> Option<(&Ceiling, f64)> {
        let ceiling = self.machine.ceiling(id, threads)?;
        Some((ceiling, ceiling.value.filter(|value| value.is_finite() && *value > 0.0)?))
    }

    /// Cycles that a ceiling in seconds takes.
    pub(super) fn cycles(&self, id: &str) -> Option<f64> {
        let (ceiling, value) = self.ceiling(id, 1)?;
        Some(value * ceiling.clock_hz?)
    }

    /// Events a cycle of a ceiling in events a second.
    pub(super) fn rate(&self, id: &str) -> Option<f64> {
        self.rate_at(id, 1)
    }

    /// Events a cycle and thread of a ceiling at `threads` threads.
    pub(super) fn rate_at(&self, id: &str, threads: u32) -> Option<f64> {
        let (ceiling, value) = self.ceiling(id, threads)?;
        Some(value / ceiling.clock_hz? / f64::from(threads.max(1)))
    }

    /// A count.
    pub(super) fn count(&self, id: &str) -> Option<f64> {
        self.ceiling(id, 1).map(|(_, value)| value)
    }

    /// `measured`, or `otherwise` with a note.
    pub(super) fn or(&self, what: &str, measured: Option<f64>, otherwise: f64) -> f64 {
        measured.unwrap_or_else(|| {
            self.assumed.borrow_mut().insert(format!("{what}: {otherwise}"));
            otherwise
        })
    }

    pub(super) fn machine(&self) -> &Machine {
        self.machine
    }

    pub(super) fn assumed(self) -> Vec<String> {
        self.assumed.into_inner().into_iter().collect()
    }
}
