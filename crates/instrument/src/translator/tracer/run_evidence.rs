//! Counts and observations of a run so far, for its evidence.

use std::collections::VecDeque;
use std::sync::Arc;

use atomic_refcell::AtomicRefCell;

use crate::roster::Roster;
use crate::tally::Tally;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::effects::Unrepeatable;
use crate::translator::sampling::access_buffer::AccessBuffer;
use crate::translator::tracer::uncounted::{Release, Uncounted};
use rprof_profile::run::Warning;
use rprof_tracee::thread::Stopped;

/// The counts of a run, its threads and warnings.
#[derive(Default)]
pub(crate) struct RunEvidence {
    pub tally: Tally,
    /// Code caches of address spaces that no longer exist, still to be added to the tally.
    pub finished: VecDeque<Arc<AtomicRefCell<CodeCache>>>,
    pub roster: Roster,
    pub warnings: Vec<Warning>,
    pub uncounted: Uncounted,
    /// CPU seconds of the first process and of those that it waited for, once it has ended.
    pub family_cpu_s: Option<f64>,
    /// Seconds from the start of the run to its end.
    pub wall_s: f64,
    /// A thread worked with denormal numbers.
    pub denormals: bool,
    /// Why the run was ended before the program did so.
    pub ended_before: Option<Unrepeatable>,
}

impl RunEvidence {
    /// Summary of uncounted execution: (CPU seconds of the run, uncounted share, warnings). `cpu_s` are the CPU seconds of
    /// threads while rprof followed them.
    pub fn sum_up_uncounted(&self, cpu_s: f64) -> (f64, f64, Vec<Warning>) {
        let uncounted = &self.uncounted;
        let released = !uncounted.released.is_empty();
        let native: f64 = uncounted.native.values().map(|(_, cpu_s)| cpu_s).sum();
        // Of the released processes, rprof knows the CPU time only of the first process and of those that it waited for.
        let beyond = self.family_cpu_s.filter(|_| released).map_or(0.0, |family| (family - cpu_s).max(0.0));
        let total = cpu_s + beyond;
        let share = if total > 0.0 { ((native + beyond) / total).min(1.0) } else { 0.0 };
        let mut doubts: Vec<Warning> = uncounted.doubts_of_native().collect();
        doubts.extend(Release::ALL.into_iter().filter_map(|why| uncounted.doubt(why, beyond)));
        (total, share, doubts)
    }

    /// Looks whether a stopped thread ever worked with denormal numbers: the CPU keeps that in MXCSR, until the program resets it.
    pub fn look_for_denormals(&mut self, stopped: &Stopped) {
        /// The flag of denormal operands (Intel SDM, volume 1, 10.2.3).
        const DENORMAL: u32 = 1 << 1;
        self.denormals |= stopped.exception_flags().is_ok_and(|flags| flags & DENORMAL != 0);
    }

    /// Adds a doubt unless it was stated before.
    pub fn warn_once(&mut self, code: &str, text: &str, effect: &str, hint: &str) {
        if !self.warnings.iter().any(|w| w.code == code) {
            self.warnings.push(Warning::new(code, text.to_owned(), effect, hint));
        }
    }

    /// Adds the counts of one finished address space to the tally, if any is left.
    pub fn finish_one(&mut self, drain: &mut Option<AccessBuffer>) -> bool {
        let Some(cache) = self.finished.pop_front() else { return false };
        if let Some(drain) = drain {
            cache.borrow_mut().report_deltas(std::iter::empty(), drain);
        }
        cache.borrow_mut().finish(&mut self.tally, drain);
        true
    }
}
