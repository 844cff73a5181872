//! A GPU with an H200's figures, and kernels of known work as they were measured on it.

use rprof_profile::device::{
    Copies, Counts, Device, Devices, Direction, Graph, Idle, Kernel, MemoryKind, Shape, Stretch, TensorWork, Uncounted,
    Wait,
};
use rprof_profile::gpu::Gpu;
use rprof_profile::machine::{Ceiling, Sweep};

/// An H200.
pub fn h200() -> Gpu {
    let ceilings = [
        ("gpu.dram.read", 4.54e12, "byte/s"),
        ("gpu.dram.copy", 3.97e12, "byte/s"),
        ("gpu.dram.triad", 4.12e12, "byte/s"),
        ("gpu.dram.update", 3.95e12, "byte/s"),
        ("gpu.dram.write", 4.32e12, "byte/s"),
        ("gpu.l2.read", 9.1e12, "byte/s"),
        ("gpu.l1.read", 32.3e12, "byte/s"),
        ("gpu.shared.read", 33.0e12, "byte/s"),
        ("gpu.fp64.fma", 33.37e12, "flop/s"),
        ("gpu.fp32.fma", 66.0e12, "flop/s"),
        ("gpu.fp16.fma", 131.2e12, "flop/s"),
        ("gpu.tensor.bf16", 967e12, "flop/s"),
        ("gpu.tensor.fp64", 66.05e12, "flop/s"),
        ("gpu.launch", 3.5e-6, "s"),
        ("gpu.link.h2d.pinned", 54.3e9, "byte/s"),
        ("gpu.link.h2d.pageable", 8.0e9, "byte/s"),
        ("gpu.link.d2h.pinned", 55.1e9, "byte/s"),
        ("gpu.link.d2h.pageable", 14.9e9, "byte/s"),
    ];
    let one_chain = vec![(4.0, 16.3e12), (8.0, 32.3e12), (16.0, 63.1e12), (32.0, 64.0e12), (64.0, 64.6e12)];
    Gpu {
        index: 0,
        name: "NVIDIA H200".into(),
        capability: (9, 0),
        multiprocessors: 132,
        clock_hz: 1.98e9,
        l2_bytes: 60 << 20,
        memory_bytes: 150_109_880_320,
        bus_bytes_per_s: Some(4.81e12),
        threads_per_multiprocessor: 2048,
        registers_per_multiprocessor: 65536,
        shared_per_multiprocessor: 233_472,
        driver: 13000,
        ceilings: ceilings
            .into_iter()
            .map(|(id, value, unit)| Ceiling { device: "gpu0".into(), ..Ceiling::reproduced(id, value, unit, 0) })
            .collect(),
        sweeps: vec![Sweep {
            id: "gpu.ilp.1".into(),
            x_unit: "warp".into(),
            y_unit: "flop/s".into(),
            threads: 0,
            points: one_chain,
        }],
    }
}

/// A kernel that was launched twice in one shape, both launches counted.
pub fn twice(name: &str, (grid, block): (u32, u32), registers: u32, each_s: f64, counts: Counts) -> Kernel {
    let seconds = 2.0 * each_s;
    Kernel {
        name: name.into(),
        symbol: name.into(),
        launches: 2,
        seconds,
        shortest_s: each_s,
        longest_s: each_s,
        shapes: vec![shape(grid, block, registers, 2, seconds)],
        counts: Some(Counts { launches: 2, seconds, ..counts }),
        ..Kernel::default()
    }
}

/// A shape in one dimension.
pub fn shape(grid: u32, block: u32, registers: u32, launches: u64, seconds: f64) -> Shape {
    Shape { grid: [grid, 1, 1], block: [block, 1, 1], registers, launches, seconds, ..Shape::default() }
}

/// Bytes of vectors of the streams.
const VECTORS: f64 = 16_777_216.0;

/// a = b + s·c.
pub fn triad() -> Kernel {
    let counts = Counts {
        fp64: Some(2.0 * 69_476_352.0),
        dram_read: Some(2.0 * 32.0 * VECTORS),
        dram_write: Some(2.0 * 16.0 * VECTORS),
        l2: Some(2.0 * 48.0 * VECTORS),
        l1: Some(2.0 * 48.0 * VECTORS),
        instructions: Some(2.0 * 8_676_101.0),
        ..Counts::default()
    };
    twice("triad", (1056, 256), 56, 197.9e-6, counts)
}

/// Chains of double-precision multiply-adds.
pub fn fp64_fma() -> Kernel {
    let counts = Counts {
        fp64: Some(2.0 * 3_462_598_656.0),
        fp32: Some(2.0 * 405_504.0),
        dram_read: Some(3840.0),
        dram_write: Some(7936.0),
        instructions: Some(2.0 * 55_946_885.0),
        ..Counts::default()
    };
    twice("fp64_fma", (528, 256), 26, 105.6e-6, counts)
}

/// Products of the tensor cores from shared memory.
pub fn wgmma_bf16() -> Kernel {
    let counts = Counts {
        fp32: Some(2.0 * 4_359_168.0),
        tensor: vec![TensorWork { operand: "bf16".into(), operations: 2.0 * 221_459_251_200.0 }],
        dram_read: Some(3328.0),
        dram_write: Some(19712.0),
        shared: Some(2.0 * 33_847_073.0 * 128.0),
        instructions: Some(2.0 * 7_853_477.0),
        ..Counts::default()
    };
    twice("wgmma_bf16", (132, 256), 154, 236.8e-6, counts)
}

/// Reads of shared memory with a stride of 32 words.
pub fn shared_stride32() -> Kernel {
    let counts = Counts {
        shared: Some(2.0 * 138_438_259.0 * 128.0),
        instructions: Some(2.0 * 15_882_245.0),
        dram_read: Some(52224.0),
        dram_write: Some(14080.0),
        ..Counts::default()
    };
    twice("shared_stride32", (264, 1024), 30, 532.5e-6, counts)
}

/// Reads of 8 MiB again and again, past L1.
pub fn l2_read() -> Kernel {
    let counts = Counts {
        l2: Some(2.0 * 137_220_000.0),
        l1: Some(2.0 * 138_412_096.0),
        dram_read: Some(8_393_216.0),
        dram_write: Some(4_619_520.0),
        instructions: Some(2.0 * 3_201_797.0),
        ..Counts::default()
    };
    twice("l2_read", (264, 1024), 32, 17.4e-6, counts)
}

/// A small element-wise kernel that is launched 8,000 times, without counts.
pub fn small() -> Kernel {
    let name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>\
                (int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)";
    Kernel {
        name: name.into(),
        symbol: "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_"
            .into(),
        launches: 8000,
        seconds: 8000.0 * 0.9e-6,
        shortest_s: 0.8e-6,
        longest_s: 1.4e-6,
        shapes: vec![shape(16, 128, 24, 8000, 8000.0 * 0.9e-6)],
        ..Kernel::default()
    }
}

/// One block on a whole GPU.
pub fn one_block() -> Kernel {
    let counts = Counts { fp32: Some(2e6), dram_read: Some(1e6), dram_write: Some(1e6), ..Counts::default() };
    twice("scan_of_one_block", (1, 256), 32, 400e-6, counts)
}

/// A graph of 40 small kernels.
fn graph() -> Graph {
    let counts = Counts {
        launches: 100,
        counted: 1,
        fp32: Some(100.0 * 40_960.0),
        dram_read: Some(100.0 * 8192.0),
        dram_write: Some(100.0 * 2304.0),
        l2: Some(100.0 * 1_310_720.0),
        instructions: Some(100.0 * 25_600.0),
        ..Counts::default()
    };
    Graph { number: 1, launches: 100, counts }
}

/// All of them, with copies and waiting.
pub fn devices() -> Devices {
    let mut kernels = vec![triad(), fp64_fma(), wgmma_bf16(), shared_stride32(), l2_read(), small(), one_block()];
    kernels.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let kernels_s: f64 = kernels.iter().map(|k| k.seconds).sum();
    let copies =
        |direction, from, to, count, bytes, seconds| Copies { device: 0, direction, from, to, count, bytes, seconds };
    let idle = Idle { launch_s: 0.0902, host_s: 0.031, waiting_s: 0.0024, loading_s: 0.0048 };
    let copies_s = 0.0405;
    let span_s = kernels_s + copies_s + idle.total_s();
    let stretches = vec![Stretch { start_s: 0.0441, span_s: 0.0974, idle_s: 0.0902, launches: 8000 }];
    Devices {
        devices: vec![Device { index: 0, span_s, kernels_s, copies_s, idle, stretches }],
        kernels,
        graphs: vec![graph()],
        copies: vec![
            copies(Direction::HostToDevice, MemoryKind::Pageable, MemoryKind::Device, 2, 268_435_456, 0.034),
            copies(Direction::DeviceToHost, MemoryKind::Device, MemoryKind::Pinned, 1, 268_435_456, 0.0049),
            copies(Direction::Fill, MemoryKind::Unknown, MemoryKind::Device, 4, 1_610_612_992, 0.00036),
        ],
        waits: vec![Wait { on: "stream".into(), count: 12, seconds: 0.052 }],
        uncounted: Some(Uncounted {
            reason: "8,000 of its launches are beyond the limit of the counted run".into(),
            fix: "count fewer launches of more kernels".into(),
        }),
        ..Devices::default()
    }
}
