//! Changes to replay bursts with, and their outcomes.

use std::collections::BTreeMap;

use rprof_profile::account::{Cause, Changes, WhatIf};

use super::core::Outcome;

/// A change is worth replaying if its causes take this share of the cycles.
pub(super) const WORTH: f64 = 0.05;

/// Outcomes by number of the burst and changes.
pub(super) type Outcomes = BTreeMap<(usize, Option<Changes>), Outcome>;

/// Causes that a change can remove.
pub(super) fn causes(change: WhatIf) -> &'static [Cause] {
    use Cause::*;
    match change {
        WhatIf::PerfectPrediction => &[Mispredict],
        WhatIf::IndependentIterations => &[Chain, Forwarding],
        WhatIf::AllLanes => &[Ports, Chain, Base],
        WhatIf::HitsInL1 => &[L2, L3, DramLatency, DramBandwidth],
        WhatIf::HitsInL2 => &[L3, DramLatency, DramBandwidth],
        WhatIf::UnitStride => &[L2, L3, DramLatency],
        WhatIf::Fused => &[Ports, Chain, Base],
        WhatIf::NoTlbMisses => &[Tlb],
        WhatIf::NoForwarding => &[Forwarding],
        WhatIf::PerfectFrontEnd => &[FrontEnd],
        WhatIf::NoDivider => &[Ports],
        WhatIf::Branchless => &[Mispredict],
        WhatIf::NoConflicts => &[L2, L3, DramLatency],
        WhatIf::Prefetched => &[L3, DramLatency],
    }
}
