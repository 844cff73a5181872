//! A function (or loop): facts as joined from the evidence, and the analysis that the model adds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use rprof_isa::dependency::{ChainStep, Cycle};
use rprof_isa::facts::{AccessKind, InstructionClass};
use rprof_isa::operation::{FpOp, Precision, Width};

pub use super::flops::{Flops, FlopsByOp, FlopsByWidth, MissingFlops};
pub use super::source::Source;

use super::account::Account;
use super::confidence::Confidence;
use super::counters::Counter;
use super::data::Data;
use super::disassembly::Disassembly;
use super::evidence::memory::Traffic;
use super::names::{self, Difference};
use super::pages::Pages;
use super::prefetch::Prefetch;
use super::system::System;
use super::vocabulary::Class;

/// A function, or a loop in one. All figures are self figures; inlined code belongs to its host symbol.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Function {
    /// Demangled name; loops: `name:line` or `name+0xoffset`.
    pub name: String,
    /// The name in full, if `name` was shortened to be readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_name: Option<String>,
    /// How `name` differs from those of other functions that are shortened alike.
    #[serde(skip)]
    pub difference: Option<Difference>,
    /// Module file name.
    pub module: String,
    /// Source file.
    pub file: Option<String>,
    /// Source line of the function's start.
    pub line: Option<u32>,
    /// The source of each figure, by field name (`time_s`, `flops`, `bytes.dram`).
    pub source: BTreeMap<String, Source>,
    /// Elapsed seconds in which at least one thread was at work in it.
    pub time_s: Option<f64>,
    /// CPU seconds, summed over threads.
    pub cpu_s: Option<f64>,
    /// CPU seconds of it and all it called.
    pub inclusive_s: Option<f64>,
    /// `cpu_s` / Σ `cpu_s`.
    pub share: Option<f64>,
    /// Half width of the 95 % interval of `time_s`.
    pub time_ci95_s: Option<f64>,
    /// CPU seconds in it while spinning or waiting (not part of `cpu_s`).
    #[serde(default)]
    pub waiting_s: Option<f64>,
    /// CPU seconds in the kernel on its behalf (not part of `cpu_s`).
    #[serde(default)]
    pub kernel_s: Option<f64>,
    /// The part of `kernel_s` that began at an instruction that is no system call: page faults, for the most part.
    #[serde(default)]
    pub fault_s: Option<f64>,
    /// Elapsed seconds in which at least one thread was in such a fault (not part of `time_s`).
    #[serde(default)]
    pub fault_time_s: Option<f64>,
    /// Team size: threads that had work in it.
    pub team: Option<u32>,
    /// Each thread's part in it.
    pub per_thread: Vec<PerThread>,
    /// `concurrency[k-1]`: share of `time_s` with exactly k threads at work in it.
    #[serde(default)]
    pub concurrency: Vec<f64>,
    /// λ of docs/conventions.md, Model.
    #[serde(default)]
    pub lambda: Option<f64>,
    /// CPUs that its threads were allowed while they ran.
    #[serde(default)]
    pub allowed_cpus: Option<u32>,
    /// Cycles a second of the cores that it ran on; ceilings of registers, L1 and L2 are taken at this clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
    /// Seconds in which no other function was at work on another thread.
    #[serde(default)]
    pub exclusive_s: Option<f64>,

    /// Instructions as executed.
    pub instructions: Option<u64>,
    /// Arithmetic, compare, min/max, convert, round.
    pub fp_instructions: Option<u64>,
    /// Packed ones among them.
    pub simd_instructions: Option<u64>,
    /// Integer operations as in docs/conventions.md, Operations.
    pub int_ops: Option<u64>,
    /// FLOPs.
    pub flops: Option<Flops>,
    /// Bytes at each level, towards the core.
    pub bytes: Option<Bytes>,
    /// Misses in lines.
    pub cache_misses: Option<CacheMisses>,
    /// 3C classification of last-level misses.
    pub misses: Option<Misses>,
    /// Pages that its accesses touched.
    #[serde(default)]
    pub pages: Option<Pages>,
    /// Data that its lines from memory belong to, largest part first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<Data>,
    /// The counts that the terms of the model need beyond the headline figures; `null` without a counted pass.
    pub work: Option<Work>,
    /// Its time on a CPU divided by cause, from replayed bursts; `null` if none was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,

    /// Its system calls and its waits off the CPU; `null` if it did neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// How far ahead the addresses of its misses beyond L2 are known; `null` without such misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetch>,
    /// Further counts of hardware counters, beside the figures above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counter>,

    /// Everything the model adds, recomputed from the facts.
    #[serde(flatten)]
    pub analysis: Analysis,

    /// Per source line.
    #[serde(default)]
    pub lines: Vec<LineFacts>,
    /// Inline frames found in it, most expensive first.
    #[serde(default)]
    pub inlined: Vec<InlineFacts>,
    /// Its loops, same shape.
    #[serde(default)]
    pub loops: Vec<Function>,
    /// The instructions of a loop that is one of the hottest of the program; `null` for others and for functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disassembly: Option<Disassembly>,
}

impl Function {
    /// Whether `name` is its name, shortened or in full.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.full_name.as_deref() == Some(name)
    }

    /// Its name in at most `width` characters, another than those of the other functions of its profile, as far as their names differ.
    pub fn short_name(&self, width: usize) -> String {
        match &self.difference {
            Some(difference) => difference.shorten(&self.name, width),
            None => names::shorten(&self.name, width),
        }
    }

    /// Whether a report may print its name as `text`.
    pub fn is_shown_as(&self, text: &str) -> bool {
        let (least, most) = (text.chars().count(), self.name.chars().count());
        self.is_called(text)
            || names::may_be_shortened_to(&self.name, text) && (least..most).any(|width| self.short_name(width) == text)
    }

    /// How often each thread of its team called it, at least once; `None` if that was not counted.
    pub fn rounds(&self) -> Option<f64> {
        let calls = self.work.as_ref()?.calls? as f64;
        Some((calls / f64::from(self.team.unwrap_or(1).max(1))).max(1.0))
    }
}

/// One thread's part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PerThread {
    /// Index into `run.threads`.
    pub thread: u32,
    /// CPU seconds at work.
    pub cpu_s: Option<f64>,
    /// FLOPs.
    pub flops: Option<u64>,
    /// Instructions.
    pub instructions: Option<u64>,
    /// DRAM bytes.
    #[serde(default)]
    pub dram_bytes: Option<u64>,
}

/// Bytes at each level, both directions, on the side towards the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bytes {
    pub l1: Option<u64>,
    pub l2: Option<u64>,
    pub l3: Option<u64>,
    pub dram: Option<u64>,
    pub dram_read: Option<u64>,
    pub dram_write: Option<u64>,
}

/// Misses in lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CacheMisses {
    pub l1: Option<u64>,
    pub l2: Option<u64>,
    pub l3: Option<u64>,
}

/// 3C classification of last-level misses, in lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Misses {
    pub compulsory: Option<u64>,
    pub capacity: Option<u64>,
    pub conflict: Option<u64>,
    #[serde(default)]
    pub coherence: Option<u64>,
    /// L1 misses that a fully associative L1 would not have.
    #[serde(default)]
    pub l1_conflict: Option<u64>,
    /// L2 misses that a fully associative L2 would not have.
    #[serde(default)]
    pub l2_conflict: Option<u64>,
}

/// Counts that the terms need.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Work {
    /// Executed arithmetic by (operation, precision, width).
    pub mix: Vec<MixEntry>,
    /// Executed instructions by class.
    pub classes: Vec<(InstructionClass, u64)>,
    /// Executed accesses by kind, width and register file.
    pub accesses: Vec<AccessEntry>,
    /// Issue slots: a macro-fused pair is 1, `nop` is 0.
    pub issue_slots: u64,
    /// Bytes of code that hold 99 % of its executed instructions.
    pub code_bytes: u64,
    /// Loop-carried dependency chains that were found.
    pub chains: Vec<Chain>,
    /// Traffic at full detail; `null` without a memory model.
    pub traffic: Option<Traffic>,
    /// Share of `instructions` in code with loops that were analysed for chains.
    pub chain_coverage: f64,
    /// How often all threads together called it; `null` for loops, and if the number is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
}

/// Executions of one kind of arithmetic instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixEntry {
    pub op: FpOp,
    pub precision: Precision,
    pub width: Width,
    /// Instructions executed.
    pub instructions: u64,
    /// FLOPs they did (active lanes).
    pub flops: u64,
}

/// Executions of one kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessEntry {
    pub kind: AccessKind,
    /// Bytes of one access with all lanes active.
    pub bytes: u32,
    /// Vector register data.
    pub vector: bool,
    /// How many.
    pub count: u64,
}

/// The critical loop-carried cycle of one loop, symbolically: latencies are looked up in the machine's ceilings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Chain {
    /// Offset of the loop header in the module.
    pub header: u64,
    /// Source line of the loop header.
    pub line: Option<u32>,
    /// The file of that line, if it is not the function's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Executions of the loop body, all threads.
    pub iterations: u64,
    /// Times the loop was entered from outside.
    pub entries: u64,
    /// Threads that shared the iterations.
    pub threads: u32,
    /// Candidate cycles: the term takes the one with the greatest Σ latency / distance.
    pub cycles: Vec<Cycle>,
    /// FP instructions in one iteration (for the overlap of restarted chains).
    pub fp_per_iteration: f64,
    /// Iterations after which the chain restarts; `null` if it runs through.
    pub restart_every: Option<f64>,
    /// Each iteration stores its value to a place of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
}

/// The figures that the model adds. Pure function of the facts and the machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Analysis {
    pub flop_rate: Option<f64>,
    /// `flop`, `int` or `byte`.
    pub axis: Option<String>,
    pub oi: Oi,
    pub simd_use: Option<f64>,
    pub fma_balance: Option<f64>,
    pub ilp: Option<f64>,
    pub fp_fraction: Option<f64>,
    pub load_balance: Option<f64>,
    /// Seconds by term name: `pipe chain issue access l1 l2 l3 dram latency`; `null` if not computable.
    pub terms: Terms,
    /// Ladder from low effort to high.
    pub ceilings: Vec<FunctionCeiling>,
    /// Id of the binding ceiling.
    pub binding: Option<String>,
    pub class: Option<Class>,
    /// How sure `class` is; `null` if that is `unknown` or `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Demo and truth kernels: the class it was built for.
    pub expected: Option<Class>,
    /// For `unknown`: the class of the largest term, which does not explain its time.
    pub nearest: Option<Class>,
    pub roof_fraction: Option<f64>,
    pub savings: Vec<Saving>,
    /// Further remarks: limits that no saving above removes, and alternatives to try.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// Operational intensity at each level, FLOPs (or the axis's operations) per byte.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Oi {
    pub l1: Option<f64>,
    pub l2: Option<f64>,
    pub l3: Option<f64>,
    pub dram: Option<f64>,
}

/// The terms, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Terms {
    pub pipe: Option<f64>,
    pub chain: Option<f64>,
    pub issue: Option<f64>,
    pub access: Option<f64>,
    pub l1: Option<f64>,
    pub l2: Option<f64>,
    pub l3: Option<f64>,
    pub dram: Option<f64>,
    pub latency: Option<f64>,
}

/// A ceiling as it holds for this function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionCeiling {
    /// `threads imbalance ilp simd fma mix divsqrt access peak l1 l2 l3 dram latency memory-imbalance`.
    pub id: String,
    /// `parallel core memory`.
    pub kind: String,
    /// The bound with this and all lower deficiencies removed, in the axis's operations per second.
    pub value: Option<f64>,
    /// The single-feature ceiling of A.3.
    pub value_alone: Option<f64>,
    /// Machine ceilings that it was made from.
    pub from: Vec<String>,
    /// A measured rate exceeded it by more than its error.
    pub refuted: bool,
}

/// The time that removing ceilings would save.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saving {
    /// The ceilings removed (one, or a pair if no single one gains 5 %).
    pub remove: Vec<String>,
    /// T − T_without.
    pub seconds: f64,
    /// time_s − T_without.
    pub seconds_max: f64,
    /// For the whole program.
    pub program_seconds: Option<f64>,
    /// Advice, with the evidence.
    pub advice: String,
}

impl Saving {
    /// The saving with none of its figures above `most` seconds.
    pub fn within(self, most: f64) -> Saving {
        Saving {
            seconds: self.seconds.min(most),
            seconds_max: self.seconds_max.min(most),
            program_seconds: self.program_seconds.map(|seconds| seconds.min(most)),
            ..self
        }
    }
}

/// Figures of one source line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LineFacts {
    pub file: Option<String>,
    pub line: u32,
    pub cpu_s: Option<f64>,
    pub instructions: Option<u64>,
    pub flops: Option<u64>,
    #[serde(default)]
    pub dram_bytes: Option<u64>,
}

/// Figures of one inlined function inside its host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InlineFacts {
    pub name: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub cpu_s: Option<f64>,
    pub instructions: Option<u64>,
    pub flops: Option<u64>,
}
