//! What pages of 4 KiB cost accesses that follow no stride: where the TLB does not reach, the tables are read before the data.
//!
//! ```text
//! seconds of an access = 1/R + s · w(bytes) · (1/R_4k − 1/R)
//! ```
//!
//! R and R_4k are measured in a buffer far beyond the caches. s is the share of the function's lines from memory on pages of
//! 4 KiB. w is the share of that cost which a smaller working set pays, whose tables the caches hold: from the distance between
//! the sweeps `latency.4k` and `latency.huge`. Where s, w or R_4k is not known, nothing is added: the bound is looser.

use crate::profile::machine::{Machine, Sweep};
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
    let sweep = |id: &str| machine.sweeps.iter().find(|sweep| sweep.id == id);
    let (small, huge) = (sweep("latency.4k")?, sweep("latency.huge")?);
    let extra = |bytes: f64| Some(at(small, bytes)? - at(huge, bytes)?);
    let most = extra(f64::INFINITY).filter(|seconds| *seconds > 0.0)?;
    Some((extra(bytes)? / most).clamp(0.0, 1.0))
}

/// The value of `sweep` at `x`, linear in log x between its points; the outermost point's outside them.
fn at(sweep: &Sweep, x: f64) -> Option<f64> {
    let points = &sweep.points;
    let after = points.partition_point(|point| point.0 < x);
    let (Some(low), Some(high)) = (points.get(after.wrapping_sub(1)), points.get(after)) else {
        return points.get(after.min(points.len().checked_sub(1)?)).map(|point| point.1);
    };
    let part = (x / low.0).ln() / (high.0 / low.0).ln();
    Some(low.1 + part * (high.1 - low.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_read_between_its_points_and_beyond_them() {
        let points = vec![(1.0, 10.0), (4.0, 20.0), (16.0, 40.0)];
        let (x_unit, y_unit) = ("byte".into(), "s".into());
        let sweep = Sweep { id: "latency.4k".into(), x_unit, y_unit, threads: 1, points };
        let read = |x| at(&sweep, x).expect("three points");
        assert_eq!([0.5, 1.0, 4.0, 16.0, f64::INFINITY].map(read), [10.0, 10.0, 20.0, 40.0, 40.0]);
        assert!((read(2.0) - 15.0).abs() < 1e-9 && (read(8.0) - 30.0).abs() < 1e-9);
        assert_eq!(at(&Sweep { points: Vec::new(), ..sweep.clone() }, 1.0), None);
    }
}
