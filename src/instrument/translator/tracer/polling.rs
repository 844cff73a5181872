//! Whether rprof polls the mailboxes, for how long, and on which CPU.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::instrument::fair_wait::FairWait;
use crate::instrument::translator::tracer::spin_budget::SpinBudget;
use crate::tracee::affinity::{CpuPin, current_cpu};
use crate::tracee::proc_status::read_last_cpu;

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
    /// Time that went into answers to threads that waited for them.
    pub waited: Duration,
}

impl Polling {
    /// Not begun yet.
    pub fn new(pin: CpuPin) -> Self {
        Polling {
            is_on: false,
            patience: SpinBudget::default(),
            turns: FairWait::default(),
            pin,
            waited: Duration::ZERO,
        }
    }

    /// A thread had to stop for an answer. If it waited in vain because rprof shares its CPU, rprof moves to another one.
    pub fn was_impatient(&mut self, tid: Pid) {
        if self.is_on
            && let Some(cpu) = read_last_cpu(tid).filter(|&cpu| current_cpu() == Some(cpu))
        {
            self.pin.leave(cpu);
        }
        self.patience.missed(Instant::now());
    }
}
