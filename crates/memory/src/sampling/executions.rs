//! How often each instruction was executed, in windows and in pauses: the scale factors of its sampled events.

use std::collections::{BTreeMap, HashMap};

use rprof_isa::facts::AccessKind;
use rprof_profile::evidence::memory::{Executed, Phase};
use rprof_profile::run::Warning;

use crate::caches::geometry::LINE_BYTES;
use crate::caches::line::Owner;

/// Instructions without an owner that evidence has.
const MOST_NOWHERE: usize = 1 << 15;

/// Executions by owner.
#[derive(Debug, Default)]
pub struct Executions {
    times: Vec<Times>,
    /// Bytes accessed by another thread than their owner's.
    elsewhere: u64,
    /// Instructions without an owner, by site: the first thread that executed it, and the bytes (read, written) of all.
    nowhere: HashMap<u32, (u32, [f64; 2])>,
}

/// Executions of one instruction in one thread, or of all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    opening: u64,
    measured: u64,
    warming: u64,
    pauses: u64,
    /// For string instructions these and the others are bytes.
    strings: bool,
    read_bytes: u64,
    write_bytes: u64,
}

/// Scale factors of an instruction's events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// From the opening.
    pub plain: f64,
    /// From windows.
    pub sample: f64,
    /// From the warm-up of windows: 0, unless only warm-ups saw the instruction.
    pub warming: f64,
}

impl Factors {
    /// By stratum: plain, sample, warming.
    pub fn each(&self) -> [f64; 3] {
        [self.plain, self.sample, self.warming]
    }

    /// The share of the executions that no window represents: only the opening or warm-ups saw the instruction.
    pub fn without_windows(&self) -> f64 {
        1.0 - 1.0 / self.plain.max(self.warming).max(1.0)
    }

    /// The share that windows represent but did not see.
    pub fn between_windows(&self) -> f64 {
        1.0 - 1.0 / self.sample.max(1.0)
    }
}

/// rprof warns if the misses of more than this share of the bytes were not seen.
const UNSEEN: f64 = 0.01;

impl Executions {
    /// Notes the executions of an instruction, `owner`.
    pub fn add(&mut self, owner: Owner, executed: &Executed) {
        let at = owner.0 as usize;
        if self.times.len() <= at {
            self.times.resize(at + 1, Times::default());
        }
        let times = &mut self.times[at];
        times.strings = executed.strings;
        let amount = if executed.strings { executed.bytes } else { executed.accesses };
        match executed.phase {
            Phase::Opening => times.opening += amount,
            Phase::Measuring => times.measured += amount,
            Phase::Warming => times.warming += amount,
            Phase::Pause => times.pauses += amount,
        }
        match executed.kind {
            AccessKind::Load | AccessKind::Gather => times.read_bytes += executed.bytes,
            AccessKind::Store | AccessKind::Scatter | AccessKind::NtStore => times.write_bytes += executed.bytes,
            AccessKind::Prefetch => {}
        }
    }

    /// Notes that the owner of `executed` is another thread's.
    pub fn note_elsewhere(&mut self, executed: &Executed) {
        if executed.kind != AccessKind::Prefetch {
            self.elsewhere += executed.bytes;
        }
    }

    /// Notes that the instruction of `executed` has no owner of its own.
    pub fn note_nowhere(&mut self, executed: &Executed) {
        let (_, [read, written]) = self.nowhere.entry(executed.site).or_insert((executed.thread, [0.0; 2]));
        match executed.kind {
            AccessKind::Load | AccessKind::Gather => *read += executed.bytes as f64,
            AccessKind::Store | AccessKind::Scatter | AccessKind::NtStore => *written += executed.bytes as f64,
            AccessKind::Prefetch => {}
        }
    }

    /// Instructions without an owner, by site: a thread that executed it, and its bytes (read, written). Those with most bytes.
    pub fn nowhere(&self) -> BTreeMap<u32, (u32, [f64; 2])> {
        let mut all: Vec<_> = self.nowhere.iter().map(|(site, of)| (*site, *of)).collect();
        all.sort_by(|(_, (_, a)), (_, (_, b))| (b[0] + b[1]).total_cmp(&(a[0] + a[1])));
        all.truncate(MOST_NOWHERE);
        all.into_iter().collect()
    }

    /// The share of the accessed bytes that another thread than their owner's accessed.
    pub fn elsewhere(&self) -> f64 {
        self.elsewhere as f64 / self.all_bytes().max(1.0)
    }

    fn all_bytes(&self) -> f64 {
        self.times.iter().map(|t| (t.read_bytes + t.write_bytes) as f64).sum()
    }

    fn of(&self, owner: Owner) -> Times {
        self.times.get(owner.0 as usize).copied().unwrap_or_default()
    }

    /// Accesses that `owner` executed, or bytes for string instructions; `None` if no execution was noted.
    pub fn accesses(&self, owner: Owner) -> Option<u64> {
        Some(self.of(owner).all()).filter(|&accesses| accesses > 0)
    }

    /// Whether `owner` was executed only in the opening and in windows, as far as executions were noted.
    pub fn all_seen(&self, owner: Owner) -> bool {
        self.of(owner).extrapolated() == 0
    }

    /// The same by phase: opening, pause, warm-up, measured.
    pub fn by_phase(&self, owner: Owner) -> [u64; 4] {
        let Times { opening, pauses, warming, measured, .. } = self.of(owner);
        [opening, pauses, warming, measured]
    }

    /// Whether the executions of `owner` are counted in bytes.
    pub fn is_string(&self, owner: Owner) -> bool {
        self.of(owner).strings
    }

    /// All accesses of the program, those of strings by their lines.
    pub fn total(&self) -> Times {
        let mut total = Times::default();
        for times in &self.times {
            let one = if times.strings { LINE_BYTES } else { 1 };
            total.opening += times.opening / one;
            total.measured += times.measured / one;
            total.warming += times.warming / one;
            total.pauses += times.pauses / one;
        }
        total
    }

    /// The scale factors of `owner`'s events.
    pub fn factors(&self, owner: Owner) -> Factors {
        self.of(owner).factors()
    }

    /// (read, written) bytes of `owner`; `None` if no execution was noted.
    pub fn bytes(&self, owner: Owner) -> Option<(f64, f64)> {
        let times = self.of(owner);
        (times.all() > 0).then_some((times.read_bytes as f64, times.write_bytes as f64))
    }

    /// The share of the accesses that is extrapolated.
    pub fn extrapolated(&self) -> f64 {
        let total = self.total();
        if total.all() == 0 { 0.0 } else { total.extrapolated() as f64 / total.all() as f64 }
    }

    /// A warning if too many accessed bytes, `unseen`, belong to instructions that no sample saw.
    pub fn warning(&self, unseen: f64) -> Option<Warning> {
        let total = self.all_bytes();
        (unseen > UNSEEN * total).then(|| {
            Warning::new(
                "memory-unseen",
                format!(
                    "{:.0} % of the accessed bytes belong to instructions that ran where no window of memory sampling was",
                    100.0 * unseen / total
                ),
                "their misses are missing from the bytes of the levels beyond L1",
                "run longer, or with --memory exact",
            )
        })
    }
}

impl Times {
    /// The opening represents itself, windows represent everything else. An instruction that no window saw is assumed to behave as in the
    /// opening. If the opening did not see it either, because a thread or an instruction was gone before the window measured, the warm-up
    /// is used: the state of the caches is less certain there, as stale lines show.
    fn factors(&self) -> Factors {
        let itself = Factors { plain: 1.0, sample: 1.0, warming: 0.0 };
        let and_others = |others: u64, seen: u64| 1.0 + others as f64 / seen as f64;
        match self.extrapolated() {
            0 => itself,
            others if self.measured > 0 => Factors { sample: and_others(others, self.measured), ..itself },
            others if self.opening > 0 => Factors { plain: and_others(others, self.opening), ..itself },
            _ if self.warming > 0 => Factors { warming: and_others(self.pauses, self.warming), ..itself },
            _ => itself,
        }
    }

    /// Accesses that events of other accesses represent.
    fn extrapolated(&self) -> u64 {
        self.warming + self.pauses
    }

    /// Accesses in the opening, windows and warm-ups.
    fn seen(&self) -> u64 {
        self.opening + self.measured + self.warming
    }

    /// All accesses.
    pub fn all(&self) -> u64 {
        self.seen() + self.pauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(phase: Phase, accesses: u64) -> Executed {
        Executed { thread: 1, site: 2, phase, kind: AccessKind::Load, accesses, bytes: 8 * accesses, strings: false }
    }

    const ONE: Owner = Owner(2);

    #[test]
    fn windows_stand_for_pauses_and_the_opening_for_itself() {
        let mut executions = Executions::default();
        let factors = |e: &Executions| e.factors(ONE);
        assert_eq!(factors(&executions), Factors { plain: 1.0, sample: 1.0, warming: 0.0 });
        executions.add(ONE, &executed(Phase::Opening, 100));
        executions.add(ONE, &executed(Phase::Pause, 700));
        assert_eq!(factors(&executions), Factors { plain: 8.0, sample: 1.0, warming: 0.0 });
        assert_eq!(factors(&executions).without_windows(), 0.875);
        executions.add(ONE, &executed(Phase::Warming, 100));
        executions.add(ONE, &executed(Phase::Measuring, 50));
        assert_eq!(factors(&executions), Factors { plain: 1.0, sample: 17.0, warming: 0.0 });
        assert_eq!(
            (factors(&executions).without_windows(), factors(&executions).between_windows()),
            (0.0, 16.0 / 17.0)
        );
        assert_eq!((executions.accesses(ONE), executions.accesses(Owner(7))), (Some(950), None));
        assert!((executions.extrapolated() - 800.0 / 950.0).abs() < 1e-9);
        assert!(executions.warning(0.0).is_none());
        executions.note_elsewhere(&executed(Phase::Pause, 237));
        executions.note_elsewhere(&Executed { bytes: 4, ..executed(Phase::Pause, 1) });
        assert_eq!(executions.elsewhere(), 0.25);
    }

    #[test]
    fn a_warm_up_stands_for_what_was_seen_nowhere_else() {
        let mut executions = Executions::default();
        executions.add(ONE, &executed(Phase::Pause, 300));
        executions.add(ONE, &executed(Phase::Warming, 100));
        let factors = |e: &Executions| e.factors(ONE);
        assert_eq!(factors(&executions), Factors { plain: 1.0, sample: 1.0, warming: 4.0 });
        assert!((executions.extrapolated() - 1.0).abs() < 1e-9);
        executions.add(ONE, &executed(Phase::Measuring, 100));
        assert_eq!(factors(&executions), Factors { plain: 1.0, sample: 5.0, warming: 0.0 });
    }

    #[test]
    fn what_no_sample_saw_is_stated() {
        let mut executions = Executions::default();
        executions.add(ONE, &executed(Phase::Pause, 100));
        assert_eq!(executions.warning(700.0).map(|w| w.code), Some("memory-unseen".into()));
        assert!(executions.warning(7.0).is_none());
        assert_eq!((executions.bytes(ONE), executions.bytes(Owner(0))), (Some((800.0, 0.0)), None));
    }
}
