//! Lines that the kernel had just zeroed when the program first touched them: they came from the cache in which the kernel wrote
//! them, not from memory.
//!
//! ```text
//! share = min(lines never met before, page faults · 64) / lines from memory         page faults = kernel_s / pagefault
//! ```

use rprof_profile::evidence::memory::Traffic;

use super::super::host::Trace;
use super::Subject;

const PAGE_LINES: f64 = 64.0;

/// The traffic without the fills of such lines; writes to them reach memory sooner or later.
pub fn without(subject: &Subject<'_>, mut t: Traffic) -> Traffic {
    let left = 1.0 - share(subject);
    t.dram_read *= left;
    t.dram_fill *= left;
    t.dram_overwritten *= left;
    t.dram_used_again *= left;
    t
}

/// Share of the lines from memory of the function of `subject` that page faults zeroed; 0 if the cost of one is not known.
fn share(subject: &Subject<'_>) -> f64 {
    let f = subject.function;
    let Some(traffic) = f.work.as_ref().and_then(|work| work.traffic).filter(|t| t.misses() > 0.0) else { return 0.0 };
    let fault_s = subject.host.latency("pagefault", &mut Trace::default()).filter(|s| *s > 0.0);
    let faults = f.kernel_s.zip(fault_s).map_or(0.0, |(kernel_s, fault_s)| kernel_s / fault_s);
    (traffic.compulsory.min(faults * PAGE_LINES) / traffic.misses()).clamp(0.0, 1.0)
}
