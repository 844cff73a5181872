//! How thoroughly to measure, and how long that may take.

use std::time::Duration;

/// How thoroughly to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// The effort that a first run waits for: at most three seconds.
    Quick,
    /// Everything: at most thirty seconds.
    Full,
}

impl Effort {
    /// The name used in the cache and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Full => "full",
        }
    }

    /// Time after which nothing begins.
    pub(super) fn budget(self) -> Duration {
        match self {
            Effort::Quick => Duration::from_millis(2450),
            Effort::Full => Duration::from_secs(29),
        }
    }

    /// The time budget for the ceilings that the model cannot do without, on a busy host. A first run does not wait for it: a later one
    /// measures them.
    pub(super) fn overrun(self) -> Duration {
        match self {
            Effort::Quick => Duration::from_millis(2550),
            Effort::Full => Duration::from_secs(60),
        }
    }

    /// Time for having the hypervisor move threads to cores of their own.
    pub fn apart_budget(self) -> Duration {
        match self {
            Effort::Quick => Duration::from_millis(300),
            Effort::Full => Duration::from_millis(1500),
        }
    }
}
