//! How thoroughly to measure, how long that may take, and how much repetitions may differ.

use std::time::Duration;

use crate::machine::kernels::x86_64::stream::Stream;
use crate::profile::clock;
use crate::profile::machine::ON_SMALL_PAGES;

/// How thoroughly to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// What a first run waits for: at most three seconds on two cores, and half a second for the parameters of the core.
    Quick,
    /// Everything: at most thirty seconds on two cores.
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

    /// Time after which further ceilings are left out. Those that are `essential` for the model may take longer on a busy
    /// host; a first run does not wait for them, a later one measures them. The parameters of the core have time of their own.
    pub(super) fn budget(self, essential: bool) -> Duration {
        match (self, essential) {
            (Effort::Quick, false) => Duration::from_millis(2500),
            (Effort::Quick, true) => Duration::from_millis(2700),
            (Effort::Full, false) => Duration::from_secs(28),
            (Effort::Full, true) => Duration::from_secs(60),
        }
    }

    /// Time for having the hypervisor move threads to cores of their own.
    pub fn apart_budget(self) -> Duration {
        match self {
            Effort::Quick => Duration::from_millis(500),
            Effort::Full => Duration::from_millis(4000),
        }
    }

    /// Time, from the start of the measurement on, until which what is in doubt is measured again.
    pub fn repeat_until(self) -> Duration {
        match self {
            Effort::Quick => Duration::from_millis(2750),
            Effort::Full => Duration::from_millis(28_000),
        }
    }

    /// What measuring again may take at least, and at most.
    pub fn repeat_range(self) -> (Duration, Duration) {
        match self {
            Effort::Quick => (Duration::ZERO, Duration::from_millis(250)),
            Effort::Full => (Duration::from_millis(500), Duration::from_millis(14_000)),
        }
    }
}

/// Whether the ceiling `id` is of a stream that prefetchers help, on small pages as the kernel hands them out. Luck is a part of it: some
/// buffers are of pages that lie together by chance. Stores past the caches alone are measured on such that do (`bandwidth.rs`).
pub fn is_of_given_pages(id: &str) -> bool {
    let past_caches = |kind: &str| kind == "write.nt";
    let is_stream = |kind: &str| {
        Stream::ALL.iter().any(|stream| kind.split('.').next() == Some(stream.name())) && !past_caches(kind)
    };
    let on_them = id.strip_prefix("dram.").and_then(|id| id.strip_suffix(ON_SMALL_PAGES));
    on_them.is_some_and(is_stream)
}

/// How much repetitions may differ before a ceiling counts as unsettled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steadiness {
    /// Registers: 3 %.
    Core,
    /// L1, L2: 3 %.
    Near,
    /// Mispredicted branches, a difference of two rates: 10 %.
    Cost,
    /// L3, DRAM and latencies beyond L2: 10 %.
    Shared,
}

impl Steadiness {
    /// Of the ceiling `id`.
    pub fn of(id: &str) -> Self {
        if !clock::follows(id) {
            return Steadiness::Shared;
        }
        let id = clock::of_all_cpus(id);
        if id == "mispredict" {
            return Steadiness::Cost;
        }
        let near = ["l1.", "l2.", "lat.l1", "lat.l2"];
        if near.iter().any(|prefix| id.starts_with(prefix)) { Steadiness::Near } else { Steadiness::Core }
    }

    /// The spread up to which a ceiling counts as settled.
    pub fn tolerance(self) -> f64 {
        match self {
            Steadiness::Core | Steadiness::Near => 0.03,
            Steadiness::Cost | Steadiness::Shared => 0.10,
        }
    }

    /// What moments of `rate` are compared by: what a core does by itself per cycle, the rest as it is.
    pub fn compared(self, rate: f64, clock_hz: f64) -> f64 {
        match self {
            Steadiness::Core | Steadiness::Near | Steadiness::Cost => rate / clock_hz,
            Steadiness::Shared => rate,
        }
    }

    /// How far apart the best of two moments may be for it to have come out again: of what a core does by itself, per cycle.
    pub fn state(self) -> f64 {
        match self {
            Steadiness::Core => 0.007,
            Steadiness::Near => 0.02,
            Steadiness::Cost | Steadiness::Shared => 0.05,
        }
    }
}
