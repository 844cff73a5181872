//! The program that was run, its passes, threads and the doubts about the figures.

use serde::{Deserialize, Serialize};

use super::clock::ClockSource;
use super::counters::Counter;
use super::pages::Pages;
use super::prefetch::Affinity;
use super::system::System;

/// The run as a whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Run {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Exit status, if it exited.
    pub exit_status: Option<i32>,
    /// Signal number, if one ended it.
    pub signal: Option<i32>,
    /// 0 to 1: share of CPU time that is attributed to named functions with both time and counts.
    pub quality: Option<f64>,
    /// The passes in order.
    pub passes: Vec<Pass>,
    /// The threads of the timed pass (of the counted one if there is no other).
    pub threads: Vec<Thread>,
    /// The files that functions and frames are in; empty in profiles that do not have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<Module>,
    /// Hardware counters of the timed pass; empty if the user asked for none.
    #[serde(default)]
    pub counters: Vec<Counter>,
    /// Pages that its accesses touched; `null` without a memory model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pages>,
    /// How much of its CPUs the program used; from the analysis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<Parallelism>,
    /// Its system calls, page faults, and its threads' waits off the CPU; `null` in profiles that do not have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// Whether it worked with denormal numbers, as the flags of the CPU say; `null`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denormals: Option<bool>,
    /// Whether memory lay on the node of the cores that used it; `null` in profiles that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// The processes of a job that a launcher numbered: one in a rank's profile, all in a merged one; empty without a launcher.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Rank>,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

impl Run {
    /// The first timed pass.
    pub fn timed_pass(&self) -> Option<&Pass> {
        self.passes.iter().find(|pass| pass.kind == "timed")
    }
}

/// A file that functions are in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Module {
    /// Its file name, as `module` of functions and frames has it.
    pub name: String,
    /// Its path as the process's map names it.
    pub path: String,
    /// GNU build id in lower-case hexadecimal, where the file has one.
    pub build_id: Option<String>,
}

/// A process of a job, as its launcher numbered it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// Processes of the job; `null` if the launcher does not say.
    pub ranks: Option<u32>,
    /// The launcher's name for the job; `null` if it has none.
    pub job: Option<String>,
    /// Its host.
    pub host: String,
    /// Id of this boot of the host's kernel: hosts may have equal names. `null`: not known.
    #[serde(default)]
    pub boot: Option<String>,
    /// From its start to its end, in seconds.
    pub wall_s: Option<f64>,
    /// CPU seconds.
    pub cpu_s: Option<f64>,
    /// Exit status, if it exited.
    pub exit_status: Option<i32>,
}

/// How many CPUs a program used, and how many it might have used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Parallelism {
    /// CPU seconds at work / seconds from its start to its end.
    pub used: f64,
    /// CPUs that its threads were allowed.
    pub allowed: u32,
}

/// One pass over the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// `timed`, `counted` or `windows`.
    pub kind: String,
    /// `perf:cycles`, `perf:cpu-clock`, `ptrace`; `translator`, `single-step`.
    pub source: String,
    /// Counted pass: `off`, `sampled` or `exact`.
    #[serde(default)]
    pub memory: Option<String>,
    /// From exec to the exit of its last process, in seconds.
    pub wall_s: f64,
    /// CPU seconds.
    pub cpu_s: f64,
    /// Timed pass by perf: samples per second of each thread's CPU time. The ptrace sampler's rate changes as it goes.
    #[serde(default)]
    pub frequency_hz: Option<f64>,
    /// Timed pass: samples taken.
    #[serde(default)]
    pub samples: Option<u64>,
    /// Timed pass: samples lost.
    #[serde(default)]
    pub lost: Option<u64>,
    /// Timed pass: seconds in which threads that could run were kept off their CPUs / seconds in which they could run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_off_share: Option<f64>,
    /// Timed pass: how `functions[].clock_hz` was seen; `None`: it was not, or an older rprof saw it by probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<ClockSource>,
    /// Of windows: seconds by which they have delayed the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<f64>,
    /// Counted pass: share of its CPU time in code that was not counted.
    #[serde(default)]
    pub uncounted_share: Option<f64>,
    /// Counted pass with a memory model: traffic that the model predicts for each `dram.*` ceiling kernel, over the bytes that the
    /// kernel moves by definition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_ratios: Vec<(String, f64)>,
    /// Counted pass with a memory model: how it placed pages (their physical addresses choose the sets of L2 and the last
    /// level).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_placement: Option<String>,
}

/// A thread of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Index.
    pub id: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// MPI rank.
    pub rank: Option<u32>,
    /// Host name.
    pub host: String,
    /// CPU seconds.
    pub cpu_s: f64,
}

/// Code of the warning that a process ran natively, uncounted, from some time on.
pub const RELEASED_CODE: &str = "released";

/// Code of the warning that the counted run did less work than the native one.
pub const LESS_WORK_CODE: &str = "counts-of-less-work";

/// Code of the warning that there are too few samples.
pub const TOO_FEW_SAMPLES_CODE: &str = "too-few-samples";

/// A doubt about a number: the fact, its effect on the numbers, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable short name, `kebab-case`.
    pub code: String,
    /// The fact.
    pub text: String,
    /// Its effect on the numbers.
    pub effect: String,
    /// The remedy.
    pub hint: String,
}

impl Warning {
    /// Builds a warning from its four parts.
    pub fn new(code: &str, text: impl Into<String>, effect: impl Into<String>, hint: impl Into<String>) -> Self {
        Warning { code: code.into(), text: text.into(), effect: effect.into(), hint: hint.into() }
    }
}
