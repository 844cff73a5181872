//! What a function and all that it calls exchange with other ranks: the communication-aware roofline (Cardwell 2019, chapter 2).

use serde::{Deserialize, Serialize};

use super::vocabulary::Class;

/// A function with all below it, of all ranks together. Seconds are summed over ranks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Communication {
    /// The function.
    pub name: String,
    /// Its module.
    pub module: String,
    /// Whether calls of MPI stand in it, not only in functions that it calls.
    pub calls_mpi: bool,
    /// CPU seconds at work below it.
    pub work_s: Option<f64>,
    /// Seconds in calls of MPI below it.
    pub mpi_s: f64,
    /// Seconds of them in which another rank was not there yet.
    pub waiting_s: Option<f64>,
    /// Seconds that the network needs at least for these calls; `null` without ceilings of the network for them.
    pub network: Option<NetworkSeconds>,
    /// FLOPs below it.
    pub flops: Option<f64>,
    /// Bytes from and to memory below it.
    pub dram_bytes: Option<f64>,
    /// Bytes that its calls hand over.
    pub bytes: Option<f64>,
    /// FLOPs for each byte of memory.
    pub oi: Option<f64>,
    /// FLOPs for each byte that is handed over: communication arithmetic intensity.
    pub cai: Option<f64>,
    /// Least seconds of it: those that the ceilings of core and memory leave its work, and those that the network needs.
    pub bound_s: Option<f64>,
    /// `bound_s` by the seconds at work and in MPI.
    pub roof_fraction: Option<f64>,
    /// `network-bandwidth`, `network-latency`, `waiting-for-ranks`, or `unknown`; `null`: it works more than it communicates.
    pub class: Option<Class>,
}

/// Seconds that the network needs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct NetworkSeconds {
    /// For calls of no bytes, as many as there are.
    pub latency_s: f64,
    /// For their bytes.
    pub bandwidth_s: f64,
    /// Part of both that calls which return at once leave to work.
    pub overlappable_s: f64,
}

impl NetworkSeconds {
    /// All of them.
    pub fn seconds(&self) -> f64 {
        self.latency_s + self.bandwidth_s
    }

    /// Adds `factor` times others.
    pub fn add(&mut self, other: NetworkSeconds, factor: f64) {
        self.latency_s += factor * other.latency_s;
        self.bandwidth_s += factor * other.bandwidth_s;
        self.overlappable_s += factor * other.overlappable_s;
    }
}
