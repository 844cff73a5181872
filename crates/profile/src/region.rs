//! Regions that the program marks, and work in units that it names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::marks::Api;
use super::function::{Bytes, Source};

/// The interface that marks a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Marker {
    /// The whole program, whatever it marks.
    Program,
    /// `include/rprof.h`.
    Rprof,
    /// LIKWID's marker functions.
    Likwid,
    /// Tasks of Intel's ITT.
    Itt,
    /// Ranges of NVIDIA's NVTX.
    Nvtx,
}

impl From<Api> for Marker {
    fn from(api: Api) -> Marker {
        match api {
            Api::Rprof => Marker::Rprof,
            Api::Likwid => Marker::Likwid,
            Api::Itt => Marker::Itt,
            Api::Nvtx => Marker::Nvtx,
        }
    }
}

impl Marker {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Marker::Program => "program",
            Marker::Rprof => "rprof",
            Marker::Likwid => "likwid",
            Marker::Itt => "itt",
            Marker::Nvtx => "nvtx",
        }
    }
}

/// A region, all that it calls and all regions in it included; or the whole program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// The interface that marks it.
    pub marker: Marker,
    /// The source of each figure, by field name.
    pub source: BTreeMap<String, Source>,
    /// How often it was begun, all threads.
    pub entries: Option<u64>,
    /// Elapsed seconds in which at least one thread was in it.
    pub time_s: Option<f64>,
    /// CPU seconds of threads in it, the kernel's and waiting included.
    pub cpu_s: Option<f64>,
    /// Samples that `cpu_s` is made of.
    pub samples: Option<u64>,
    /// Instructions as executed.
    pub instructions: Option<u64>,
    /// FLOPs.
    pub flops: Option<u64>,
    /// Bytes at each level, towards the core.
    pub bytes: Option<Bytes>,
    /// The functions executed in it, by descending CPU time and instructions.
    pub functions: Vec<RegionPart>,
    /// Work that was done in it.
    pub work: Vec<Work>,
}

/// A function's part of a region.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RegionPart {
    /// The function.
    pub name: String,
    /// CPU seconds, the kernel's and waiting included.
    pub cpu_s: Option<f64>,
    /// Instructions.
    pub instructions: Option<u64>,
    /// FLOPs.
    pub flops: Option<u64>,
}

/// Work in units that the program names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Such as `particle`.
    pub unit: String,
    /// How many.
    pub amount: f64,
}

impl Region {
    /// Units a second of the region's elapsed time.
    pub fn rate(&self, work: &Work) -> Option<f64> {
        self.time_s.filter(|s| *s > 0.0).map(|s| work.amount / s)
    }

    /// Units for each byte exchanged with memory.
    pub fn per_byte(&self, work: &Work) -> Option<f64> {
        let bytes = self.bytes.and_then(|b| b.dram).filter(|b| *b > 0)?;
        Some(work.amount / bytes as f64)
    }

    /// FLOPs a second of the region's elapsed time.
    pub fn flop_rate(&self) -> Option<f64> {
        self.time_s.filter(|s| *s > 0.0).zip(self.flops).map(|(s, flops)| flops as f64 / s)
    }
}
