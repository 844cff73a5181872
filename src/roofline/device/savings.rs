//! What a kernel would gain at most if what holds it were gone.

use crate::profile::device::{Kernel, Saving, Term};
use crate::profile::gpu::Gpu;

use super::class::{self, Verdict};
use super::occupancy::Residence;
use super::terms::{self, LAUNCH};

/// Savings below this share of the kernel's time are left out.
const LEAST: f64 = 0.02;

/// The savings, descending.
pub fn savings(kernel: &Kernel, terms: &[Term], verdict: &Verdict, gpu: Option<&Gpu>) -> Vec<Saving> {
    let mut savings = Vec::new();
    let mut add = |cause: &str, seconds: f64| {
        if seconds >= LEAST * kernel.seconds {
            savings.push(Saving { cause: cause.into(), seconds });
        }
    };
    add(verdict.class, of_class(kernel, terms, verdict, gpu));
    add("tail", of_tail(kernel, verdict, gpu));
    savings.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    savings
}

/// Down to the next term, for what a ceiling holds; down to the largest term, for latency.
fn of_class(kernel: &Kernel, terms: &[Term], verdict: &Verdict, gpu: Option<&Gpu>) -> f64 {
    let others = terms.iter().filter(|t| !t.refuted && t.ceiling != LAUNCH);
    let next = others.filter(|t| terms::class(&t.ceiling) != verdict.class).map(|t| t.seconds).fold(0.0, f64::max);
    match (verdict.class, &verdict.binding) {
        ("gpu-launch" | "unknown", _) => 0.0,
        ("gpu-latency", None) => kernel.seconds * gpu.map_or(0.0, |gpu| class::empty(kernel, gpu)),
        ("gpu-latency", Some(_)) => kernel.seconds - next,
        (_, binding) => binding.as_ref().map_or(0.0, |term| term.seconds.min(kernel.seconds) - next),
    }
}

/// The part of the last waves in which multiprocessors have nothing to do, but no more than the binding ceiling leaves.
fn of_tail(kernel: &Kernel, verdict: &Verdict, gpu: Option<&Gpu>) -> f64 {
    let Some(gpu) = gpu else { return 0.0 };
    let wasted = |shape| Residence::of(shape, gpu).map_or(0.0, |r| r.tail() * shape.seconds);
    let wasted: f64 = kernel.shapes.iter().map(wasted).sum();
    let explained = verdict.binding.as_ref().map_or(0.0, |term| term.seconds);
    wasted.min(kernel.seconds - explained).max(0.0)
}
