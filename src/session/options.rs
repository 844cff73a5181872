//! The options of a run.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::run::Warning;
use crate::roofline::ImbalancePosition;

use super::progress::in_percent;

/// Options of one profiling run (docs/conventions.md, Command line).
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Program and arguments.
    pub program: Vec<OsString>,
    /// A running process to profile instead; `program` is then empty.
    pub pid: Option<i32>,
    /// Output folder; `None` is `rprof.out` (under MPI `rprof.out/rank-N`).
    pub output: Option<PathBuf>,
    /// The passes; `None`: those that fit the options and the host (`usual_passes.rs`).
    pub passes: Option<Passes>,
    /// A program that took less than this number of seconds may be run again to count it (`--passes auto`).
    pub repeat_below_s: f64,
    /// The part by which windows may slow the program down; `None`: the usual one, or the usual seconds if they are more.
    pub budget: Option<f64>,
    /// Hot loops are changed and timed in copies of the running program.
    pub tries: bool,
    /// Memory model of the counted pass.
    pub memory: Memory,
    /// Samples per second and thread; `None` is the sampler's default.
    pub frequency_hz: Option<u32>,
    /// Shell command between the passes.
    pub between: Option<OsString>,
    /// Part of the timed pass to report.
    pub collected: CollectedPart,
    /// The place of load imbalance in the ladder.
    pub imbalance: ImbalancePosition,
    /// Keep names at full length.
    pub full_names: bool,
    /// No progress and no notices.
    pub quiet: bool,
    /// Native runs that count the work of the GPU's kernels, if the program launches any.
    pub gpu_counts: GpuCounts,
    /// Counting engine.
    pub engine: Engine,
    /// Folder with event tables (`*.toml`) and a `sysfs` tree to use in place of this CPU's: for CPUs without a table and
    /// for tests.
    pub counters_from: Option<PathBuf>,
}

/// By how much windows may slow a program down: a part of its time, or a number of seconds if that is more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// The part.
    pub share: f64,
    /// The seconds.
    pub least_s: f64,
}

impl Budget {
    /// Used if the user asks for none.
    pub const USUAL: Budget = Budget { share: 0.05, least_s: 1.0 };
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", in_percent(self.share))?;
        if self.least_s > 0.0 { write!(f, ", or {} s if that is more", self.least_s) } else { Ok(()) }
    }
}

impl RunOptions {
    /// Both passes of `program`, without a memory model, and nothing special.
    pub fn of(program: Vec<OsString>, output: Option<PathBuf>, quiet: bool) -> RunOptions {
        RunOptions {
            pid: None,
            budget: None,
            repeat_below_s: 0.0,
            tries: false,
            program,
            output,
            passes: Some(Passes::Both),
            memory: Memory::Off,
            frequency_hz: None,
            between: None,
            collected: CollectedPart::default(),
            imbalance: ImbalancePosition::default(),
            full_names: false,
            quiet,
            gpu_counts: GpuCounts::Off,
            engine: Engine::Translator,
            counters_from: None,
        }
    }

    /// The budget of a program that rprof started by itself: one that the user gave is kept to the letter.
    pub fn budget(&self) -> Budget {
        self.budget.map_or(Budget::USUAL, |share| Budget { share, least_s: 0.0 })
    }

    /// The budget of a program that ran before, or that others wait for: a part of its time alone.
    pub fn budget_share(&self) -> f64 {
        self.budget.unwrap_or(Budget::USUAL.share)
    }
}

/// A part of the timed pass, in seconds from its start; `None` is open.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CollectedPart {
    /// First moment.
    pub from_s: Option<f64>,
    /// First moment after it.
    pub to_s: Option<f64>,
}

impl CollectedPart {
    /// Whether it leaves anything out.
    pub fn is_part(&self) -> bool {
        self.from_s.is_some() || self.to_s.is_some()
    }

    /// The doubt about a program that ended after `wall_s` seconds, before this part began.
    pub fn never_began(&self, wall_s: f64) -> Option<Warning> {
        let from_s = self.from_s.filter(|from_s| *from_s >= wall_s)?;
        Some(Warning::new(
            "nothing-collected",
            format!("the program ended after {wall_s:.2} s, and collection was to begin after {from_s} s"),
            "nothing was collected",
            "give less to --delay (--from)",
        ))
    }

    /// Leaves out of `evidence` the parts that lie outside.
    pub fn cut(&self, evidence: &mut TimedEvidence) {
        let (from, to) = (self.from_s.unwrap_or(0.0), self.to_s.unwrap_or(f64::INFINITY));
        evidence.samples.retain(|s| s.t_s >= from && s.t_s < to);
        for interval in &mut evidence.on_cpu {
            interval.start_s = interval.start_s.max(from);
            interval.end_s = interval.end_s.min(to);
        }
        evidence.on_cpu.retain(|i| i.start_s < i.end_s);
        if self.is_part() {
            evidence.part = Some((from, to));
            // The kernel counts those of the whole run.
            evidence.page_faults = None;
            // Regions last longer than the part.
            evidence.marks = None;
        }
    }
}

/// The passes to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// A run that is native and sampled, counted in windows if it is long; a short one runs once more, counted.
    Auto,
    /// One run: native and sampled, counted in short windows.
    Single,
    /// Native, sampled.
    Timed,
    /// Under the counting engine; it has the streams.
    Counted,
    /// Timed, then counted.
    Both,
}

impl Passes {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Passes::Auto => "auto",
            Passes::Single => "single",
            Passes::Timed => "timed",
            Passes::Counted => "counted",
            Passes::Both => "both",
        }
    }

    /// The pass that another launch makes to complete this one.
    pub fn complement(self) -> Option<Passes> {
        match self {
            Passes::Timed => Some(Passes::Counted),
            Passes::Counted => Some(Passes::Timed),
            Passes::Auto | Passes::Single | Passes::Both => None,
        }
    }
}

/// When the work of the GPU's kernels is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuCounts {
    /// Beside a counted pass.
    Auto,
    /// Whatever the passes.
    On,
    /// As `On`, and the bytes that multiprocessors receive from L2.
    L2,
    /// Never.
    Off,
}

impl GpuCounts {
    /// Whether the user asked for it.
    pub fn is_asked_for(self) -> bool {
        matches!(self, GpuCounts::On | GpuCounts::L2)
    }
}

/// Memory model of the counted pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// None: bytes are `null`.
    Off,
    /// Sampled cache sets.
    Sampled,
    /// Every access.
    Exact,
}

impl Memory {
    /// The name in `run.passes[].memory`.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Off => "off",
            Memory::Sampled => "sampled",
            Memory::Exact => "exact",
        }
    }
}

/// Counting engine of the counted pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The translator.
    Translator,
    /// The oracle: slow.
    SingleStep,
}
