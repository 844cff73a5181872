//! How often each instruction was executed, in windows and in pauses: what its sampled events stand for.

use std::collections::HashMap;

use crate::isa::facts::AccessKind;
use crate::profile::evidence::memory::{Executed, Phase};
use crate::profile::run::Warning;

/// Executions by (thread, site).
#[derive(Debug, Default)]
pub struct Executions(HashMap<(u32, u32), Times>);

/// Of one instruction in one thread, or of all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    opening: u64,
    measured: u64,
    /// Warming and pauses.
    others: u64,
    read_bytes: u64,
    write_bytes: u64,
    told: bool,
}

/// What one event of an instruction stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// From the opening.
    pub plain: f64,
    /// From windows.
    pub sample: f64,
}

/// Factors of an instruction's two kinds of events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scales {
    /// Of what it does when it is executed.
    pub fills: Factors,
    /// Of write-backs of what it wrote, which happen later.
    pub write_backs: Factors,
}

/// A larger part of the bytes than this whose misses were not seen is stated.
const UNSEEN: f64 = 0.01;

impl Executions {
    /// Notes what was executed.
    pub fn add(&mut self, executed: &Executed) {
        let times = self.0.entry((executed.thread, executed.site)).or_default();
        match executed.phase {
            Phase::Opening => times.opening += executed.accesses,
            Phase::Measuring => times.measured += executed.accesses,
            Phase::Warming | Phase::Pause => times.others += executed.accesses,
        }
        match executed.kind {
            AccessKind::Load | AccessKind::Gather => times.read_bytes += executed.bytes,
            AccessKind::Store | AccessKind::Scatter | AccessKind::NtStore => times.write_bytes += executed.bytes,
            AccessKind::Prefetch => {}
        }
    }

    /// Accesses that `site` executed in `thread`; `None` if nobody told.
    pub fn accesses(&self, thread: u32, site: u32) -> Option<u64> {
        self.0.get(&(thread, site)).map(Times::all)
    }

    /// All accesses of the program.
    pub fn total(&self) -> Times {
        let mut total = Times::default();
        for times in self.0.values() {
            total.opening += times.opening;
            total.measured += times.measured;
            total.others += times.others;
        }
        total
    }

    /// What events of `site` in `thread` stand for; `total` is that of the whole program, whose course decides where an
    /// instruction was not executed any more when what it had written was written back.
    pub fn scales(&self, thread: u32, site: u32, total: &Times) -> Scales {
        let times = self.0.get(&(thread, site)).copied().unwrap_or_default();
        let fills = times.factors();
        Scales { fills, write_backs: if times.others > 0 { fills } else { total.factors() } }
    }

    /// (read, written) bytes of `site` in `thread`, which [`rest`](Self::rest) then leaves out.
    pub fn take_bytes(&mut self, thread: u32, site: u32) -> Option<(f64, f64)> {
        let times = self.0.get_mut(&(thread, site))?;
        times.told = true;
        Some((times.read_bytes as f64, times.write_bytes as f64))
    }

    /// (thread, site, read, written) of all that were not taken, in order.
    pub fn rest(&self) -> Vec<(u32, u32, f64, f64)> {
        let left = self.0.iter().filter(|(_, t)| !t.told && t.read_bytes + t.write_bytes > 0);
        let mut rest: Vec<_> =
            left.map(|(&(thread, site), t)| (thread, site, t.read_bytes as f64, t.write_bytes as f64)).collect();
        rest.sort_by_key(|r| (r.1, r.0));
        rest
    }

    /// The share of the accesses that nobody saw: what is extrapolated.
    pub fn extrapolated(&self) -> f64 {
        let total = self.total();
        if total.all() == 0 { 0.0 } else { total.others as f64 / total.all() as f64 }
    }

    /// States it if a part of the program was executed in pauses only.
    pub fn warning(&self) -> Option<Warning> {
        let bytes = |t: &Times| (t.read_bytes + t.write_bytes) as f64;
        let total: f64 = self.0.values().map(bytes).sum();
        let unseen: f64 = self.0.values().filter(|t| t.opening + t.measured == 0).map(bytes).sum();
        (unseen > UNSEEN * total).then(|| {
            Warning::new(
                "memory-unseen",
                format!(
                    "{:.0} % of the accessed bytes belong to instructions that no window saw",
                    100.0 * unseen / total
                ),
                "their misses are missing from the bytes of the levels beyond L1",
                "run longer, or with --memory exact",
            )
        })
    }
}

impl Times {
    /// The opening stands for itself, windows for everything else. What was in no window is taken to have been as in the
    /// opening.
    fn factors(&self) -> Factors {
        let (opening, measured) = (self.opening as f64, self.measured as f64);
        match (self.others, self.measured, self.opening) {
            (0, ..) | (_, 0, 0) => Factors { plain: 1.0, sample: 1.0 },
            (others, 0, _) => Factors { plain: 1.0 + others as f64 / opening, sample: 1.0 },
            (others, ..) => Factors { plain: 1.0, sample: 1.0 + others as f64 / measured },
        }
    }

    fn all(&self) -> u64 {
        self.opening + self.measured + self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(phase: Phase, accesses: u64) -> Executed {
        Executed { thread: 1, site: 2, phase, kind: AccessKind::Load, accesses, bytes: 8 * accesses }
    }

    #[test]
    fn windows_stand_for_pauses_and_the_opening_for_itself() {
        let mut executions = Executions::default();
        let fills = |e: &Executions, site| e.scales(1, site, &e.total()).fills;
        assert_eq!(fills(&executions, 2), Factors { plain: 1.0, sample: 1.0 });
        executions.add(&executed(Phase::Opening, 100));
        executions.add(&executed(Phase::Pause, 700));
        assert_eq!(fills(&executions, 2), Factors { plain: 8.0, sample: 1.0 });
        executions.add(&executed(Phase::Warming, 100));
        executions.add(&executed(Phase::Measuring, 50));
        assert_eq!(fills(&executions, 2), Factors { plain: 1.0, sample: 17.0 });
        // What was written at the start is written back throughout.
        executions.add(&Executed { site: 3, ..executed(Phase::Opening, 10) });
        let scales = executions.scales(1, 3, &executions.total());
        assert_eq!((scales.fills.sample, scales.write_backs.sample), (1.0, 17.0));
        assert_eq!(executions.accesses(1, 2), Some(950));
        assert!((executions.extrapolated() - 800.0 / 960.0).abs() < 1e-9);
        assert!(executions.warning().is_none());
    }

    #[test]
    fn what_no_window_saw_is_stated() {
        let mut executions = Executions::default();
        executions.add(&executed(Phase::Pause, 100));
        assert_eq!(executions.warning().map(|w| w.code), Some("memory-unseen".into()));
        assert_eq!(executions.rest(), [(1, 2, 800.0, 0.0)]);
        assert_eq!(executions.take_bytes(1, 2), Some((800.0, 0.0)));
        assert!(executions.rest().is_empty());
    }
}
