//! Curves: over the working set, the FLOPs on each element, parallelism, and the place of the loop over trials.

use crate::gpu::campaign::Campaign;
use crate::gpu::error::GpuError;
use crate::gpu::ptx::{
    Cached, Data, Operation, Precision, flops_per_element, l1_region, launches_update, scalar, staged, trials_read,
    trials_update, working_set,
};

/// Time of one launch; long enough for staged data, too (0.7 ms).
const LAUNCH_S: f64 = 0.001;
/// Launches of a point.
const LAUNCHES: usize = 3;
/// Least trials of staged data: with fewer the copy into shared memory counts.
const LEAST_TRIALS: u32 = 64;
/// Bytes that are met in launches of their own before those take longer than their call.
const LONG: u64 = 128 << 20;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Read bandwidth over the bytes that all blocks read together.
///
/// # Errors
/// [`GpuError`].
pub fn working_sets(campaign: &mut Campaign) -> Result<(), GpuError> {
    let sizes = [64 * KIB, 256 * KIB, MIB].into_iter();
    let sizes = sizes.chain([2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048].map(|n| n * MIB));
    let sizes: Vec<u64> = sizes.filter(|size| *size <= campaign.arena.bytes).collect();
    for (id, cached) in [("gpu.workingset.l2", Cached::L2Only), ("gpu.workingset.l1l2", Cached::L1AndL2)] {
        let Some(function) = campaign.function(&working_set(cached))? else { continue };
        let (mut points, mut iters) = (Vec::new(), 16);
        for size in &sizes {
            let (per_sm, threads) = campaign.full();
            let mut grid = campaign.grid(per_sm, threads, size / 16, [campaign.arena.at, 0, 0]);
            grid.launch.iters = iters;
            let grid = campaign.aim(&function, grid, LAUNCH_S)?;
            iters = grid.launch.iters;
            points.push((*size as f64, campaign.rate(&function, grid, LAUNCHES)?.0));
        }
        campaign.ledger.sweep(id, "byte", "byte/s", points);
    }
    let Some(function) = campaign.function(&l1_region())? else { return Ok(()) };
    let mut points = Vec::new();
    for size in [4, 8, 16, 32, 64, 128, 256].map(|n| n * KIB) {
        let grid = campaign.grid(1, 1024, size / 16, [campaign.arena.at, 0, 0]);
        let grid = campaign.aim(&function, grid, LAUNCH_S)?;
        points.push((size as f64, campaign.rate(&function, grid, LAUNCHES)?.0));
    }
    campaign.ledger.sweep("gpu.l1.region", "byte", "byte/s", points);
    Ok(())
}

/// FLOP rate over the FLOPs on each element that is read and written: the roofline, measured.
///
/// # Errors
/// [`GpuError`].
pub fn flops(campaign: &mut Campaign) -> Result<(), GpuError> {
    let curves = [
        ("gpu.flops-per-element.fp32.dram", Precision::F32, Data::FromDram),
        ("gpu.flops-per-element.fp64.dram", Precision::F64, Data::FromDram),
        ("gpu.flops-per-element.fp32.l1", Precision::F32, Data::FromL1),
        ("gpu.flops-per-element.fp64.l1", Precision::F64, Data::FromL1),
    ];
    for (id, precision, data) in curves {
        let mut points = Vec::new();
        for n in (1..=8).map(|power| 1 << power) {
            let Some(function) = campaign.function(&flops_per_element(precision, n, data))? else { continue };
            let (per_sm, count) = match data {
                Data::FromDram => (8, campaign.arena.bytes.min(1 << 30) / 16),
                Data::FromL1 => (4, 1024),
            };
            let grid = campaign.grid(per_sm, 256, count, [campaign.arena.at, 0, 0]);
            let grid = campaign.aim(&function, grid, LAUNCH_S)?;
            points.push((f64::from(n), campaign.rate(&function, grid, LAUNCHES)?.0));
        }
        campaign.ledger.sweep(id, "flop/element", "flop/s", points);
    }
    Ok(())
}

/// FLOP rate over the warps on a multiprocessor, with 1, 2, 4 and 8 independent chains in each.
///
/// # Errors
/// [`GpuError`].
pub fn parallelism(campaign: &mut Campaign) -> Result<(), GpuError> {
    let curves = [("gpu.ilp.1", 1), ("gpu.ilp.2", 2), ("gpu.ilp.4", 4), ("gpu.ilp.8", 8)];
    for (id, chains) in curves {
        let Some(function) = campaign.function(&scalar(Operation::Fma, Precision::F32, chains, 128 / chains))? else {
            continue;
        };
        let mut points = Vec::new();
        for (warps, per_sm, threads) in [(4, 1, 128), (8, 1, 256), (16, 1, 512), (32, 1, 1024), (64, 2, 1024)] {
            if warps * 32 > campaign.gpu.threads_per_multiprocessor {
                continue;
            }
            let grid = campaign.grid(per_sm, threads, 0, [campaign.arena.at; 3]);
            let grid = campaign.aim(&function, grid, LAUNCH_S)?;
            points.push((f64::from(warps), campaign.rate(&function, grid, LAUNCHES)?.0));
        }
        campaign.ledger.sweep(id, "warps", "flop/s", points);
    }
    Ok(())
}

/// Kernels A, A that only reads, and C of Lo et al.: the loop over trials inside the kernel.
///
/// # Errors
/// [`GpuError`].
pub fn trials(campaign: &mut Campaign) -> Result<(), GpuError> {
    let curves = [
        ("gpu.trials.update", trials_update(), 1),
        ("gpu.trials.read", trials_read(), 1),
        ("gpu.trials.staged", staged(), LEAST_TRIALS),
    ];
    for (id, kernel, least) in curves {
        let Some(function) = campaign.function(&kernel)? else { continue };
        let mut points = Vec::new();
        for size in trial_sizes(campaign) {
            let grid = campaign.grid(2, 512, size / 16, [campaign.arena.at, 0, 0]);
            let mut grid = campaign.aim(&function, grid, LAUNCH_S)?;
            grid.launch.iters = grid.launch.iters.max(least);
            points.push((size as f64, campaign.rate(&function, grid, LAUNCHES)?.0));
        }
        campaign.ledger.sweep(id, "byte", "byte/s", points);
    }
    Ok(())
}

/// Kernel B: a launch for each trial.
///
/// # Errors
/// [`GpuError`].
pub fn launches(campaign: &mut Campaign) -> Result<(), GpuError> {
    let Some(function) = campaign.function(&launches_update())? else { return Ok(()) };
    let mut points = Vec::new();
    for size in trial_sizes(campaign) {
        let grid = campaign.grid(2, 512, size / 16, [campaign.arena.at, 0, 0]);
        let n = if size >= LONG { 8 } else { 100 };
        let seconds = campaign.cuda.time_together(&function, grid, n)?;
        points.push((size as f64, function.kernel.work(&grid.launch) * n as f64 / seconds.max(1e-9)));
    }
    campaign.ledger.sweep("gpu.trials.launches", "byte", "byte/s", points);
    Ok(())
}

fn trial_sizes(campaign: &Campaign) -> Vec<u64> {
    (0..8).map(|power| (64 * KIB) << (2 * power)).filter(|size| *size <= campaign.arena.bytes).collect()
}
