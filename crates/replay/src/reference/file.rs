//! The file of a core.

use std::collections::BTreeMap;

use rprof_profile::machine::Cache;
use serde::Deserialize;

/// The whole of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: String,
    pub vector_bits: u32,
    #[serde(rename = "cache")]
    pub caches: Vec<Cache>,
    /// Cycles by the id of their ceiling.
    pub cycles: BTreeMap<String, f64>,
    /// Events in a cycle.
    pub rates: BTreeMap<String, f64>,
    /// Numbers, and sets of ports.
    pub entries: BTreeMap<String, f64>,
    pub cpuid: Cpuid,
}

/// What `cpuid` answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cpuid {
    pub host: Vec<u32>,
    pub features: BTreeMap<String, Bit>,
    #[serde(rename = "leaf")]
    pub leaves: Vec<Leaf>,
}

/// A feature of a processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// As Linux names it.
    pub name: String,
    pub(super) bit: Bit,
}

/// The bit that tells of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bit {
    pub leaf: u32,
    pub subleaf: u32,
    pub register: Register,
    pub bit: u8,
}

impl Feature {
    /// The leaf and subleaf that tell of it.
    pub fn place(&self) -> (u32, u32) {
        (self.bit.leaf, self.bit.subleaf)
    }

    /// The number of its register: eax, ebx, ecx, edx.
    pub fn register(&self) -> usize {
        self.bit.register as usize
    }

    /// Its bit in that register.
    pub fn mask(&self) -> u32 {
        1 << self.bit.bit
    }
}

/// A register that `cpuid` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Register {
    Eax,
    Ebx,
    Ecx,
    Edx,
}

/// What a leaf answers beside features.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaf {
    /// `eax` before.
    pub leaf: u32,
    /// `ecx` before.
    #[serde(default)]
    pub subleaf: u32,
    /// eax, ebx, ecx, edx behind it.
    pub registers: [u32; 4],
}
