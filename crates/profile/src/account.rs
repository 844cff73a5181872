//! The account of a function's time (docs/conventions.md, Account): seconds by cause from replayed bursts.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The cause of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Dispatch and retirement at full width.
    Base,
    /// Execution ports, dividers included.
    Ports,
    /// Latency of dependent operations in registers and of loads that hit L1.
    Chain,
    /// Refilling after a branch that was predicted wrongly, and resolving it.
    Mispredict,
    /// Instructions that did not arrive: taken branches, op cache, instruction cache.
    FrontEnd,
    /// Loads that waited for a store to the same address.
    Forwarding,
    /// Bandwidth of L1: load and store ports.
    L1,
    /// Latency of L2 hits.
    L2,
    /// Latency of L3 hits.
    L3,
    /// Latency of memory.
    DramLatency,
    /// Bandwidth of memory.
    DramBandwidth,
    /// Translation of addresses.
    Tlb,
}

impl Cause {
    /// All of them, in the order in which arrays by cause are kept.
    pub const ALL: [Cause; 12] = [
        Cause::Base,
        Cause::Ports,
        Cause::Chain,
        Cause::Mispredict,
        Cause::FrontEnd,
        Cause::Forwarding,
        Cause::L1,
        Cause::L2,
        Cause::L3,
        Cause::DramLatency,
        Cause::DramBandwidth,
        Cause::Tlb,
    ];

    /// The name in `account.parts`.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Base => "base",
            Cause::Ports => "ports",
            Cause::Chain => "chain",
            Cause::Mispredict => "mispredict",
            Cause::FrontEnd => "front-end",
            Cause::Forwarding => "forwarding",
            Cause::L1 => "l1",
            Cause::L2 => "l2",
            Cause::L3 => "l3",
            Cause::DramLatency => "dram-latency",
            Cause::DramBandwidth => "dram-bandwidth",
            Cause::Tlb => "tlb",
        }
    }
}

/// A hypothetical change that the core model replays bursts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WhatIf {
    /// Every branch is predicted.
    PerfectPrediction,
    /// Values that a loop's iterations hand on in registers or memory are ready at once.
    IndependentIterations,
    /// Scalar and narrow arithmetic of loops is done in the widest useful vectors.
    AllLanes,
    /// Every access hits L1.
    HitsInL1,
    /// Every access that L1 misses hits L2.
    HitsInL2,
    /// Every access is to the next line of a stream that prefetchers foresee.
    UnitStride,
    /// Multiplies and adds that follow one another are fused.
    Fused,
    /// No address translation misses.
    NoTlbMisses,
    /// Loads do not wait for stores to the same address.
    NoForwarding,
    /// Instructions are always there.
    PerfectFrontEnd,
    /// Divisions and square roots take as long as multiplications.
    NoDivider,
    /// Short code that mispredicted branches jump over is always executed and its results chosen by the condition.
    Branchless,
    /// No cache has conflict misses: each hits wherever a fully associative cache of its size would.
    NoConflicts,
    /// Prefetches request lines from beyond L2 long before their use, at the rate at which they can come.
    Prefetched,
}

impl WhatIf {
    /// All of them, in the order in which arrays by change are kept.
    pub const ALL: [WhatIf; 14] = [
        WhatIf::PerfectPrediction,
        WhatIf::IndependentIterations,
        WhatIf::AllLanes,
        WhatIf::HitsInL1,
        WhatIf::HitsInL2,
        WhatIf::UnitStride,
        WhatIf::Fused,
        WhatIf::NoTlbMisses,
        WhatIf::NoForwarding,
        WhatIf::PerfectFrontEnd,
        WhatIf::NoDivider,
        WhatIf::Branchless,
        WhatIf::NoConflicts,
        WhatIf::Prefetched,
    ];

    /// Its name in `profile.json`.
    pub fn name(self) -> &'static str {
        match self {
            WhatIf::PerfectPrediction => "perfect-prediction",
            WhatIf::IndependentIterations => "independent-iterations",
            WhatIf::AllLanes => "all-lanes",
            WhatIf::HitsInL1 => "hits-in-l1",
            WhatIf::HitsInL2 => "hits-in-l2",
            WhatIf::UnitStride => "unit-stride",
            WhatIf::Fused => "fused",
            WhatIf::NoTlbMisses => "no-tlb-misses",
            WhatIf::NoForwarding => "no-forwarding",
            WhatIf::PerfectFrontEnd => "perfect-front-end",
            WhatIf::NoDivider => "no-divider",
            WhatIf::Branchless => "branchless",
            WhatIf::NoConflicts => "no-conflicts",
            WhatIf::Prefetched => "prefetched",
        }
    }
}

/// One change, or two at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Changes {
    pub first: WhatIf,
    /// Comes behind `first` in [`WhatIf::ALL`].
    pub second: Option<WhatIf>,
}

impl From<WhatIf> for Changes {
    fn from(first: WhatIf) -> Changes {
        Changes { first, second: None }
    }
}

impl Changes {
    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = WhatIf> {
        std::iter::once(self.first).chain(self.second)
    }
}

/// `perfect-prediction`, `perfect-prediction+hits-in-l1`
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.first.name())?;
        self.second.map_or(Ok(()), |second| write!(f, "+{}", second.name()))
    }
}

impl FromStr for Changes {
    type Err = String;

    fn from_str(text: &str) -> Result<Changes, String> {
        let of = |name: &str| {
            let found = WhatIf::ALL.into_iter().find(|change| change.name() == name);
            found.ok_or_else(|| format!("unknown change {name:?}"))
        };
        match text.split_once('+') {
            None => Ok(of(text)?.into()),
            Some((first, second)) => Ok(Changes { first: of(first)?, second: Some(of(second)?) }),
        }
    }
}

impl Serialize for Changes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Changes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Changes, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Where the time of a function on a CPU in user mode goes, summed over threads, as the core model replays it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Account {
    /// Seconds that the model gives all of its counted instructions.
    pub model_s: f64,
    /// Relative standard error of `model_s` from the scatter of the bursts; `null` with fewer than two bursts.
    pub error: Option<f64>,
    /// Seconds by cause; they add up to `model_s`.
    pub parts: BTreeMap<Cause, f64>,
    /// Bursts that contain it.
    pub bursts: u32,
    /// Its instructions in these bursts.
    pub instructions: u64,
    /// Seconds that remain of `model_s` with a change, or with two at once; only for changes that were replayed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub what_if_s: BTreeMap<Changes, f64>,
    /// Its branches that cost most, most expensive first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<HotBranch>,
}

impl Account {
    /// The sum of two runs of the same function. A change replayed for only one of them saves nothing of the other.
    pub fn plus(self, other: Account) -> Account {
        let variance = |a: &Account| a.error.map(|error| (error * a.model_s).powi(2));
        let model_s = self.model_s + other.model_s;
        let error = variance(&self).zip(variance(&other)).map(|(a, b)| (a + b).sqrt() / model_s);
        let left = |a: &Account, change: &Changes| a.what_if_s.get(change).copied().unwrap_or(a.model_s);
        let changes = self.what_if_s.keys().chain(other.what_if_s.keys());
        let what_if_s = changes.map(|c| (*c, left(&self, c) + left(&other, c))).collect();
        let mut parts = self.parts;
        other.parts.iter().for_each(|(cause, seconds)| *parts.entry(*cause).or_default() += seconds);
        let mut branches = self.branches;
        branches.extend(other.branches);
        branches.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let (bursts, instructions) = (self.bursts + other.bursts, self.instructions + other.instructions);
        Account { model_s, error, parts, bursts, instructions, what_if_s, branches }
    }

    /// Seconds of `cause`.
    pub fn part(&self, cause: Cause) -> f64 {
        self.parts.get(&cause).copied().unwrap_or(0.0)
    }
}

/// A branch that is predicted wrongly now and then.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HotBranch {
    /// Offset in the module.
    pub offset: u64,
    /// Source file and line, if known.
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Share of its executions that were predicted wrongly.
    pub mispredicted: f64,
    /// Seconds that this cost.
    pub seconds: f64,
}
