//! The bench that ceilings are measured on: stopwatch, instruction sets, topology, time budget, results.

mod aim;
mod chain;
mod effort;
mod far;
pub(super) mod moments;
mod one_clock;
pub(super) mod placed;
mod pool;
mod record;

use std::time::{Duration, Instant};

use super::bench::arena::Pages;
use super::bench::timing::{Plan, Rate, Stopwatch, Work};
use super::bench::{ClockChain, Team};
use super::doubt;
use super::error::MachineError;
use super::features::Features;
use super::kernels::Kernel;
use super::topology::{self, Topology};
use crate::profile::machine::{Ceiling, Sweep};
use crate::profile::placement::{self, CoreToCore};
use crate::profile::run::Warning;
use aim::Aim;
pub use chain::Chain;
pub use effort::{Effort, Steadiness, is_of_given_pages};
use far::Far;
use moments::Moments;
pub use moments::Verdict;
pub use one_clock::at_one_clock;
use placed::ByPlacement;

/// Where and how a ceiling stands: id, unit, threads.
#[derive(Debug, Clone)]
pub struct Label {
    /// Ceiling id.
    pub id: String,
    /// Unit of its value.
    pub unit: &'static str,
    /// Threads.
    pub threads: usize,
}

impl Label {
    /// A label.
    pub fn new(id: impl Into<String>, unit: &'static str, threads: usize) -> Self {
        Label { id: id.into(), unit, threads }
    }
}

/// Ids and thread counts of ceilings that are in doubt.
pub type Doubtful = std::collections::BTreeSet<(String, usize)>;

/// Share of huge pages below which a doubt is told.
const HUGE_ENOUGH: f64 = 0.9;

/// When to stop.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    essential: Instant,
    rest: Instant,
}

impl Deadlines {
    fn of(effort: Effort, patience: u32) -> Self {
        let now = Instant::now();
        Deadlines { essential: now + patience * effort.budget(true), rest: now + patience * effort.budget(false) }
    }
}

/// The bench.
pub struct Lab {
    /// Instruction sets that kernels may use.
    pub features: Features,
    /// The host.
    pub topology: Topology,
    /// Thread counts to measure, ascending, 1 first.
    pub counts: Vec<usize>,
    /// Bytes that may be allocated.
    pub memory: u64,
    /// How thoroughly.
    pub effort: Effort,
    watch: Stopwatch,
    start: Instant,
    deadlines: Deadlines,
    /// Time by which these are later than [`Effort`] says.
    added: Duration,
    patience: u32,
    essential: bool,
    aim: Aim,
    /// Passes since the one that measures everything.
    pass: u64,
    ceilings: Vec<Ceiling>,
    moments: Moments,
    /// Derived ceilings of which something came out but once.
    derived_once: Doubtful,
    by_placement: ByPlacement,
    sweeps: Vec<Sweep>,
    doubts: Vec<Warning>,
    huge_pages: Option<f64>,
    far: Far,
    /// It goes on with what an earlier measurement recorded.
    resumed: bool,
}

impl Lab {
    /// Sets the bench up: threads are started and pinned.
    ///
    /// # Errors
    /// [`MachineError::Thread`], [`MachineError::Executable`]; [`MachineError::Architecture`] where no kernels exist.
    pub fn new(
        features: Features,
        topology: Topology,
        threads: usize,
        memory: u64,
        effort: Effort,
    ) -> Result<Self, MachineError> {
        let team = Team::new(&topology.placement(threads))?;
        let counts = topology.thread_counts(threads);
        let (clock, probe) = clock_kernels(features)?;
        let cores = topology.cores().min(threads);
        let watch = Stopwatch::new(team, clock, probe, cores, effort.apart_budget());
        Ok(Lab {
            features,
            topology,
            counts,
            memory,
            effort,
            watch,
            start: Instant::now(),
            deadlines: Deadlines::of(effort, 1),
            added: Duration::ZERO,
            patience: 1,
            essential: true,
            aim: Aim::All,
            pass: 0,
            ceilings: Vec::new(),
            moments: Moments::default(),
            derived_once: Doubtful::new(),
            by_placement: ByPlacement::default(),
            sweeps: Vec::new(),
            doubts: Vec::new(),
            huge_pages: None,
            far: Far::default(),
            resumed: false,
        })
    }

    /// The bench with so many times the time that [`Effort`] allows.
    pub fn patient(self, patience: u32) -> Self {
        Lab { deadlines: Deadlines::of(self.effort, patience), patience, ..self }
    }

    /// Whether it has more time than usual.
    pub fn is_patient(&self) -> bool {
        self.patience > 1
    }

    /// The stopwatch.
    pub fn watch(&self) -> &Stopwatch {
        &self.watch
    }

    /// The threads.
    pub fn team(&self) -> &Team {
        self.watch.team()
    }

    /// Most threads.
    pub fn most(&self) -> usize {
        self.counts.last().copied().unwrap_or(1)
    }

    /// 1 and the most threads: the counts at which secondary ceilings are measured.
    pub fn ends(&self) -> Vec<usize> {
        let mut ends = vec![1, self.most()];
        ends.dedup();
        ends
    }

    /// Whether what follows may overrun the time of a quiet host.
    pub fn set_essential(&mut self, essential: bool) {
        self.essential = essential;
    }

    /// Whether the time is used up.
    pub fn out_of_time(&self) -> bool {
        self.time_left().is_zero()
    }

    /// Time in which something may begin.
    fn time_left(&self) -> Duration {
        let end = if self.essential { self.deadlines.essential } else { self.deadlines.rest };
        end.saturating_duration_since(Instant::now())
    }

    /// Has what comes later end so much later, where everything is measured: for what [`Effort`] allows no time itself.
    pub fn add_time(&mut self, time: Duration) {
        if self.measures_all() {
            let Deadlines { essential, rest } = self.deadlines;
            self.deadlines = Deadlines { essential: essential + time, rest: rest + time };
            self.added += time;
        }
    }

    /// From now on only what `doubtful` names is measured, within `budget`; the rest stays as it is recorded.
    pub fn repeat(&mut self, doubtful: Doubtful, budget: Duration) {
        self.aim = Aim::Only(doubtful);
        self.pass += 1;
        let end = Instant::now() + budget;
        self.deadlines = Deadlines { essential: end, rest: end };
    }

    /// Time that is left for measuring again what is in doubt.
    pub fn repeat_budget(&self) -> Duration {
        let (least, most) = self.effort.repeat_range();
        let until = self.patience * self.effort.repeat_until();
        (until + self.added).saturating_sub(self.start.elapsed()).clamp(self.patience * least, self.patience * most)
    }

    /// The number of this pass: 0 is the one that measures everything.
    pub fn pass(&self) -> u64 {
        self.pass
    }

    /// Whether everything is measured, not only what is in doubt.
    pub fn measures_all(&self) -> bool {
        matches!(self.aim, Aim::All)
    }

    /// Whether `label` is to be measured at all in this pass.
    pub fn wants(&self, label: &Label) -> bool {
        self.aim.includes(&label.id, label.threads)
    }

    /// Whether this pass measures anything at `threads` whose id begins with one of `prefixes`: buffers are made only then.
    /// Nothing on small pages is meant.
    pub fn wants_family(&self, prefixes: &[&str], threads: usize) -> bool {
        self.wants_family_on(Pages::Huge, prefixes, threads)
    }

    /// The same of what is measured on `pages`.
    pub fn wants_family_on(&self, pages: Pages, prefixes: &[impl AsRef<str>], threads: usize) -> bool {
        self.aim.includes_family(pages, prefixes, threads)
    }

    /// Whether `label` is not to be measured now: not wanted, or too late, which is then recorded.
    pub fn leaves_out(&mut self, label: &Label) -> bool {
        if !self.wants(label) {
            return true;
        }
        let late = self.out_of_time();
        if late {
            self.missing(label.clone(), self.too_late());
        }
        late
    }

    /// Repetitions of kernels on registers and near caches.
    pub fn core_plan(&self) -> Plan {
        match self.effort {
            Effort::Quick => Plan { seconds: 60e-6, pieces: 10, repetitions: 4, steady: 0.01, rounds: 3, fastest: 8 },
            // What is confirmed leaves its time to what neighbours are part of.
            Effort::Full if !self.measures_all() => {
                Plan { seconds: 100e-6, pieces: 16, repetitions: 3, steady: 0.005, rounds: 3, fastest: 8 }
            }
            Effort::Full => Plan { seconds: 100e-6, pieces: 16, repetitions: 6, steady: 0.005, rounds: 3, fastest: 8 },
        }
    }

    /// Repetitions of kernels that the neighbours disturb.
    pub fn shared_plan(&self) -> Plan {
        match self.effort {
            Effort::Quick => Plan { seconds: 2e-3, pieces: 1, repetitions: 4, steady: 0.05, rounds: 2, fastest: 2 },
            // Another moment tells more than more repetitions.
            Effort::Full if !self.measures_all() => {
                Plan { seconds: 4e-3, pieces: 1, repetitions: 3, steady: 0.05, rounds: 1, fastest: 2 }
            }
            Effort::Full => Plan { seconds: 5e-3, pieces: 1, repetitions: 6, steady: 0.05, rounds: 2, fastest: 2 },
        }
    }

    /// Times a kernel on registers and records the rate of `amount` per iteration and thread.
    ///
    /// # Errors
    /// As [`Stopwatch::rate`]; emission errors are handed through.
    pub fn registers(
        &mut self,
        label: Label,
        kernel: impl Fn(Features) -> Result<Kernel, MachineError>,
        amount: impl Fn(&Kernel) -> f64,
    ) -> Result<Option<Rate>, MachineError> {
        if self.leaves_out(&label) {
            return Ok(None);
        }
        let first = kernel(self.features)?;
        let others = (1..self.copies(&label.id)).map(|_| first.copied()).collect::<Vec<_>>();
        self.best_of(label, std::iter::once(Ok(first)).chain(others), amount)
    }

    /// How many copies of a kernel are tried: where its code lies, and how it came into the cache of decoded instructions, can cost a few
    /// per cent for as long as it lies there. Code that fills that cache settles in many ways, and so do the users of a divider.
    fn copies(&self, id: &str) -> usize {
        let large = id.ends_with(".l1i") || id.ends_with(".l2");
        match self.effort {
            Effort::Full if !self.measures_all() && large => 4,
            Effort::Full if large => 8,
            Effort::Full if id.contains(".coissue.") && (id.contains("div") || id.contains("sqrt")) => 6,
            Effort::Full if id.contains(".coissue.") => 3,
            Effort::Full if id.contains(".mix.") => 6,
            Effort::Quick if id.starts_with("mix.") => 1,
            _ => 2,
        }
    }

    /// Times several kernels that do the same on registers and records the best.
    ///
    /// # Errors
    /// As [`registers`](Self::registers).
    pub fn best_of(
        &mut self,
        label: Label,
        kernels: impl IntoIterator<Item = Result<Kernel, MachineError>>,
        amount: impl Fn(&Kernel) -> f64,
    ) -> Result<Option<Rate>, MachineError> {
        if self.leaves_out(&label) {
            return Ok(None);
        }
        let mut rates: Vec<Rate> = Vec::new();
        let kernels: Vec<_> = kernels.into_iter().collect();
        let plan = match kernels.len() {
            // Another copy tells more than another repetition.
            5.. if self.effort == Effort::Full => Plan { repetitions: 5, rounds: 1, ..self.core_plan() },
            _ => self.core_plan(),
        };
        for kernel in kernels {
            if !rates.is_empty() && self.out_of_time() {
                break;
            }
            let kernel = kernel?;
            let amount = amount(&kernel) * label.threads as f64;
            rates.push(self.watch.rate(&Work::on_registers(kernel, label.threads), amount, plan)?);
        }
        let best = Rate::of_copies(rates);
        match best {
            Some(ref rate) => self.record(label, rate.clone()),
            None => self.missing(label, "there is no kernel for it"),
        }
        Ok(best)
    }

    /// What is recorded.
    pub fn ceilings(&self) -> &[Ceiling] {
        &self.ceilings
    }

    /// Takes over what an earlier measurement recorded with the CPUs placed so.
    pub fn resume(&mut self, ceilings: Vec<Ceiling>, sweeps: Vec<Sweep>, placement: Option<&CoreToCore>) {
        let main = placement.map(|p| self.watch.know(p));
        let of_states = |c: &&Ceiling| c.how == "measured" && doubt::undisturbed(c) && !doubt::is_alias(c);
        for c in ceilings.iter().filter(of_states) {
            if let (Some(value), Some(_)) = (c.value, c.spread) {
                let rate = if c.unit == "s" { 1.0 / value } else { value };
                let rate = Steadiness::of(&c.id).compared(rate, c.clock_hz.unwrap_or(1.0));
                let main = main.filter(|_| placement::depends(c));
                self.moments.note((c.id.clone(), c.threads, main), None, (rate, Vec::new()), c.clone());
            }
        }
        (self.ceilings, self.sweeps, self.resumed) = (ceilings, sweeps, true);
        if let Some(placement) = placement {
            self.resume_placement(placement);
        }
    }

    /// Whether it goes on with what an earlier measurement recorded.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Marks what contradicts itself as unsettled. Where threads never had a core each, that is this host's nature: their
    /// ceilings stand, with a warning.
    pub fn conclude(&mut self) {
        self.judge_given_pages();
        self.choose_placement();
        // What an earlier measurement kept stays as it was: each ceiling says at which clock that is.
        if !self.resumed {
            one_clock::bring(&mut self.ceilings);
        }
        let factor = if self.resumed { 1.0 } else { pool::ANOTHER_RUN };
        let guest = topology::is_guest();
        pool::widen(&mut self.ceilings, factor, guest);
        self.by_placement.others().for_each(|there| pool::widen(there, factor, guest));
        doubt::mark(&mut self.ceilings);
        if let Some(share) = self.huge_pages.filter(|s| *s < HUGE_ENOUGH) {
            self.doubts.push(Warning::new(
                "small-pages",
                format!("the kernel put {:.0} % of the buffers on huge pages", 100.0 * share),
                "DRAM bandwidths and latencies include TLB misses, as in programs on small pages",
                "write madvise to /sys/kernel/mm/transparent_hugepage/enabled",
            ));
        }
        if !self.watch.ever_apart() && doubt::accept_shared_cores(&mut self.ceilings) {
            self.doubts.push(Warning::new(
                "shared-cores",
                "two threads run no faster than one: the CPUs appear to be SMT siblings of one core",
                "ceilings of several threads are those of shared cores",
                "ask the provider for whole cores, or choose CPUs of different cores with taskset",
            ));
        }
    }

    /// Notes the share of a buffer that really is on huge pages.
    pub fn note_huge_pages(&mut self, share: Option<f64>) {
        self.huge_pages = match (self.huge_pages, share) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// The least share noted.
    pub fn huge_pages(&self) -> Option<f64> {
        self.huge_pages
    }

    /// Adds a curve, in place of an earlier one.
    pub fn sweep(&mut self, sweep: Sweep) {
        self.sweeps.retain(|old| old.id != sweep.id || old.threads != sweep.threads);
        self.sweeps.push(sweep);
    }

    /// The sweep `id` at `threads`, if it was recorded.
    pub fn swept(&self, id: &str, threads: u32) -> Option<&Sweep> {
        self.sweeps.iter().find(|sweep| sweep.id == id && sweep.threads == threads)
    }

    /// Takes the doubts.
    pub fn take_doubts(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.doubts)
    }

    /// The results.
    pub fn finish(self) -> (Vec<Ceiling>, Vec<Sweep>) {
        (self.ceilings, self.sweeps)
    }
}

/// The chain that tells the clock, and independent additions.
#[cfg(target_arch = "x86_64")]
pub(super) fn clock_kernels(features: Features) -> Result<(ClockChain, Kernel), MachineError> {
    use super::kernels::x86_64::integer::{self, Scalar};
    let clock = ClockChain::new(integer::additions(features)?, integer::multiplications(features)?);
    Ok((clock, integer::throughput(&[Scalar::Add], features)?))
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn clock_kernels(_features: Features) -> Result<(ClockChain, Kernel), MachineError> {
    Err(MachineError::Architecture { arch: std::env::consts::ARCH })
}
