//! How many blocks of a launch shape reside on a multiprocessor, after the rules of NVIDIA's occupancy calculator.
//!
//! ```text
//! blocks    = min(threads / block, limit of blocks, registers / block's registers, shared / block's shared memory)
//! occupancy = blocks · warps of a block / warps of a multiprocessor
//! waves     = blocks of the grid / (blocks · multiprocessors)
//! ```

use rprof_profile::device::Shape;
use rprof_profile::gpu::Gpu;

/// Threads of a warp.
pub const WARP: u32 = 32;
/// Registers are allocated to a warp in units of this many.
const REGISTER_UNIT: u32 = 256;
/// Schedulers of a multiprocessor; each has its own part of the registers.
pub const SCHEDULERS: u32 = 4;

/// The limits of blocks on a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Its resident threads.
    Threads,
    /// Its resident blocks.
    Blocks,
    /// Its registers.
    Registers,
    /// Its shared memory.
    Shared,
}

/// How a launch shape fills a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaunchOccupancy {
    /// Blocks on a multiprocessor at once.
    pub blocks: u32,
    /// The limit that is reached first.
    pub limit: Limit,
    /// Share of a multiprocessor's threads that these blocks fill, 0 to 1.
    pub occupancy: f64,
    /// Waves of blocks over all multiprocessors.
    pub waves: f64,
}

impl LaunchOccupancy {
    /// Of `shape` on `gpu`; `None` if figures of the GPU are missing or the shape fits no multiprocessor.
    pub fn of(shape: &Shape, gpu: &Gpu) -> Option<LaunchOccupancy> {
        let threads: u32 = shape.block.iter().try_fold(1u32, |product, n| product.checked_mul(*n))?;
        let warps = threads.div_ceil(WARP);
        let most_warps = gpu.threads_per_multiprocessor / WARP;
        if warps == 0 || most_warps == 0 || gpu.multiprocessors == 0 {
            return None;
        }
        let limits = [
            (most_warps / warps, Limit::Threads),
            (most_blocks(gpu.capability), Limit::Blocks),
            (by_registers(shape.registers, warps, gpu), Limit::Registers),
            (by_shared(shape.shared, gpu), Limit::Shared),
        ];
        let (blocks, limit) = limits.into_iter().min_by_key(|(blocks, _)| *blocks)?;
        let grid: f64 = shape.grid.iter().map(|n| f64::from(*n)).product();
        (blocks > 0 && grid > 0.0).then(|| LaunchOccupancy {
            blocks,
            limit,
            occupancy: f64::from(blocks * warps) / f64::from(most_warps),
            waves: grid / (f64::from(blocks) * f64::from(gpu.multiprocessors)),
        })
    }

    /// Share of all the GPU's thread slots that the launch fills at its best moment, 0 to 1.
    pub fn fill(&self) -> f64 {
        self.occupancy * self.waves.min(1.0)
    }

    /// Share of the time that the last wave wastes, if all blocks take equally long: 1 − waves / ⌈waves⌉. 0 for less than one wave.
    pub fn tail(&self) -> f64 {
        if self.waves <= 1.0 { 0.0 } else { 1.0 - self.waves / self.waves.ceil() }
    }
}

/// Resident blocks of a multiprocessor (CUDA programming guide, technical specifications per compute capability).
fn most_blocks(capability: (u32, u32)) -> u32 {
    match capability {
        (7, 5) | (8, 6..=8) => 16,
        (8, 9) | (11 | 12, _) => 24,
        _ => 32,
    }
}

fn by_registers(registers: u32, warps: u32, gpu: &Gpu) -> u32 {
    let of_warp = (registers * WARP).next_multiple_of(REGISTER_UNIT);
    if of_warp == 0 || gpu.registers_per_multiprocessor == 0 {
        return u32::MAX;
    }
    (gpu.registers_per_multiprocessor / SCHEDULERS / of_warp) * SCHEDULERS / warps
}

/// From capability 8 on the driver takes 1 KiB of each block's shared memory, and allocates in units of 128 instead of 256 bytes.
fn by_shared(shared: u32, gpu: &Gpu) -> u32 {
    let (reserved, unit) = if gpu.capability.0 >= 8 { (1024, 128) } else { (0, 256) };
    let of_block = shared.saturating_add(reserved).checked_next_multiple_of(unit).unwrap_or(u32::MAX);
    if of_block == 0 || gpu.shared_per_multiprocessor == 0 {
        return u32::MAX;
    }
    gpu.shared_per_multiprocessor / of_block
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::example::h200;

    fn of(grid: u32, block: u32, registers: u32, shared: u32) -> LaunchOccupancy {
        let shape = Shape { grid: [grid, 1, 1], block: [block, 1, 1], registers, shared, ..Shape::default() };
        LaunchOccupancy::of(&shape, &h200()).unwrap()
    }

    #[test]
    fn the_scarcest_resource_limits_the_blocks() {
        // 56 registers are 1,792 a warp: 9 warps for each scheduler, 36 in all, 4 blocks of 8 warps.
        let triad = of(1056, 256, 56, 0);
        assert_eq!((triad.blocks, triad.limit, triad.waves), (4, Limit::Registers, 2.0));
        assert_eq!(triad.occupancy, 0.5);
        // 154 registers are 160, 5,120 a warp: 3 for each scheduler.
        let wgmma = of(132, 256, 154, 49152);
        assert_eq!((wgmma.blocks, wgmma.limit, wgmma.occupancy), (1, Limit::Registers, 0.125));
        let staged = of(132, 512, 32, 200 << 10);
        assert_eq!((staged.blocks, staged.limit, staged.waves), (1, Limit::Shared, 1.0));
        let small = of(1, 32, 16, 0);
        assert_eq!((small.blocks, small.limit, small.occupancy), (32, Limit::Blocks, 0.5));
        assert_eq!(of(264, 1024, 32, 0).limit, Limit::Threads);
    }

    #[test]
    fn a_wave_and_a_bit_wastes_most_of_the_second() {
        // 8 blocks of 256 threads on each of 132 multiprocessors: 1,056 a wave.
        let r = of(1267, 256, 32, 0);
        assert!((r.waves - 1.2).abs() < 0.001 && (r.tail() - 0.4).abs() < 0.001, "{r:?}");
        assert_eq!((of(1056, 256, 32, 0).tail(), of(132, 256, 32, 0).tail()), (0.0, 0.0));
        assert!((of(132, 256, 32, 0).fill() - 0.125).abs() < 1e-9);
    }

    #[test]
    fn a_shape_that_cannot_run_or_an_unknown_gpu_has_none() {
        let shape = Shape { grid: [1, 1, 1], block: [1024, 1, 1], registers: 255, ..Shape::default() };
        assert_eq!(LaunchOccupancy::of(&shape, &h200()), None);
        assert_eq!(LaunchOccupancy::of(&Shape { registers: 16, ..shape }, &Gpu::default()), None);
    }
}
