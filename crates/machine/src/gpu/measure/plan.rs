//! The steps of a measurement, their order, and the time of each.

use super::tensor::{self, KINDS};
use super::{latency, link, reuse, rounds, sweeps};
use crate::gpu::campaign::Campaign;
use crate::gpu::error::GpuError;
use crate::suite::campaign::Effort;

/// Ceilings of a quick measurement, besides those of [`QUICK_STEPS`].
pub const QUICK: [&str; 6] =
    ["gpu.fp64.fma", "gpu.fp32.fma", "gpu.dram.read", "gpu.dram.copy", "gpu.l2.read", "gpu.tensor.bf16"];

/// Seconds for opening a GPU: starting the driver, its context, buffers.
const OPEN_S: f64 = 0.6;
/// Seconds for compiling a tensor kernel; for finding its trips; for a burst; for going on to the sustained rate.
const TENSOR_S: [f64; 4] = [0.25, 0.05, 0.05, 0.6];
/// Rounds of a full measurement that take little power.
pub const QUIET_ROUNDS: usize = 5;

/// A part of a measurement.
#[derive(Clone, Copy)]
pub struct Step {
    /// For the progress.
    pub name: &'static str,
    /// Ceilings that it makes.
    pub ids: &'static [&'static str],
    /// Planned seconds, the compiler's time included.
    pub seconds: f64,
    /// Does it.
    pub run: fn(&mut Campaign) -> Result<(), GpuError>,
}

const fn step(
    name: &'static str,
    ids: &'static [&'static str],
    seconds: f64,
    run: fn(&mut Campaign) -> Result<(), GpuError>,
) -> Step {
    Step { name, ids, seconds, run }
}

const PINNED: Step = step("page-locked copies", &["gpu.link.h2d.pinned", "gpu.link.d2h.pinned"], 0.01, link::pinned);
const LAUNCH: Step = step("launches", &["gpu.launch", "gpu.launch.wait"], 0.01, latency::launch);

/// Work that may heat the GPU: first.
pub const BUSY: [Step; 5] = [
    step("arithmetic and memory", &[], 2.8, rounds::measure),
    step("working sets", &[], 0.6, sweeps::working_sets),
    step("FLOPs per element", &[], 1.4, sweeps::flops),
    step("parallelism", &[], 0.4, sweeps::parallelism),
    step("loops over trials", &[], 0.4, sweeps::trials),
];

/// One round of the steps that take little power: one in each pause.
pub const QUIET: [Step; 6] = [
    step("latencies", &["gpu.lat.l1", "gpu.lat.l2", "gpu.lat.dram"], 0.03, latency::round),
    LAUNCH,
    PINNED,
    step("pageable copies", &["gpu.link.h2d.pageable", "gpu.link.d2h.pageable"], 0.06, link::pageable),
    step("copies both ways", &["gpu.link.both.pinned", "gpu.link.zerocopy"], 0.03, link::mixed),
    step("managed memory", &["gpu.link.managed.to-gpu", "gpu.link.managed.to-cpu"], 0.1, link::managed),
];

/// Steps that fill the rest of the pauses: one in each, the longest in the last, in which nothing is compiled.
pub const FILLERS: [Step; 5] = [
    step("copies by size", &[], 0.3, link::over_size),
    step("reuse of 8 MiB", &[], 0.15, reuse::medium),
    step("reuse of 1 MiB", &[], 0.05, reuse::small),
    step("launches for trials", &[], 0.1, sweeps::launches),
    step("reuse of 64 MiB", &[], 1.2, reuse::large),
];

/// A quick measurement, apart from the burst at its end.
pub const QUICK_STEPS: [Step; 3] = [step("arithmetic and memory", &[], 0.5, rounds::measure), PINNED, LAUNCH];

/// Rounds of [`QUICK_STEPS`] after the first of them.
pub const QUICK_ROUNDS: usize = 3;

/// Planned seconds of a measurement.
pub fn seconds(effort: Effort) -> f64 {
    let of = |steps: &[Step]| steps.iter().map(|step| step.seconds).sum::<f64>();
    let [compile, trips, burst, go_on] = TENSOR_S;
    let pause = tensor::PAUSE.as_secs_f64();
    match effort {
        Effort::Quick => {
            let quick = of(&QUICK_STEPS[..1]) + QUICK_ROUNDS as f64 * of(&QUICK_STEPS[1..]);
            OPEN_S + compile + trips + quick.max(pause) + burst
        }
        Effort::Full => {
            let of_kind = |n: usize| {
                let filler = FILLERS.get(n).map_or(0.0, |step| step.seconds);
                let next = if n + 1 < KINDS.len() { compile } else { 0.0 };
                let sustained = if KINDS[n].sustained.is_some() { go_on } else { 0.0 };
                trips + (of(&QUIET) + filler + next).max(pause) + burst + sustained
            };
            OPEN_S + of(&BUSY) + compile + (0..KINDS.len()).map(of_kind).sum::<f64>()
        }
    }
}

/// Most seconds of a measurement: nothing begins that would end later.
pub fn budget(effort: Effort) -> f64 {
    match effort {
        Effort::Quick => 1.9,
        Effort::Full => 14.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::catalogue;

    #[test]
    fn the_plan_keeps_its_promise() {
        assert!(seconds(Effort::Full) <= 15.0, "{}", seconds(Effort::Full));
        assert!(seconds(Effort::Quick) <= 2.0, "{}", seconds(Effort::Quick));
        // Each type of operands has a pause, which holds a round of quiet steps and a filler.
        assert_eq!((KINDS.len(), FILLERS.len()), (QUIET_ROUNDS, QUIET_ROUNDS));
    }

    #[test]
    fn what_is_planned_is_in_the_catalogue() {
        let of_steps = BUSY.iter().chain(&QUIET).chain(&FILLERS).flat_map(|step| step.ids.iter().copied());
        let of_kinds = KINDS.iter().flat_map(|kind| [Some(kind.id), kind.sustained]).flatten();
        for id in of_steps.chain(of_kinds).chain(QUICK) {
            assert_ne!(catalogue::unit(id), "", "{id}");
        }
        assert!(KINDS.iter().all(|kind| kind.sustained.is_some()), "the same figures of every type");
    }
}
