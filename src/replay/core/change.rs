//! Changes that a burst is replayed with.

use crate::profile::account::WhatIf;

/// What is different from the core as it is.
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
}

impl Change {
    pub(super) fn of(change: Option<WhatIf>) -> Change {
        let none = Change::default();
        match change {
            None => none,
            Some(WhatIf::PerfectPrediction) => Change { perfect_prediction: true, ..none },
            Some(WhatIf::IndependentIterations) => Change { independent_iterations: true, ..none },
            Some(WhatIf::AllLanes) => Change { all_lanes: true, ..none },
            Some(WhatIf::HitsInL1) => Change { hits_l1: true, ..none },
            Some(WhatIf::HitsInL2) => Change { hits_l2: true, ..none },
            Some(WhatIf::UnitStride) => Change { unit_stride: true, ..none },
            Some(WhatIf::Fused) => Change { fused: true, ..none },
            Some(WhatIf::NoTlbMisses) => Change { no_tlb: true, ..none },
            Some(WhatIf::NoForwarding) => Change { no_forwarding: true, ..none },
            Some(WhatIf::PerfectFrontEnd) => Change { perfect_front_end: true, ..none },
            Some(WhatIf::NoDivider) => Change { no_divider: true, ..none },
        }
    }
}
