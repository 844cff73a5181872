//! Evidence of marker calls: the regions that a program marks, and the work that it says it did.
//!
//! A *path* is the list of regions that a thread is in at the same time, in the order in which it entered them; path 0 is
//! outside of all. Each fact belongs to one path, so that the sum over the paths that hold a region is that region's, inner
//! regions included.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::blocks::BlockCount;
use crate::run::Warning;

/// The marker interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `include/rprof.h`.
    Rprof,
    /// LIKWID's marker functions.
    Likwid,
    /// Tasks of Intel's ITT.
    Itt,
    /// Ranges of NVIDIA's NVTX.
    Nvtx,
}

/// A region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkedRegion {
    /// Its name.
    pub name: String,
    /// The interface of the marker that began it.
    pub api: Api,
    /// How often it was begun, all threads.
    pub entries: u64,
}

/// Work in units that the program names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkedWork {
    /// Index into [`Marked::paths`].
    pub path: u32,
    /// Such as `particle`.
    pub unit: String,
    /// How many of them.
    pub amount: f64,
}

/// The marker calls of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Marked {
    /// Regions by their first beginning.
    pub regions: Vec<MarkedRegion>,
    /// Indices into `regions`, the outermost first; the first path is empty.
    pub paths: Vec<Vec<u32>>,
    /// By path and unit.
    pub work: Vec<MarkedWork>,
    /// Doubts about them.
    pub warnings: Vec<Warning>,
}

impl Marked {
    /// Whether no marker was called.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty() && self.work.is_empty() && self.warnings.is_empty()
    }

    /// For each path whether it holds `region`.
    pub fn holding(&self, region: u32) -> Vec<bool> {
        self.paths.iter().map(|path| path.contains(&region)).collect()
    }
}

/// Markers as the timed pass saw them; the samples' paths are in them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TimedMarks {
    /// The calls.
    pub marked: Marked,
    /// Seconds in which at least one thread was in a region, for each of `marked.regions`.
    pub seconds: Vec<f64>,
    /// Interfaces with calls that rprof did not see, and why.
    pub refused: BTreeMap<Api, String>,
}

/// Markers as the counted pass saw them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CountedMarks {
    /// The calls.
    pub marked: Marked,
    /// Blocks that were executed in regions, by path in place of the thread.
    pub blocks: Vec<BlockCount>,
    /// Why `blocks` is incomplete, if it is.
    pub withheld: Option<String>,
}
