//! GPUs of the host, with their ceilings.

use serde::{Deserialize, Serialize};

use super::ceiling::Ceiling;
use super::sweep::Sweep;

/// A GPU and what it can reach. Its ceilings' ids begin with `gpu.`; their `device` is `gpu0`, `gpu1`, … and their `threads` 0.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gpu {
    /// Its number as the driver counts.
    pub index: u32,
    /// Its name as the driver gives it.
    pub name: String,
    /// Compute capability, for instance (9, 0).
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Highest clock of these, in hertz.
    pub clock_hz: f64,
    /// Bytes of its L2 cache.
    pub l2_bytes: u64,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Bytes per second that its memory bus could carry by clock and width.
    pub bus_bytes_per_s: Option<f64>,
    /// Most threads that reside on a multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_per_multiprocessor: u32,
    /// Version of the driver's API, for instance 13000.
    pub driver: u32,
    /// Ceilings, measured on this GPU.
    pub ceilings: Vec<Ceiling>,
    /// Curves.
    pub sweeps: Vec<Sweep>,
}

impl Gpu {
    /// The value of ceiling `id`, if it was measured.
    pub fn value(&self, id: &str) -> Option<f64> {
        self.ceilings.iter().find(|c| c.id == id).and_then(|c| c.value)
    }

    /// Curve `id`, if it was measured.
    pub fn sweep(&self, id: &str) -> Option<&Sweep> {
        self.sweeps.iter().find(|sweep| sweep.id == id)
    }
}
