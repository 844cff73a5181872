//! Evidence of the timed pass: samples of where the time goes.

use serde::{Deserialize, Serialize};

use super::ThreadInfo;
use super::marks::TimedMarks;
use crate::clock::ClockSource;
use crate::code::{CodeRef, ModuleInfo};
use crate::core_to_core::CoreToCore;
use crate::run::Warning;
use crate::system::FileKind;

/// The result of the timed pass.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TimedEvidence {
    /// `perf:cycles`, `perf:cpu-clock` or `ptrace`.
    pub source: String,
    /// From exec to the exit of the last process, in seconds.
    pub wall_s: f64,
    /// User + system CPU seconds of the program and its descendants.
    pub cpu_s: f64,
    /// Sampling rate aimed at, per second and thread.
    pub frequency_hz: f64,
    /// Samples that the kernel reported as lost.
    pub lost: u64,
    /// Modules that `CodeRef::module` indexes.
    pub modules: Vec<ModuleInfo>,
    /// Threads that `thread` indexes.
    pub threads: Vec<ThreadInfo>,
    /// Samples in time order.
    pub samples: Vec<Sample>,
    /// Intervals in which a thread was on a CPU, from context-switch records; empty if the source has none.
    pub on_cpu: Vec<OnCpu>,
    /// When the pass started, in nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Changes of the program's executable memory, in order of time.
    pub mappings: Vec<MappingEvent>,
    /// The places of the CPUs, in order of time; empty if rprof did not watch that.
    pub placements: Vec<PlacementSeen>,
    /// Frequencies of the CPUs' clocks, in order of time; empty if rprof did not watch them.
    pub clocks: Vec<ClockSeen>,
    /// How these were seen; `None`: there are none.
    #[serde(default)]
    pub clock_source: Option<ClockSource>,
    /// Page faults of the program and of the descendants that it waited for: minor, major.
    pub page_faults: Option<(u64, u64)>,
    /// Samples and intervals outside of these seconds were left out; `None`: none was.
    pub part: Option<(f64, f64)>,
    /// Seconds that windows of the single pass took, in order: samples taken there are left out.
    #[serde(default)]
    pub apart: Vec<(f64, f64)>,
    /// Why the sampler did not look at blocked threads; `None`: it did.
    pub blocked_missing: Option<String>,
    /// Marker calls; `None`: none was seen.
    pub marks: Option<TimedMarks>,
    /// Doubts about these figures.
    pub warnings: Vec<Warning>,
}

/// A look at the places of the CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementSeen {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The placement.
    pub core_to_core: CoreToCore,
}

/// A look at the clock of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockSeen {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Number of the CPU.
    pub cpu: u32,
    /// Cycles a second.
    pub hz: f64,
}

/// A change of a process's executable memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingEvent {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Process.
    pub pid: u32,
    /// The change.
    pub change: MappingChange,
}

/// The kinds of change of a process's executable memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MappingChange {
    /// Addresses `start..end` are code of a module: offset = address − `bias`.
    Mapped {
        /// First address.
        start: u64,
        /// First address behind it.
        end: u64,
        /// Index into the evidence's modules.
        module: u32,
        /// Run-time address − offset in the module.
        bias: u64,
    },
    /// It began with all mappings of `parent`.
    Forked {
        /// The process that forked.
        parent: u32,
    },
    /// It executed a program: nothing is mapped any more.
    Executed,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the start of the pass.
    pub t_s: f64,
    /// CPU seconds that it represents.
    pub weight_s: f64,
    /// Index into `threads`.
    pub thread: u32,
    /// User-space code, leaf first: `stack[0]` is the sampled instruction, the others are return addresses − 1 (inside
    /// the call). Empty if the sample had no user context.
    pub stack: Vec<CodeRef>,
    /// Taken in the kernel (then `stack` is the user stack it was entered from).
    pub kernel: bool,
    /// Seen off the CPU (the ptrace sampler sees blocked threads, too).
    pub off_cpu: bool,
    /// Number of the CPU it was on, if the source reports it.
    pub cpu: Option<u32>,
    /// The place it was blocked at; `None` on a CPU, and if that is not known.
    pub blocked: Option<BlockedIn>,
    /// The marked regions that its thread was in: index into the paths of the evidence's marks, 0 for none.
    pub path: u32,
}

/// The place a thread was blocked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedIn {
    /// The number of the system call; `None`: in none, which is a page fault.
    pub call: Option<u32>,
    /// The file of the call's first argument, if it is one.
    pub file: Option<FileKind>,
}

/// A thread was on a CPU from `start_s` to `end_s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OnCpu {
    /// Index into `threads`.
    pub thread: u32,
    /// Seconds since the start of the pass.
    pub start_s: f64,
    /// Seconds since the start of the pass.
    pub end_s: f64,
    /// It was taken off although it could have run on: another thread got its CPU.
    pub preempted: bool,
}
