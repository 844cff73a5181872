//! Evidence of hardware counters in the timed pass: the counts of each event, by thread and time.

use serde::{Deserialize, Serialize};

use crate::run::Warning;
use rprof_isa::operation::{Precision, Width};

/// The result of the counters. Times are nanoseconds of CLOCK_MONOTONIC, like the mappings of the timed evidence.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CounterEvidence {
    /// All requested events, measured or not.
    pub events: Vec<CounterEvent>,
    /// Events that were on the PMU together, as indices into `events`; [`ThreadReading::values`] are in this order.
    pub groups: Vec<Vec<usize>>,
    /// Readings of each thread in order of time; empty if the kernel reports only the program's sums.
    pub readings: Vec<ThreadReading>,
    /// Counts of memory controllers and fabrics for the whole host during the pass.
    pub uncore: Vec<UncoreCount>,
    /// Doubts about these figures.
    pub warnings: Vec<Warning>,
}

impl CounterEvidence {
    /// Why the FLOP events do not cover the program's FLOPs: it executed, or may have executed, FLOPs that they leave out.
    pub fn flops_left_out(&self) -> Option<String> {
        fn weighted(event: &CounterEvent) -> Result<f64, &String> {
            event.total.as_ref().map(|t| t.value * event.weight)
        }
        let flops: f64 = self.events.iter().filter(|e| e.role == "flops").filter_map(|e| weighted(e).ok()).sum();
        self.events.iter().find_map(|event| {
            let LeftOut { reason, at_most } = event.betrays.as_ref()?;
            match weighted(event) {
                Err(why) => Some(format!("{reason}, and {} was not measured: {why}", event.name)),
                Ok(count) if count > at_most * flops => {
                    Some(format!("{reason}, and {} counted {count:.0}", event.name))
                }
                Ok(_) => None,
            }
        })
    }

    /// Takes every count away, for this reason.
    pub fn withdraw(&mut self, reason: &str) {
        self.groups.clear();
        self.readings.clear();
        self.events.iter_mut().for_each(|e| e.total = Err(reason.to_owned()));
        self.uncore.iter_mut().for_each(|u| u.bytes = Err(reason.to_owned()));
    }
}

/// A requested event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterEvent {
    /// Name in the event table.
    pub name: String,
    /// Its use: `flops`, `llc_miss`.
    pub role: String,
    /// PMU in the kernel's naming.
    pub pmu: String,
    /// Unit of a weighted count: `flop`, `instruction`, `line`, `cycle`.
    pub unit: String,
    /// The value of one count in that unit; divided by the correction factor if the trust check found one.
    pub weight: f64,
    /// The verdict of the trust check.
    pub trust: String,
    /// It passed the trust check, so that figures of functions may rest on it.
    pub certified: bool,
    /// FLOPs: the precision, if it counts one alone.
    pub precision: Option<Precision>,
    /// FLOPs: the width, if it counts one alone.
    pub width: Option<Width>,
    /// FLOPs: how they differ from those of docs/conventions.md, if they do (masked lanes, minima).
    pub caveat: Option<String>,
    /// Set if it detects FLOPs that the other events leave out.
    pub betrays: Option<LeftOut>,
    /// The program's sum over all threads and CPUs, or why there is none.
    pub total: Result<CounterTotal, String>,
}

/// FLOPs that the FLOP events do not count and that another event detects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Which, and why.
    pub reason: String,
    /// Counts of that event, relative to the FLOPs counted, that are negligible.
    pub at_most: f64,
}

/// A sum as the kernel counted it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CounterTotal {
    /// Counts, scaled to the whole time if the event shared the PMU, without the weight.
    pub value: f64,
    /// Counts as read.
    pub raw: u64,
    /// Time on the PMU / time enabled; 1: nothing was scaled.
    pub running_share: f64,
    /// Relative error of the scaling.
    pub error: f64,
}

/// A thread's counters at one moment: sums since the thread began, over all CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadReading {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// When.
    pub time_ns: u64,
    /// The user-space instruction at this moment; `None` at the thread's end.
    pub ip: Option<u64>,
    /// Index into [`CounterEvidence::groups`].
    pub group: u32,
    /// Nanoseconds in which the group was wanted.
    pub enabled_ns: u64,
    /// Nanoseconds in which it was on the PMU.
    pub running_ns: u64,
    /// Raw counts.
    pub values: Vec<u64>,
}

/// Counts of one uncore event, over all its boxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UncoreCount {
    /// Name in the event table.
    pub name: String,
    /// `dram_read_lines`, `dram_write_lines` or others.
    pub role: String,
    /// PMU family.
    pub pmu: String,
    /// The verdict of the trust check.
    pub trust: String,
    /// It passed the trust check.
    pub certified: bool,
    /// Reads and writes in one count.
    pub both_directions: bool,
    /// It counts another memory beside that of the other events, which this host has, too: the traffic is the sum of both.
    pub further: bool,
    /// The program's bytes, or why there are none.
    pub bytes: Result<UncoreBytes, String>,
}

/// Bytes at the memory controllers less the background measured before and after the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct UncoreBytes {
    /// Net bytes; negative if the background was more than the run.
    pub net: f64,
    /// Background bytes that were subtracted.
    pub background: f64,
    /// Absolute error in bytes.
    pub error: f64,
    /// Mean / greatest of the boxes: 1 is even; `None` with fewer than two.
    pub balance: Option<f64>,
    /// Boxes that counted.
    pub boxes: u32,
    /// Boxes that exist but count nothing or nonsense.
    pub phantom: Vec<String>,
}
