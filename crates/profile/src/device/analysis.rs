//! The model's results for kernels and for the program's use of GPUs; recomputed from the facts.

use crate::vocabulary::Class;
use serde::{Deserialize, Serialize};

/// Time of the program that something beside the kernels costs on a GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Finding {
    /// `gpu-copy gpu-idle gpu-launch`.
    pub cause: String,
    /// Device number.
    pub device: u32,
    /// Seconds that can be saved, at most.
    pub seconds: f64,
    /// The advice with its evidence: one sentence.
    pub advice: String,
}

/// The model's results for a kernel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    /// The class: `gpu-dram-bandwidth gpu-l2-bandwidth gpu-l1-bandwidth gpu-shared-bandwidth gpu-fp64 gpu-fp32 gpu-fp16 gpu-tensor gpu-issue
    /// gpu-latency gpu-launch unknown`.
    pub class: Class,
    /// Id of the ceiling that takes most of the time; `None` without terms.
    pub binding: Option<String>,
    /// Seconds that each ceiling alone would take for the counted work, scaled to all launches, descending.
    pub terms: Vec<Term>,
    /// Share of the time that the binding term explains, 0 to 1; above 1 a ceiling was too low, by less than its error.
    pub roof_fraction: Option<f64>,
    /// FLOPs of all launches per second, tensor cores included; `None` without counts.
    pub flops_per_s: Option<f64>,
    /// Bytes of DRAM per second; `None` without counts.
    pub bytes_per_s: Option<f64>,
    /// FLOPs per byte of DRAM.
    pub intensity: Option<f64>,
    /// The least time as one obstacle after the other is gone, descending; empty without counts.
    pub ladder: Vec<Rung>,
    /// Advice: on the class first.
    pub advice: Vec<Advice>,
    /// The class that a known kernel was built for (`rprof demo --gpu`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Class>,
}

/// A rung of the ladder.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rung {
    /// The loss that this rung removes, beside those of the rungs before: `tail` or a class.
    pub without: String,
    /// Least seconds of all launches then.
    pub seconds: f64,
}

/// The time that one ceiling takes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Term {
    /// Id of the ceiling. `gpu.issue` is derived: one warp instruction a clock for each of four schedulers of a multiprocessor.
    pub ceiling: String,
    /// Seconds.
    pub seconds: f64,
    /// The kernel was faster than that by more than the ceiling's error: the term is left out.
    pub refuted: bool,
}

/// Advice on one cause.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Advice {
    /// The cause: the class, `tail` for the last wave of blocks, `local-memory` for spilled registers.
    pub cause: String,
    /// Seconds of the GPU that are saved at most without it; `None` if that is not known.
    pub seconds: Option<f64>,
    /// One sentence with its evidence.
    pub text: String,
}
