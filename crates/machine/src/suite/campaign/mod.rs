//! The bench on which ceilings are measured: stopwatch, instruction sets, topology, schedule, results.

mod chain;
mod dram_buffers;
mod effort;
mod record;
mod schedule;
mod selection;

use std::collections::HashMap;
use std::time::Duration;

use crate::error::MachineError;
use crate::estimate::class::Class;
use crate::estimate::rounds::{Round, Rounds};
use crate::estimate::{self, Keys};
use crate::harness::arena::{Arena, Pages};
use crate::harness::timing::{Plan, Rate, Stopwatch, Work};
use crate::harness::{ClockChain, Team, core_to_core};
use crate::host::features::Features;
use crate::host::topology::{self, Topology};
use crate::kernels::Kernel;
pub use chain::Chain;
use dram_buffers::DramBuffers;
pub use effort::Effort;
use rprof_profile::clock;
use rprof_profile::core_to_core::CoreToCore;
use rprof_profile::machine::{Ceiling, CeilingId, How, Sweep};
use rprof_profile::run::Warning;
use schedule::Schedule;
use selection::Selection;

/// The name of a ceiling: id, unit, threads.
#[derive(Debug, Clone)]
pub struct Label {
    /// Ceiling id.
    pub id: CeilingId,
    /// Unit of its value.
    pub unit: &'static str,
    /// Threads.
    pub threads: usize,
}

impl Label {
    /// A label.
    pub fn new(id: impl Into<CeilingId>, unit: &'static str, threads: usize) -> Self {
        Label { id: id.into(), unit, threads }
    }

    fn key(&self) -> (CeilingId, usize) {
        (self.id.clone(), self.threads)
    }
}

/// Share of huge pages below which there is a warning.
const HUGE_ENOUGH: f64 = 0.9;

/// How long two threads wait for each other when the distance of their CPUs is measured.
const TOGETHER: Duration = Duration::from_millis(20);

/// The bench.
pub struct Campaign {
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
    schedule: Schedule,
    aim: Selection,
    rounds: Rounds,
    /// The best rate of each alternative way to do the same work.
    ways: HashMap<(CeilingId, usize), Vec<f64>>,
    ceilings: Vec<Ceiling>,
    sweeps: Vec<Sweep>,
    doubts: Vec<Warning>,
    huge_pages: Option<f64>,
    far: DramBuffers,
    guest: bool,
}

impl Campaign {
    /// Sets the bench up: threads are started and pinned.
    ///
    /// # Errors
    /// [`MachineError::Thread`], [`MachineError::Executable`]; [`MachineError::Architecture`] if no kernels exist.
    pub fn new(
        features: Features,
        topology: Topology,
        threads: usize,
        memory: u64,
        effort: Effort,
    ) -> Result<Self, MachineError> {
        let team = Team::new(&topology.placement(threads))?;
        let (clock, probe) = clock_kernels(features)?;
        let cores = topology.cores().min(threads);
        let watch = Stopwatch::new(team, clock, probe, cores, effort.apart_budget());
        Ok(Campaign::with(watch, features, topology, threads, memory, effort))
    }

    /// A bench that runs nothing, but adds up the planned time: for a host that need not exist.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_plan(features: Features, topology: Topology, memory: u64, effort: Effort) -> Result<Self, MachineError> {
        let (clock, probe) = clock_kernels(features)?;
        let threads = topology.cpus.len();
        Ok(Campaign::with(Stopwatch::of_plan(clock, probe)?, features, topology, threads, memory, effort))
    }

    fn with(
        watch: Stopwatch,
        features: Features,
        topology: Topology,
        threads: usize,
        memory: u64,
        effort: Effort,
    ) -> Self {
        Campaign {
            features,
            counts: counts(&topology, threads, effort),
            topology,
            memory,
            effort,
            watch,
            schedule: Schedule::of(effort),
            aim: Selection::All,
            rounds: Rounds::default(),
            ways: HashMap::new(),
            ceilings: Vec::new(),
            sweeps: Vec::new(),
            doubts: Vec::new(),
            huge_pages: None,
            far: DramBuffers::default(),
            guest: topology::is_guest(),
        }
    }

    /// The stopwatch.
    pub fn watch(&self) -> &Stopwatch {
        &self.watch
    }

    /// The team of threads.
    pub fn team(&self) -> &Team {
        self.watch.team()
    }

    /// The highest thread count.
    pub fn most(&self) -> usize {
        self.counts.last().copied().unwrap_or(1)
    }

    /// 1 and the highest thread count: the counts at which secondary ceilings are measured.
    pub fn ends(&self) -> Vec<usize> {
        let mut ends = vec![1, self.most()];
        ends.dedup();
        ends
    }

    /// Time since the measurement began; for a plan, the planned time so far.
    pub fn elapsed(&self) -> Duration {
        self.watch.planned().unwrap_or_else(|| self.schedule.began.elapsed())
    }

    /// Whether the next measurements may overrun the time of a quiet host.
    pub fn set_essential(&mut self, essential: bool) {
        self.schedule.essential = essential;
    }

    /// Whether the time is used up.
    pub fn out_of_time(&self) -> bool {
        self.time_left().is_zero()
    }

    /// Time left in which a measurement may begin.
    pub fn time_left(&self) -> Duration {
        self.schedule.end().saturating_sub(self.elapsed())
    }

    /// Begins the next round, even if there is no time for it.
    pub fn begin_round(&mut self, round: usize) {
        self.schedule.begin(round, self.elapsed());
    }

    /// Whether there is time for one more round, assuming the duration of this one. The first round of all measures more than others.
    pub fn has_time_for_a_round(&self) -> bool {
        let is_first_of_all = self.round() == self.first_round() && self.measures_all();
        if is_first_of_all { !self.out_of_time() } else { self.schedule.has_time(self.elapsed()) }
    }

    /// The number of this round, from 0 on.
    pub fn round(&self) -> usize {
        self.schedule.round
    }

    /// The number of the first round over everything: a quick measurement has no time for two, so one over the core alone comes before it.
    pub fn first_round(&self) -> usize {
        self.schedule.first
    }

    /// Restricts the measurement to `keys`, within `budget` from now on; the recorded values of the other ceilings stay.
    pub fn only(&mut self, keys: Keys, budget: Duration) {
        self.aim = Selection::Only(keys);
        self.schedule.begin(0, self.elapsed());
        self.schedule.set_end(self.elapsed() + budget);
    }

    /// Whether everything is measured.
    pub fn measures_all(&self) -> bool {
        matches!(self.aim, Selection::All)
    }

    /// Whether `label` should be measured at all.
    pub fn wants(&self, label: &Label) -> bool {
        self.aim.includes(&label.id, label.threads)
    }

    /// Whether any ceiling with one of `prefixes` is measured at `threads`: buffers are made only then. Ceilings on small pages do not
    /// count.
    pub fn wants_family(&self, prefixes: &[&str], threads: usize) -> bool {
        self.wants_family_on(Pages::Huge, prefixes, threads)
    }

    /// Like [`wants_family`](Self::wants_family), for ceilings on `pages`.
    pub fn wants_family_on(&self, pages: Pages, prefixes: &[impl AsRef<str>], threads: usize) -> bool {
        self.aim.includes_family(pages, prefixes, threads)
    }

    /// Whether `label` is not measured now: not wanted, or too late. Records the latter.
    pub fn leaves_out(&mut self, label: &Label) -> bool {
        if !self.wants(label) {
            return true;
        }
        let late = self.out_of_time();
        if late {
            self.too_late(label.clone());
        }
        late
    }

    /// Repetitions for kernels on registers and in near caches.
    pub fn core_plan(&self) -> Plan {
        match self.effort {
            Effort::Quick => Plan { seconds: 60e-6, pieces: 10, repetitions: 3, fastest: 8 },
            Effort::Full => Plan { seconds: 100e-6, pieces: 16, repetitions: 4, fastest: 8 },
        }
    }

    /// Repetitions for kernels that neighbours disturb.
    pub fn shared_plan(&self) -> Plan {
        let repetitions = if self.effort == Effort::Quick { 2 } else { 3 };
        Plan { seconds: 2e-3, pieces: 1, repetitions, fastest: 2 }
    }

    /// Times each of `ways` to do the same work with `time` and returns the best rate. The first round times all ways; later rounds time
    /// the best one and one other in turn.
    ///
    /// # Errors
    /// Those of `time`.
    pub fn best_way<W>(
        &mut self,
        label: &Label,
        ways: &[W],
        mut time: impl FnMut(&Campaign, &W) -> Result<Option<Rate>, MachineError>,
    ) -> Result<Option<Rate>, MachineError> {
        let known = self.ways.get(&label.key()).filter(|known| known.len() == ways.len()).cloned();
        let mut best_rates = known.clone().unwrap_or_else(|| vec![0.0; ways.len()]);
        let in_turn: Vec<usize> = match known {
            None => (0..ways.len()).collect(),
            Some(known) => {
                let best = (0..known.len()).max_by(|a, b| known[*a].total_cmp(&known[*b])).unwrap_or(0);
                let other =
                    (0..known.len()).filter(|n| *n != best).nth(self.round() % known.len().max(2).saturating_sub(1));
                [best].into_iter().chain(other).collect()
            }
        };
        let mut rates = Vec::new();
        for &n in &in_turn {
            if !rates.is_empty() && self.out_of_time() {
                break;
            }
            if let Some(rate) = time(self, &ways[n])? {
                let per_cycle = if rate.by_itself { rate.best / rate.clock_hz.max(1.0) } else { rate.best };
                best_rates[n] = best_rates[n].max(per_cycle);
                rates.push(rate);
            }
        }
        if rates.len() == in_turn.len() {
            self.ways.insert(label.key(), best_rates);
        }
        Ok(Rate::of_copies(rates))
    }

    /// Copies of a kernel that are timed in a round: the position of code in memory can cost a few per cent for as long as it does not
    /// move.
    fn copies(&self) -> usize {
        if self.effort == Effort::Full && self.round() > 0 { 2 } else { 1 }
    }

    /// Times a kernel on registers and records the rate of `amount` per iteration and thread. Each round emits the kernel anew.
    ///
    /// # Errors
    /// As [`Stopwatch::rate`]; emission errors are handed through.
    pub fn registers(
        &mut self,
        label: Label,
        kernel: impl Fn(Features) -> Result<Kernel, MachineError>,
        amount: impl Fn(&Kernel) -> f64,
    ) -> Result<(), MachineError> {
        self.best_of(label, &[()], |(), features| kernel(features), amount)
    }

    /// Times several kernels that do the same work on registers, one for each of `ways`, and records the best.
    ///
    /// # Errors
    /// As [`registers`](Self::registers).
    pub fn best_of<W>(
        &mut self,
        label: Label,
        ways: &[W],
        kernel: impl Fn(&W, Features) -> Result<Kernel, MachineError>,
        amount: impl Fn(&Kernel) -> f64,
    ) -> Result<(), MachineError> {
        if self.leaves_out(&label) {
            return Ok(());
        }
        let (threads, plan) = (label.threads, self.core_plan());
        let best = self.best_way(&label, ways, |campaign, way| {
            let copies = (0..campaign.copies()).map(|_| {
                let kernel = kernel(way, campaign.features)?;
                let amount = amount(&kernel) * threads as f64;
                campaign.watch.rate(&Work::on_registers(kernel, threads), amount, plan)
            });
            Ok(Rate::of_copies(copies.collect::<Result<_, _>>()?))
        })?;
        match best {
            Some(rate) => self.record(label, &rate),
            None => self.missing(label, "there is no kernel for it"),
        }
        Ok(())
    }

    /// The ceilings recorded so far.
    pub fn ceilings(&self) -> &[Ceiling] {
        &self.ceilings
    }

    /// Takes over the ceilings of an earlier measurement. A value within the least interval of its class counts as one round; the others
    /// begin anew when they are measured again.
    pub fn resume(&mut self, ceilings: Vec<Ceiling>, sweeps: Vec<Sweep>) {
        for ceiling in ceilings.iter().filter(|c| c.how == How::Measured && !clock::is_parameter(&c.id)) {
            let (Some(value), Some(clock_hz)) = (ceiling.value.filter(|v| *v > 0.0), ceiling.clock_hz) else {
                continue;
            };
            let least = Class::of(&ceiling.id).least_interval(self.guest);
            if ceiling.spread.is_none_or(|spread| spread <= least) {
                let rate = if ceiling.unit == "s" { 1.0 / value } else { value };
                let idle_clock_hz = ceiling.reference_clock_hz().unwrap_or(clock_hz);
                let round = Round { rate, clock_hz, idle_clock_hz, undisturbed: true, steady: true };
                self.rounds.note(&ceiling.id, ceiling.threads as usize, round);
            }
        }
        (self.ceilings, self.sweeps) = (ceilings, sweeps);
    }

    /// Fills `arena` with ones.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn fill(&self, arena: &Arena) -> Result<(), MachineError> {
        self.watch.plan_bytes(if arena.holds_ones() { 0 } else { arena.total() });
        arena.fill(self.team())
    }

    /// Marks ceilings that contradict each other as noisy, and adds the doubts that concern all of them.
    pub fn conclude(&mut self) {
        estimate::mark_violations(&mut self.ceilings);
        if let Some(share) = self.huge_pages.filter(|s| *s < HUGE_ENOUGH) {
            self.doubts.push(Warning::new(
                "small-pages",
                format!("the kernel put {:.0} % of the buffers on huge pages", 100.0 * share),
                "DRAM bandwidths and latencies include TLB misses, as in programs on small pages",
                "write madvise to /sys/kernel/mm/transparent_hugepage/enabled",
            ));
        }
        if self.shares_cores() {
            self.doubts.push(Warning::new(
                "shared-cores",
                "two threads run no faster than one: the CPUs appear to be SMT siblings of one core",
                "ceilings of several threads are those of shared cores",
                "ask the provider for whole cores, or choose CPUs of different cores with taskset",
            ));
        }
    }

    /// Whether several threads never had a core each: then that is a property of this host, and their rounds count.
    fn shares_cores(&self) -> bool {
        self.watch.shares_cores()
    }

    /// How long a cache line takes between the CPUs of the team now; `None` for one CPU, or if two threads do not meet.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn core_to_core(&self) -> Result<Option<CoreToCore>, MachineError> {
        core_to_core::measure(self.team(), TOGETHER)
    }

    /// Notes the share of a buffer that is really on huge pages.
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

    /// Adds a curve. It replaces an earlier one, unless that has more points.
    pub fn sweep(&mut self, sweep: Sweep) {
        if self.swept(&sweep.id, sweep.threads).is_some_and(|old| old.points.len() > sweep.points.len()) {
            return;
        }
        self.sweeps.retain(|old| old.id != sweep.id || old.threads != sweep.threads);
        self.sweeps.push(sweep);
    }

    /// The sweep `id` at `threads`, if it was recorded.
    pub fn swept(&self, id: &str, threads: u32) -> Option<&Sweep> {
        self.sweeps.iter().find(|sweep| sweep.id == id && sweep.threads == threads)
    }

    /// Takes the doubts noted so far.
    pub fn take_doubts(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.doubts)
    }

    /// The results.
    pub fn finish(self) -> (Vec<Ceiling>, Vec<Sweep>) {
        (self.ceilings, self.sweeps)
    }
}

/// The thread counts to measure; for a quick measurement: one, a thread on each core, and all.
fn counts(topology: &Topology, threads: usize, effort: Effort) -> Vec<usize> {
    let all = topology.thread_counts(threads);
    let (most, cores) = (all.last().copied().unwrap_or(1), topology.cores());
    let is_kept = |n: &usize| effort == Effort::Full || [1, cores, most].contains(n);
    all.into_iter().filter(is_kept).collect()
}

/// The chain that measures the clock, and independent additions.
#[cfg(target_arch = "x86_64")]
pub fn clock_kernels(features: Features) -> Result<(ClockChain, Kernel), MachineError> {
    use crate::kernels::x86_64::integer::{self, Scalar};
    let clock = ClockChain::new(integer::additions(features)?, integer::multiplications(features)?);
    Ok((clock, integer::throughput(&[Scalar::Add], features)?))
}

#[cfg(not(target_arch = "x86_64"))]
pub fn clock_kernels(_features: Features) -> Result<(ClockChain, Kernel), MachineError> {
    Err(MachineError::Architecture { arch: std::env::consts::ARCH })
}
