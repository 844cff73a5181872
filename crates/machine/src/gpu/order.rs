//! Orders among the ceilings of a GPU that hold on every one: a figure that breaks one is of something else, and is marked as noisy.

use rprof_profile::gpu::Gpu;
use rprof_profile::machine::{Quality, Sweep};

/// Two measurements of one thing may be so far apart.
const SLACK: f64 = 1.03;
/// DRAM answers later than L2 by more than this factor.
const FURTHER: f64 = 1.2;
/// A staged set is read at least at this share of the rate of shared memory, once it gives each multiprocessor work.
const STAGED: f64 = 0.5;
/// Bytes from which it does.
const STAGED_FROM: f64 = 16e6;
/// The curve of staged sets.
const STAGED_CURVE: &str = "gpu.trials.staged";

/// A ceiling that must not be above `most` times another one.
struct Order {
    id: &'static str,
    most: f64,
    of: &'static str,
    why: &'static str,
}

const fn at_most(id: &'static str, most: f64, of: &'static str, why: &'static str) -> Order {
    Order { id, most, of, why }
}

const ORDERS: [Order; 20] = [
    at_most("gpu.fp64.add", 1.0, "gpu.fp64.fma", HALF),
    at_most("gpu.fp64.mul", 1.0, "gpu.fp64.fma", HALF),
    at_most("gpu.fp32.add", 1.0, "gpu.fp32.fma", HALF),
    at_most("gpu.fp32.mul", 1.0, "gpu.fp32.fma", HALF),
    at_most("gpu.fp16.add", 1.0, "gpu.fp16.fma", HALF),
    at_most("gpu.fp16.mul", 1.0, "gpu.fp16.fma", HALF),
    at_most("gpu.bf16.add", 1.0, "gpu.bf16.fma", HALF),
    at_most("gpu.bf16.mul", 1.0, "gpu.bf16.fma", HALF),
    at_most("gpu.tensor.bf16.sustained", 1.0, "gpu.tensor.bf16", BURST),
    at_most("gpu.tensor.f16.sustained", 1.0, "gpu.tensor.f16", BURST),
    at_most("gpu.tensor.tf32.sustained", 1.0, "gpu.tensor.tf32", BURST),
    at_most("gpu.tensor.fp8.sustained", 1.0, "gpu.tensor.fp8", BURST),
    at_most("gpu.tensor.int8.sustained", 1.0, "gpu.tensor.int8", BURST),
    at_most("gpu.dram.read", 1.0, "gpu.l2.read", NEARER),
    at_most("gpu.l2.read", 1.0, "gpu.l1.read", NEARER),
    at_most("gpu.shared.stride32", 1.0, "gpu.shared.stride2", "more conflicts, and yet faster"),
    at_most("gpu.shared.stride2", 1.0, "gpu.shared.read", "conflicts, and yet faster"),
    at_most("gpu.lat.l1", 1.0, "gpu.lat.l2", NEARER),
    at_most("gpu.launch", 1.0, "gpu.launch.wait", "waiting for a launch takes longer than the launch"),
    at_most("gpu.link.h2d.pageable", 1.0, "gpu.link.h2d.pinned", "page-locked memory needs no second copy"),
];
const HALF: &str = "an addition or multiplication is half of the work of a multiply-add";
const BURST: &str = "a sustained rate is no higher than a burst";
const NEARER: &str = "what is nearer is not slower";

/// Marks the ceilings that contradict others, and takes points out of curves that show something else.
pub fn settle(gpu: &mut Gpu) {
    let mut doubts: Vec<(&str, String)> = ORDERS.iter().filter_map(|order| broken(gpu, order)).collect();
    doubts.extend(memory(gpu));
    doubts.extend(half_precision(gpu));
    for (id, reason) in doubts {
        for ceiling in gpu.ceilings.iter_mut().filter(|ceiling| ceiling.id == *id) {
            (ceiling.quality, ceiling.reason) = (Quality::Noisy, Some(reason.clone()));
        }
    }
    let shared = gpu.value("gpu.shared.read").unwrap_or(0.0);
    for curve in gpu.sweeps.iter_mut().filter(|curve| curve.id == STAGED_CURVE) {
        *curve = without_copies(curve, shared);
    }
}

fn broken(gpu: &Gpu, Order { id, most, of, why }: &Order) -> Option<(&'static str, String)> {
    let (value, other) = (gpu.value(id)?, gpu.value(of)?);
    (value > most * SLACK * other).then(|| (*id, format!("it is above {of}: {why}")))
}

/// A latency of DRAM that is L2's, and a rate that the bus cannot carry.
fn memory(gpu: &Gpu) -> Vec<(&'static str, String)> {
    let near = gpu.value("gpu.lat.dram").zip(gpu.value("gpu.lat.l2")).filter(|(dram, l2)| *dram < FURTHER * l2);
    let near = near.map(|_| ("gpu.lat.dram", "it is that of L2: its lines lay there".to_owned()));
    let fast = gpu.value("gpu.dram.read").zip(gpu.bus_bytes_per_s).filter(|(read, bus)| *read > SLACK * bus);
    let fast = fast.map(|_| ("gpu.dram.read", "its bus carries less: part of it came from L2".to_owned()));
    near.into_iter().chain(fast).collect()
}

/// On compute capability 9.0 both kinds of half precision have one rate.
fn half_precision(gpu: &Gpu) -> Option<(&'static str, String)> {
    let (bf16, fp16) = (gpu.value("gpu.bf16.fma")?, gpu.value("gpu.fp16.fma")?);
    (gpu.capability == (9, 0) && bf16 * SLACK < fp16 * 0.97)
        .then(|| ("gpu.bf16.fma", "fp16 has the same rate on this GPU: the loop contained something else".to_owned()))
}

/// The points at which reading shared memory was measured, and not the copy into it.
fn without_copies(curve: &Sweep, shared: f64) -> Sweep {
    let is_read = |(bytes, rate): &&(f64, f64)| *bytes < STAGED_FROM || *rate >= STAGED * shared;
    Sweep { points: curve.points.iter().filter(is_read).copied().collect(), ..curve.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::machine::Ceiling;

    /// A GPU with these ceilings.
    fn gpu(ceilings: &[(&str, f64)]) -> Gpu {
        let ceilings = ceilings.iter().map(|(id, value)| Ceiling::reproduced(id, *value, "", 0)).collect();
        Gpu { capability: (9, 0), bus_bytes_per_s: Some(4.81e12), ceilings, ..Gpu::default() }
    }

    #[test]
    fn ceilings_in_their_order_are_left_alone_and_others_say_why() {
        let figures = [
            ("gpu.fp32.fma", 66e12),
            ("gpu.fp32.add", 32.6e12),
            ("gpu.fp16.fma", 131.2e12),
            ("gpu.fp16.mul", 65.5e12),
            ("gpu.bf16.fma", 128.7e12),
            ("gpu.tensor.f16", 960e12),
            ("gpu.tensor.f16.sustained", 890e12),
            ("gpu.dram.read", 4.54e12),
            ("gpu.l2.read", 9.1e12),
            ("gpu.lat.l2", 142e-9),
            ("gpu.lat.dram", 347e-9),
        ];
        let right = gpu(&figures);
        let mut settled = right.clone();
        settle(&mut settled);
        assert_eq!(settled, right);
        for (id, value, words) in [
            ("gpu.fp32.add", 99e12, "above gpu.fp32.fma"),
            ("gpu.dram.read", 5.5e12, "its bus carries less"),
            ("gpu.lat.dram", 143e-9, "that of L2"),
            ("gpu.bf16.fma", 99.8e12, "fp16 has the same rate"),
            ("gpu.fp16.mul", 150e12, "above gpu.fp16.fma"),
            ("gpu.tensor.f16.sustained", 999e12, "above gpu.tensor.f16"),
        ] {
            let mut wrong = gpu(&figures.map(|(known, right)| (known, if known == id { value } else { right })));
            settle(&mut wrong);
            let marked: Vec<&Ceiling> = wrong.ceilings.iter().filter(|c| c.quality == Quality::Noisy).collect();
            assert_eq!(marked.iter().map(|c| &*c.id).collect::<Vec<_>>(), [id]);
            assert!(marked[0].reason.as_deref().is_some_and(|why| why.contains(words)), "{:?}", marked[0].reason);
        }
    }
}
