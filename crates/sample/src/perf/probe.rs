//! Whether the cycle counter makes samples here. Virtual machines exist that offer the event and never interrupt.

use std::time::{Duration, Instant};

use perf_event::events::Hardware;
use perf_event::{Builder, SampleFlag};

use super::sampled::SampledEvent;

/// How long to compute while waiting for a sample.
const PATIENCE: Duration = Duration::from_millis(20);

/// Samples this thread for a moment; true as soon as a sample arrives.
pub(super) fn cycles_interrupt() -> bool {
    let mut builder = Builder::new(Hardware::CPU_CYCLES);
    builder.observe_self().any_cpu().exclude_kernel(true).sample_period(100_000).sample(SampleFlag::IP);
    let Ok(mut sampler) = builder.build().and_then(|counter| SampledEvent::new(counter, 1 << 14)) else { return false };
    if sampler.enable().is_err() {
        return false;
    }
    let deadline = Instant::now() + PATIENCE;
    let mut seen = false;
    while !seen && Instant::now() < deadline {
        (0..10_000u64).for_each(|i| {
            std::hint::black_box(i);
        });
        seen = sampler.discard();
    }
    seen
}
