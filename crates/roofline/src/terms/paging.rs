//! The cost of pages of 4 KiB: beyond the reach of the TLB the CPU reads page tables before the data, and prefetchers that know
//! physical addresses alone stop at the end of each page.
//!
//! ```text
//! seconds of an access that follows no stride = 1/R + s · w(bytes) · (1/R_4k − 1/R)
//! seconds of a byte of a stream               = 1/B + s · (1/B_4k − 1/B)
//! ```
//!
//! A stream comes to the end of a page after 64 lines, however many there are: w is 1.
//! R, R_4k, B and B_4k are measured in a buffer far beyond the caches. s is the share of the function's lines from memory on pages of
//! 4 KiB. w is the share of that cost which a smaller working set pays, with its tables in the caches: from the distance between the
//! sweeps `latency.4k` and `latency.huge`. If s, w, R_4k or B_4k is not known, nothing is added: the bound is looser.

use rprof_profile::machine::{Machine, ON_SMALL_PAGES};
use rprof_profile::pages::Pages;

use super::super::deficiency::{Deficiency, Removed};
use super::Subject;

/// s of the function of `subject`; 0 with small pages in `removed` gone.
pub fn small_share(subject: &Subject<'_>, removed: Removed) -> f64 {
    if removed.has(Deficiency::SmallPages) {
        return 0.0;
    }
    let work = subject.function.work.as_ref();
    work.and_then(|work| work.traffic?.small_page_share()).unwrap_or(0.0)
}

/// s · w of the function of `subject`; 0 with small pages in `removed` gone.
pub fn walked_share(subject: &Subject<'_>, removed: Removed) -> f64 {
    let bytes = subject.function.pages.map(|pages| (pages.touched * Pages::BYTES) as f64);
    let walked = bytes.and_then(|bytes| walked_in(subject.host.machine(), bytes));
    small_share(subject, removed) * walked.unwrap_or(0.0)
}

/// The id of the ceiling on small pages that is `id` on huge ones.
pub fn small_id(id: &str) -> String {
    format!("{id}{ON_SMALL_PAGES}")
}

/// 1/rate if `share` of the lines is on small pages.
pub fn per_unit(huge_rate: f64, small_rate: f64, share: f64) -> f64 {
    let (huge, small) = (1.0 / huge_rate, 1.0 / small_rate.min(huge_rate));
    huge + share * (small - huge)
}

/// w of a working set of `bytes`; `None` if the sweeps were not measured, or show no cost.
fn walked_in(machine: &Machine, bytes: f64) -> Option<f64> {
    let (small, huge) = (machine.sweep("latency.4k", 1)?, machine.sweep("latency.huge", 1)?);
    let extra = |bytes: f64| Some(small.at(bytes)? - huge.at(bytes)?);
    let most = extra(f64::INFINITY).filter(|seconds| *seconds > 0.0)?;
    Some((extra(bytes)? / most).clamp(0.0, 1.0))
}
