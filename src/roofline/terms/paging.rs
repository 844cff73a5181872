//! What pages of 4 KiB cost accesses that follow no stride: where the TLB does not reach, the tables are read before the data.
//!
//! ```text
//! seconds of an access = 1/R + s · w(bytes) · (1/R_4k − 1/R)
//! ```
//!
//! R and R_4k are measured in a buffer far beyond the caches. s is the share of the function's lines from memory on pages of
//! 4 KiB. w is the share of that cost which a smaller working set pays, whose tables the caches hold: from the distance between
//! the sweeps `latency.4k` and `latency.huge`. Where s, w or R_4k is not known, nothing is added: the bound is looser.

use crate::profile::machine::Machine;
use crate::profile::pages::Pages;

use super::super::deficiency::{Deficiency, Removed};
use super::Subject;

/// s · w of the function of `subject`; 0 with small pages in `removed` gone.
pub fn walked_share(subject: &Subject<'_>, removed: Removed) -> f64 {
    if removed.has(Deficiency::SmallPages) {
        return 0.0;
    }
    let function = subject.function;
    let small = function.work.as_ref().and_then(|work| work.traffic?.small_page_share());
    let bytes = function.pages.map(|pages| (pages.touched * Pages::BYTES) as f64);
    let walked = bytes.and_then(|bytes| walked_in(subject.host.machine(), bytes));
    small.zip(walked).map_or(0.0, |(small, walked)| small * walked)
}

/// w of a working set of so many bytes; `None` where the sweeps were not measured, or show no cost.
fn walked_in(machine: &Machine, bytes: f64) -> Option<f64> {
    let (small, huge) = (machine.sweep("latency.4k", 1)?, machine.sweep("latency.huge", 1)?);
    let extra = |bytes: f64| Some(small.at(bytes)? - huge.at(bytes)?);
    let most = extra(f64::INFINITY).filter(|seconds| *seconds > 0.0)?;
    Some((extra(bytes)? / most).clamp(0.0, 1.0))
}
