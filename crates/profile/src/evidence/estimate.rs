//! How far counts that were extended from windows can be trusted.

use serde::{Deserialize, Serialize};

/// Counts that represent the whole run were made in windows of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// The functions that windows met.
    pub functions: Vec<FunctionEstimate>,
    /// Seconds by which the windows have delayed the program.
    pub delay_s: f64,
}

/// A function that windows met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionEstimate {
    /// Its module among those of both passes together.
    pub module: u32,
    /// Its first address.
    pub start: u64,
    /// How well its counts are known.
    pub interval: Interval,
    /// The same of figures that need not go with its instructions.
    pub figures: Figures,
    /// The same of its loops, without their inner loops.
    pub loops: Vec<LoopEstimate>,
}

/// The half-widths of the 95 % intervals of figures, relative; `None`: too few windows met their part of the function.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Of FLOPs.
    pub flops: Option<f64>,
    /// Of bytes of loads and stores.
    pub l1_bytes: Option<f64>,
}

/// A loop that windows met.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoopEstimate {
    /// Its first address, in the module of its function.
    pub header: u64,
    /// How well its counts are known.
    pub interval: Interval,
}

/// How well counts that were extended from windows are known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Interval {
    /// The half-width of the 95 % interval, relative.
    Within(f64),
    /// Its native time is not known: no sample outside of windows fell in it.
    NoSample,
    /// This share of its time is in code that no window met.
    Unmet(f64),
    /// There are too few windows to say how much they differ.
    FewWindows,
}
