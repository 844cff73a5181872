//! A kernel's greatest gain if its limit were gone. Seconds of all its launches.

use rprof_profile::device::{Kernel, Term};
use rprof_profile::gpu::Gpu;
use rprof_profile::vocabulary::Class;

use super::class::{self, Verdict};
use super::occupancy::LaunchOccupancy;
use super::terms::{self, LAUNCH};

/// Savings below this share of the kernel's time are left out.
const LEAST: f64 = 0.02;

/// Without the limit that its class names: down to the next term if that is a ceiling, down to the largest term if it is latency.
pub fn of_class(kernel: &Kernel, terms: &[Term], verdict: &Verdict, gpu: Option<&Gpu>) -> Option<f64> {
    let others = terms.iter().filter(|t| !t.refuted && t.ceiling != LAUNCH);
    let next = others.filter(|t| terms::class(&t.ceiling) != verdict.class).map(|t| t.seconds).fold(0.0, f64::max);
    let seconds = match (verdict.class, &verdict.binding) {
        (Class::GpuLaunch | Class::Unknown, _) => 0.0,
        (Class::GpuLatency, None) => kernel.seconds * gpu.map_or(0.0, |gpu| class::empty(kernel, gpu)),
        (Class::GpuLatency, Some(_)) => kernel.seconds - next,
        (_, binding) => binding.as_ref().map_or(0.0, |term| term.seconds.min(kernel.seconds) - next),
    };
    worth(kernel, seconds)
}

/// Without the part of the last waves in which multiprocessors have nothing to do, but no more than the binding ceiling leaves.
pub fn of_tail(kernel: &Kernel, verdict: &Verdict, gpu: Option<&Gpu>) -> Option<f64> {
    let wasted = |shape| LaunchOccupancy::of(shape, gpu?).map(|r| r.tail() * shape.seconds);
    let wasted: f64 = kernel.shapes.iter().filter_map(wasted).sum();
    let explained = verdict.binding.as_ref().map_or(0.0, |term| term.seconds);
    worth(kernel, wasted.min(kernel.seconds - explained))
}

fn worth(kernel: &Kernel, seconds: f64) -> Option<f64> {
    (seconds > 0.0 && seconds >= LEAST * kernel.seconds).then_some(seconds)
}
