//! The class of a kernel.
//!
//! ```text
//! largest term of bytes or arithmetic ≥ 0.6 · seconds     its class
//! else issue ≥ 0.6 · seconds                              gpu-issue
//! else one dependent chain a warp ≥ 0.6 · seconds         gpu-latency
//! else launches below 5 µs that come one by one, most of them not out of graphs           gpu-launch
//! else less than half of the thread slots filled, or less than one wave; without counts: more than half of the
//!      multiprocessors without a block                    gpu-latency
//! else                                                    unknown
//! ```

use crate::class::EXPLAINED;
use rprof_profile::device::{Device, Kernel, Term};
use rprof_profile::gpu::Gpu;
use rprof_profile::vocabulary::Class;

use super::occupancy::LaunchOccupancy;
use super::terms::{self, CHAIN, ISSUE, LAUNCH};

/// Launches of less than this many seconds on the mean are short: a launch takes the host 3 to 4 µs.
pub const SHORT_S: f64 = 5e-6;
/// Idle seconds before late launches, in relation to the seconds of the short kernels, from which these are launch-bound.
const LATE: f64 = 0.5;
/// Less than this share of the thread slots filled is low.
const LOW_FILL: f64 = 0.5;
/// Share of multiprocessors without a block that explains a kernel without counts.
const MOSTLY_EMPTY: f64 = 0.5;

/// The class of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The class.
    pub class: Class,
    /// The binding term, if there are counts.
    pub binding: Option<Term>,
}

/// The verdict on `kernel` with these `terms`.
pub fn verdict(kernel: &Kernel, terms: &[Term], gpu: Option<&Gpu>, is_launch_bound: bool) -> Verdict {
    let usable = |t: &&Term| !t.refuted && t.ceiling != LAUNCH;
    let named = |id: &str| terms.iter().filter(usable).find(|t| t.ceiling == id);
    let work = terms.iter().filter(usable).find(|t| t.ceiling != ISSUE && t.ceiling != CHAIN);
    let explains = |t: &&Term| t.seconds >= EXPLAINED * kernel.seconds;
    let found = work.filter(explains).or(named(ISSUE).filter(explains)).or(named(CHAIN).filter(explains));
    if let Some(term) = found {
        return Verdict { class: terms::class(&term.ceiling), binding: Some(term.clone()) };
    }
    let larger = |a: &&Term, b: &&Term| a.seconds.total_cmp(&b.seconds);
    let binding = [work, named(ISSUE)].into_iter().flatten().max_by(larger).cloned();
    let occupancy = gpu.zip(kernel.shapes.first()).and_then(|(gpu, shape)| LaunchOccupancy::of(shape, gpu));
    let is_thin = match kernel.counts {
        Some(_) => occupancy.is_some_and(|r| r.fill() < LOW_FILL || r.waves < 1.0),
        None => gpu.is_some_and(|gpu| empty(kernel, gpu) > MOSTLY_EMPTY),
    };
    let class = match (is_short(kernel) && is_launch_bound, is_thin) {
        (true, _) => Class::GpuLaunch,
        (false, true) => Class::GpuLatency,
        (false, false) => Class::Unknown,
    };
    Verdict { class, binding }
}

/// Whether a launch takes less than [`SHORT_S`] on the mean, and most launches are made one by one, not out of graphs.
pub fn is_short(kernel: &Kernel) -> bool {
    kernel.launches > 0
        && 2 * kernel.graph_launches <= kernel.launches
        && kernel.seconds < SHORT_S * kernel.launches as f64
}

/// Whether the short kernels of `device` wait for their launches: gaps below 20 µs are at least half as long as they.
pub fn is_launch_bound(device: &Device, kernels: &[Kernel]) -> bool {
    let short = kernels.iter().filter(|k| k.device == device.index && is_short(k));
    let seconds: f64 = short.map(|k| k.seconds).sum();
    seconds > 0.0 && device.idle.launch_s >= LATE * seconds
}

/// Share of the multiprocessors that get no block, of the shape with most time; 0 if that is not known.
pub fn empty(kernel: &Kernel, gpu: &Gpu) -> f64 {
    let blocks = kernel.shapes.first().map(|shape| shape.grid.iter().map(|n| f64::from(*n)).product::<f64>());
    let share = blocks.map(|blocks| 1.0 - blocks / f64::from(gpu.multiprocessors.max(1)));
    share.unwrap_or(0.0).clamp(0.0, 1.0)
}
