//! How far counts that were extended from windows can be trusted.

use serde::{Deserialize, Serialize};

/// Counts that stand for the whole run were made in windows of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// The functions that windows met.
    pub functions: Vec<FunctionEstimate>,
}

/// A function that windows met.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FunctionEstimate {
    /// Its module among those of both passes together.
    pub module: u32,
    /// Where it begins.
    pub start: u64,
    /// Half-width of the 95 % interval of its counts, relative; `None`: too few windows tell.
    pub error: Option<f64>,
}
