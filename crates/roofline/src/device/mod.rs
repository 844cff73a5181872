//! The model for GPUs (docs/conventions.md, GPU): occupancy, terms, class, savings and advice of kernels, and the cost that copies, launches and
//! idle time cost the program. Pure functions of a profile.
//!
//! ```text
//!  Kernel (times, shapes, counts) ─┐            ┌─▶ class ─▶ ladder, savings ─▶ advice
//!  Gpu (figures, ceilings) ────────┼─▶ terms ───┘
//!                                  └─▶ occupancy, waves
//!  Device (idle, copies), Copies ──▶ findings
//! ```

mod advice;
pub mod class;
mod findings;
mod ladder;
pub mod occupancy;
mod savings;
pub mod terms;

#[cfg(any(test, feature = "examples"))]
pub mod example;
#[cfg(test)]
mod tests;

use rprof_profile::device::{Analysis, Devices, Kernel, Uncounted};
use rprof_profile::gpu::Gpu;
use rprof_profile::run::Warning;

use super::REFUTED;
use occupancy::LaunchOccupancy;

/// Fills in the analysis of all kernels and the findings, replacing any earlier ones. Without an entry in `gpus` a device has
/// times, but no terms and no occupancy.
pub fn analyse(devices: &mut Devices, gpus: &[Gpu]) {
    devices.warnings.retain(|warning| warning.code != REFUTED);
    let of = |index: u32| gpus.iter().find(|gpu| gpu.index == index);
    let bound = |device: &rprof_profile::device::Device| class::is_launch_bound(device, &devices.kernels);
    let late: Vec<u32> = devices.devices.iter().filter(|d| bound(d)).map(|d| d.index).collect();
    for kernel in &mut devices.kernels {
        let gpu = of(kernel.device);
        for shape in &mut kernel.shapes {
            let occupancy = gpu.and_then(|gpu| LaunchOccupancy::of(shape, gpu));
            shape.occupancy = occupancy.map(|r| r.occupancy);
            shape.waves = occupancy.map(|r| r.waves);
        }
        let analysis = of_kernel(kernel, gpu, late.contains(&kernel.device), devices.uncounted.as_ref());
        devices.warnings.extend(refutations(kernel, &analysis));
        kernel.analysis = Some(analysis);
    }
    devices.findings = findings::of(devices, gpus);
}

fn of_kernel(kernel: &Kernel, gpu: Option<&Gpu>, is_launch_bound: bool, uncounted: Option<&Uncounted>) -> Analysis {
    let terms = gpu.map_or_else(Vec::new, |gpu| terms::terms(kernel, gpu));
    let verdict = class::verdict(kernel, &terms, gpu, is_launch_bound);
    let counts = kernel.counts.as_ref();
    let per_second = |work: Option<f64>| {
        let scale = counts.map(|counts| terms::scale(kernel, counts)).filter(|scale| *scale > 0.0);
        work.zip(scale).filter(|_| kernel.seconds > 0.0).map(|(work, scale)| work * scale / kernel.seconds)
    };
    let (flops, bytes) = (counts.and_then(|c| c.flops()), counts.and_then(|c| c.dram()));
    Analysis {
        class: verdict.class,
        binding: verdict.binding.as_ref().map(|term| term.ceiling.clone()),
        roof_fraction: verdict.binding.as_ref().filter(|_| kernel.seconds > 0.0).map(|t| t.seconds / kernel.seconds),
        flops_per_s: per_second(flops),
        bytes_per_s: per_second(bytes),
        intensity: flops.zip(bytes.filter(|b| *b > 0.0)).map(|(flops, bytes)| flops / bytes),
        ladder: ladder::ladder(kernel, &terms, savings::of_tail(kernel, &verdict, gpu)),
        expected: kernel.analysis.as_ref().and_then(|analysis| analysis.expected),
        advice: advice::of(&advice::Case { kernel, gpu, verdict: &verdict, terms: &terms, uncounted }),
        terms,
    }
}

/// Warnings about ceilings that `kernel` exceeded.
fn refutations<'a>(kernel: &'a Kernel, analysis: &'a Analysis) -> impl Iterator<Item = Warning> + 'a {
    analysis.terms.iter().filter(|term| term.refuted).map(|term| {
        let name = rprof_profile::names::shorten(&kernel.name, rprof_profile::names::SHOWN);
        Warning::new(
            REFUTED,
            format!(
                "{name} ran in {:.3e} s, faster than {} allows ({:.3e} s)",
                kernel.seconds, term.ceiling, term.seconds
            ),
            "that ceiling is left out for this kernel",
            "measure the machine again while nothing else uses the GPU: rprof machine --refresh",
        )
    })
}
