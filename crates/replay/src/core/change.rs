//! Changes that a burst is replayed with.

use rprof_profile::account::{Changes, WhatIf};

/// Differences from the core as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Change {
    pub perfect_prediction: bool,
    pub independent_iterations: bool,
    pub all_lanes: bool,
    pub hits_l1: bool,
    pub hits_l2: bool,
    pub unit_stride: bool,
    pub fused: bool,
    pub no_tlb: bool,
    pub no_forwarding: bool,
    pub perfect_front_end: bool,
    pub no_divider: bool,
    pub branchless: bool,
    pub no_conflicts: bool,
    pub prefetched: bool,
}

impl Change {
    /// With all of `changes`.
    pub(super) fn of(changes: Option<Changes>) -> Change {
        let mut change = Change::default();
        for one in changes.into_iter().flat_map(Changes::iter) {
            *change.flag(one) = true;
        }
        change
    }

    fn flag(&mut self, change: WhatIf) -> &mut bool {
        match change {
            WhatIf::PerfectPrediction => &mut self.perfect_prediction,
            WhatIf::IndependentIterations => &mut self.independent_iterations,
            WhatIf::AllLanes => &mut self.all_lanes,
            WhatIf::HitsInL1 => &mut self.hits_l1,
            WhatIf::HitsInL2 => &mut self.hits_l2,
            WhatIf::UnitStride => &mut self.unit_stride,
            WhatIf::Fused => &mut self.fused,
            WhatIf::NoTlbMisses => &mut self.no_tlb,
            WhatIf::NoForwarding => &mut self.no_forwarding,
            WhatIf::PerfectFrontEnd => &mut self.perfect_front_end,
            WhatIf::NoDivider => &mut self.no_divider,
            WhatIf::Branchless => &mut self.branchless,
            WhatIf::NoConflicts => &mut self.no_conflicts,
            WhatIf::Prefetched => &mut self.prefetched,
        }
    }
}
