//! Hardware counters in a profile: beside the counted figures, never in their place.

use serde::{Deserialize, Serialize};

use super::source::Source;

/// The count of one event, of the program or of a function.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counter {
    /// Name in the event table; `flops` is the sum of the events that make the FLOPs.
    pub event: String,
    /// Its use: `flops`, `llc_miss`.
    pub role: String,
    /// Unit of `value`: `flop`, `instruction`, `line`, `cycle`, `byte`.
    pub unit: String,
    /// The count times its weight; `null` if `source` says why.
    pub value: Option<f64>,
    /// `pmu`; `pmu, scaled` (it shared the PMU); `pmu, split by time` (of a function: only the program's sum is known);
    /// `uncore, …`; `not measured`.
    pub source: Source,
    /// The same figure from the counted pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<f64>,
    /// `value / counted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Program only: PMU in the kernel's naming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmu: Option<String>,
    /// Program only: counts as read, neither weighted nor scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<u64>,
    /// Program only: time on the PMU / time enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_share: Option<f64>,
    /// Program only: the verdict of the trust check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// Program only: it passed the trust check.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub certified: bool,
    /// Program only: share of `value` that is in no function, because its thread ended before it was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed: Option<f64>,
    /// Program only: memory controllers: bytes of the host's background that were subtracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<f64>,
    /// Program only: memory controllers: mean / greatest of the boxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<f64>,
    /// Program only: by thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_thread: Vec<ThreadCount>,
}

/// One thread's part of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ThreadCount {
    /// Index into `run.threads`.
    pub thread: u32,
    /// In the counter's unit.
    pub value: f64,
}
