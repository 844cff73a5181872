//! Whether rprof polls the mailboxes, for how long, and on which CPU.

use crate::instrument::fair_wait::FairWait;
use crate::instrument::translator::tracer::spin_budget::Patience;
use crate::tracee::affinity::Seat;

/// The state of polling.
pub(crate) struct Polling {
    /// rprof reads the mailboxes.
    pub is_on: bool,
    /// How long polling continues without a request.
    pub patience: Patience,
    /// The thread to look at next.
    pub turns: FairWait,
    /// The CPU that rprof polls on: not the one of a thread that waits for it.
    pub seat: Seat,
}

impl Polling {
    /// Not begun yet.
    pub fn new(seat: Seat) -> Self {
        Polling { is_on: false, patience: Patience::default(), turns: FairWait::default(), seat }
    }
}
