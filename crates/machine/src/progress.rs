//! Progress reports of a measurement to its caller.

use rprof_profile::run::Warning;

/// Receives the progress of a measurement. The caller draws it; this module prints nothing.
pub trait Progress {
    /// `done` of `total` groups of ceilings are finished, `group` is next.
    fn group(&mut self, group: &str, done: usize, total: usize);
    /// A doubt about the ceilings.
    fn warn(&mut self, warning: Warning);
}

/// Forgets progress, keeps the warnings.
#[derive(Debug, Default)]
pub struct Quiet {
    /// The warnings, in order.
    pub warnings: Vec<Warning>,
}

impl Progress for Quiet {
    fn group(&mut self, _group: &str, _done: usize, _total: usize) {}

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
}
