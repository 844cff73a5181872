//! How far ahead the addresses of a function's misses are known: the lines that hardware or software could fetch ahead.

use serde::{Deserialize, Serialize};

/// Lines that a function missed in L2, by how their addresses come about. The rest of `lines` is not known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Prefetch {
    /// All of them.
    pub lines: f64,
    /// Next to another miss, or as far from the instruction's last access as that was from the one before: a stride foresees them.
    pub foreseen: f64,
    /// The address comes from an index that is loaded ahead, or from arithmetic alone: software can prefetch them.
    pub computable: f64,
    /// The address depends on the value that the access before brought (lists, trees, searches): nothing can.
    pub chased: f64,
}

impl Prefetch {
    /// Of two parts.
    pub fn plus(self, other: Prefetch) -> Prefetch {
        Prefetch {
            lines: self.lines + other.lines,
            foreseen: self.foreseen + other.foreseen,
            computable: self.computable + other.computable,
            chased: self.chased + other.chased,
        }
    }

    /// Share of the lines which no stride foresees that software can prefetch; `None` if a stride foresees all.
    pub fn potential(&self) -> Option<f64> {
        let irregular = self.lines - self.foreseen;
        (irregular > 0.0).then(|| (self.computable / irregular).min(1.0))
    }
}

/// Whether memory lay on the node of the cores that used it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Affinity {
    /// NUMA nodes of the host.
    pub nodes: u32,
    /// Share of the traffic with memory that went to another node than the core's.
    pub remote_share: Option<f64>,
    /// Why `remote_share` is `null`.
    pub reason: Option<String>,
}
