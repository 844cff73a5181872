//! Whether rprof polls the mailboxes, for how long, and on which CPU.

use crate::instrument::fair_wait::FairWait;
use crate::instrument::translator::tracer::spin_budget::SpinBudget;
use crate::tracee::affinity::CpuPin;

/// The state of polling.
pub(crate) struct Polling {
    /// rprof reads the mailboxes.
    pub is_on: bool,
    /// How long polling continues without a request.
    pub patience: SpinBudget,
    /// The thread to look at next.
    pub turns: FairWait,
    /// The CPU that rprof polls on: not the one of a thread that waits for it.
    pub pin: CpuPin,
}

impl Polling {
    /// Not begun yet.
    pub fn new(pin: CpuPin) -> Self {
        Polling { is_on: false, patience: SpinBudget::default(), turns: FairWait::default(), pin }
    }
}
