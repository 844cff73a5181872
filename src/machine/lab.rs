//! The bench that ceilings are measured on: stopwatch, instruction sets, topology, time budget, results.

use std::time::{Duration, Instant};

use super::bench::Team;
use super::bench::timing::{Plan, Rate, Stopwatch, Work};
use super::error::MachineError;
use super::features::Features;
use super::kernels::Kernel;
use super::topology::Topology;
use crate::profile::machine::{Ceiling, Sweep};
use crate::profile::run::Warning;

/// How thoroughly to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// What a first run waits for: at most three seconds on two cores.
    Quick,
    /// Everything: at most thirty seconds on two cores.
    Full,
}

impl Effort {
    /// The name used in the cache and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Full => "full",
        }
    }

    /// Time after which further ceilings are left out: `essential` ones, without which the model is blind, may take
    /// longer on a busy host.
    fn budget(self, essential: bool) -> Duration {
        match (self, essential) {
            (Effort::Quick, false) => Duration::from_millis(2700),
            (Effort::Quick, true) => Duration::from_secs(10),
            (Effort::Full, false) => Duration::from_secs(28),
            (Effort::Full, true) => Duration::from_secs(60),
        }
    }
}

/// How much repetitions may differ before a ceiling counts as unsettled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steadiness {
    /// Registers, L1, L2: 3 %.
    Core,
    /// L3, DRAM and latencies beyond L2: 10 %.
    Shared,
}

impl Steadiness {
    fn tolerance(self) -> f64 {
        match self {
            Steadiness::Core => 0.03,
            Steadiness::Shared => 0.10,
        }
    }
}

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
    essential: bool,
    ceilings: Vec<Ceiling>,
    sweeps: Vec<Sweep>,
    doubts: Vec<Warning>,
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
        let (clock, cycles) = clock_kernel(features)?;
        let watch = Stopwatch::new(team, clock, cycles);
        Ok(Lab {
            features,
            topology,
            counts,
            memory,
            effort,
            watch,
            start: Instant::now(),
            essential: true,
            ceilings: Vec::new(),
            sweeps: Vec::new(),
            doubts: Vec::new(),
        })
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
        self.start.elapsed() > self.effort.budget(self.essential)
    }

    /// Repetitions of kernels on registers and near caches.
    pub fn core_plan(&self) -> Plan {
        match self.effort {
            Effort::Quick => Plan { seconds: 60e-6, repetitions: 4, steady: 0.01, rounds: 3, fastest: 8 },
            Effort::Full => Plan { seconds: 150e-6, repetitions: 10, steady: 0.005, rounds: 3, fastest: 8 },
        }
    }

    /// Repetitions of kernels that the neighbours disturb.
    pub fn shared_plan(&self) -> Plan {
        match self.effort {
            Effort::Quick => Plan { seconds: 2e-3, repetitions: 5, steady: 0.05, rounds: 3, fastest: 2 },
            Effort::Full => Plan { seconds: 5e-3, repetitions: 11, steady: 0.05, rounds: 2, fastest: 2 },
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
        // Emitted twice, since where the code lies in memory can cost a few per cent for as long as it lies there.
        let emitted = (0..2).map(|_| kernel(self.features)).collect::<Vec<_>>();
        self.best_of(label, emitted, amount)
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
        let mut best: Option<Rate> = None;
        for kernel in kernels {
            if self.out_of_time() {
                break;
            }
            let kernel = kernel?;
            let amount = amount(&kernel) * label.threads as f64;
            let rate = self.watch.rate(&Work::on_registers(kernel, label.threads), amount, self.core_plan())?;
            best = Some(best.map_or(rate, |b| b.better(rate)));
        }
        match best {
            Some(rate) => self.record(label, rate, Steadiness::Core),
            None => self.missing(label, self.too_late()),
        }
        Ok(best)
    }

    /// Records a measured rate.
    pub fn record(&mut self, label: Label, rate: Rate, steadiness: Steadiness) {
        self.push(label, rate.best, rate, steadiness, None);
    }

    /// Records the time of one event whose measured rate (events a second) is `rate`.
    pub fn record_time(&mut self, label: Label, rate: Rate, steadiness: Steadiness) {
        self.push(label, 1.0 / rate.best, rate, steadiness, None);
    }

    fn push(&mut self, label: Label, value: f64, rate: Rate, steadiness: Steadiness, reason: Option<String>) {
        self.ceilings.push(Ceiling {
            id: label.id,
            value: Some(value),
            unit: label.unit.into(),
            threads: label.threads as u32,
            clock_hz: Some(rate.clock_hz),
            spread: Some(rate.spread),
            settled: rate.spread <= steadiness.tolerance(),
            how: "measured".into(),
            reason,
            device: "cpu".into(),
        });
    }

    /// Records `value` as computed from `source`, whose conditions it inherits.
    pub fn derive(&mut self, label: Label, value: f64, source: &Ceiling, reason: impl Into<String>) {
        self.ceilings.push(Ceiling {
            id: label.id,
            value: Some(value),
            unit: label.unit.into(),
            threads: label.threads as u32,
            how: "derived".into(),
            reason: Some(reason.into()),
            ..source.clone()
        });
    }

    /// Records another name for a measured ceiling.
    pub fn alias(&mut self, id: &str, source: &Ceiling) {
        let reason = Some(format!("is {}", source.id));
        self.ceilings.push(Ceiling { id: id.into(), reason, ..source.clone() });
    }

    /// Records that there is no value, and why.
    pub fn missing(&mut self, label: Label, reason: impl Into<String>) {
        self.ceilings.push(Ceiling {
            id: label.id,
            value: None,
            unit: label.unit.into(),
            threads: label.threads as u32,
            clock_hz: None,
            spread: None,
            settled: false,
            how: "measured".into(),
            reason: Some(reason.into()),
            device: "cpu".into(),
        });
    }

    /// The reason of what did not fit the time.
    pub fn too_late(&self) -> String {
        format!("did not fit the time of a {} measurement; `rprof machine --refresh` measures it", self.effort.name())
    }

    /// What was recorded under `id` at `threads`, if it has a value.
    pub fn found(&self, id: &str, threads: usize) -> Option<&Ceiling> {
        self.ceilings.iter().find(|c| c.id == id && c.threads == threads as u32 && c.value.is_some())
    }

    /// The highest of `ids` at `threads`.
    pub fn highest(&self, ids: &[String], threads: usize) -> Option<Ceiling> {
        let values = ids.iter().filter_map(|id| self.found(id, threads));
        values.max_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0))).cloned()
    }

    /// Adds a curve.
    pub fn sweep(&mut self, sweep: Sweep) {
        self.sweeps.push(sweep);
    }

    /// Adds doubts about what was measured.
    pub fn doubt(&mut self, doubts: Vec<Warning>) {
        self.doubts.extend(doubts);
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

#[cfg(target_arch = "x86_64")]
fn clock_kernel(features: Features) -> Result<(Kernel, u64), MachineError> {
    use super::kernels::x86_64::integer;
    Ok((integer::clock(features)?, integer::CLOCK_ADDS))
}

#[cfg(not(target_arch = "x86_64"))]
fn clock_kernel(_features: Features) -> Result<(Kernel, u64), MachineError> {
    Err(MachineError::Architecture { arch: std::env::consts::ARCH })
}
