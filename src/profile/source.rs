//! Where the figures of a function come from.

use serde::{Deserialize, Serialize};

/// Where a figure comes from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Source {
    /// `sampled`, `counted`, `simulated`, `pmu`, `not measured`.
    pub how: String,
    /// Relative error, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Why it is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
