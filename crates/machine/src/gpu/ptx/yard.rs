//! Kernels of known counts, which a counter must show. Launches of the constructors of this folder, in fixed
//! shapes for 132 SMs; they run on any device that has the instructions.

use super::wgmma::GROUP;
use super::{
    Access, Cached, Kernel, Launch, Operation, Precision, Shape, Stream, Type, dmma, l1_region, mma, scalar,
    scalar_in_lanes, shared, stream, wgmma, working_set,
};

/// A kernel, its launch, and the expected figures of its loops. Prologue and epilogue have no FLOPs; they add some hundred
/// bytes (clock record, parameters).
#[derive(Debug, Clone)]
pub struct Known {
    pub kernel: Kernel,
    pub launch: Launch,
    /// Bytes that the arrays `a`, `b`, `c` must have; 0: not used.
    pub bytes_a: u64,
    pub bytes_b: u64,
    pub bytes_c: u64,
    /// FLOPs of scalar instructions by precision; an FMA is two.
    pub flops_fp64: u64,
    pub flops_fp32: u64,
    /// f16 and bf16.
    pub flops_fp16: u64,
    /// Operations of tensor instructions, those on integers included.
    pub flops_tensor: u64,
    /// Bytes read from DRAM with a cold L2; `None`: nothing is claimed.
    pub dram_read: Option<u64>,
    /// Bytes written to DRAM in the long run; part of the last launch's may still lie in L2.
    pub dram_write: Option<u64>,
    /// Bytes between L1 and L2, both directions, as the SMs ask for them.
    pub l2: Option<u64>,
    /// Bytes between SM and L1, both directions.
    pub l1: Option<u64>,
    /// Wavefronts of shared memory × 128 bytes.
    pub shared: Option<u64>,
}

/// Trips of the loops of arithmetic.
const TRIPS: u32 = 100;
/// Vectors of 16 bytes in an array of a stream.
const VECTORS: u64 = 1 << 24;

const ARITHMETIC: Launch = Launch { blocks: 528, threads: 256, iters: TRIPS, count: 0 };
const WGMMA: Launch = Launch { blocks: 132, ..ARITHMETIC };
const STREAM: Launch = Launch { blocks: 1056, threads: 256, iters: 1, count: VECTORS };
/// A set of 8 MiB.
const L2: Launch = Launch { blocks: 264, threads: 1024, iters: 4, count: 1 << 19 };
/// 16 KiB for each block.
const L1: Launch = Launch { blocks: 132, threads: 1024, iters: 64, count: 1024 };
const SHARED: Launch = Launch { blocks: 264, threads: 1024, iters: 64, count: 0 };

/// The 23 kernels of known counts.
pub fn yard() -> Vec<Known> {
    let mut known = arithmetic();
    known.extend(tensor());
    known.extend(memory());
    known
}

/// Nothing expected but the work in `unit`, which the caller puts into its place.
fn known(name: &str, kernel: Kernel, launch: Launch) -> (Known, u64) {
    let work = kernel.work(&launch) as u64;
    let known = Known {
        kernel: kernel.renamed(&format!("y_{name}")),
        launch,
        bytes_a: 0,
        bytes_b: 0,
        bytes_c: 0,
        flops_fp64: 0,
        flops_fp32: 0,
        flops_fp16: 0,
        flops_tensor: 0,
        dram_read: None,
        dram_write: None,
        l2: None,
        l1: None,
        shared: None,
    };
    (known, work)
}

fn arithmetic() -> Vec<Known> {
    [
        ("fp64_fma", Operation::Fma, Precision::F64, 32),
        ("fp64_add", Operation::Add, Precision::F64, 32),
        ("fp32_fma", Operation::Fma, Precision::F32, 32),
        ("fp32_mul", Operation::Mul, Precision::F32, 32),
        ("fp32_fma_8of32", Operation::Fma, Precision::F32, 8),
        ("fp16_fma", Operation::Fma, Precision::F16, 32),
        ("bf16_fma", Operation::Fma, Precision::Bf16, 32),
    ]
    .into_iter()
    .map(|(name, operation, precision, lanes)| {
        let kernel = if lanes < 32 {
            scalar_in_lanes(operation, precision, 8, 16, lanes)
        } else {
            scalar(operation, precision, 8, 16)
        };
        let (mut known, work) = known(name, kernel, ARITHMETIC);
        match precision {
            Precision::F64 => known.flops_fp64 = work,
            Precision::F32 => known.flops_fp32 = work,
            Precision::F16 | Precision::Bf16 => known.flops_fp16 = work,
            Precision::I32 => {}
        }
        known
    })
    .collect()
}

fn tensor() -> Vec<Known> {
    let with_registers = [
        ("mma_bf16", mma(Type::Bf16, 8, 4)),
        ("mma_tf32", mma(Type::Tf32, 8, 4)),
        ("mma_s8", mma(Type::S8, 8, 4)),
        ("dmma", dmma(Shape::M8N8K4, 8, 4)),
    ];
    let with_shared = [Type::Bf16, Type::F16, Type::Tf32, Type::E4m3, Type::S8];
    let mut all = Vec::new();
    for (name, kernel) in with_registers {
        let (mut known, work) = known(name, kernel, ARITHMETIC);
        known.flops_tensor = work;
        all.push(known);
    }
    for kind in with_shared {
        let (mut known, work) = known(&format!("wgmma_{}", kind.name()), wgmma(kind), WGMMA);
        known.flops_tensor = work;
        // 80 wavefronts a wgmma a warpgroup, as measured on GH100.
        let warpgroups = u64::from(WGMMA.blocks * WGMMA.threads / 128);
        known.shared = Some(128 * 80 * u64::from(GROUP * TRIPS) * warpgroups);
        all.push(known);
    }
    all
}

fn memory() -> Vec<Known> {
    let array = 16 * VECTORS;
    let (mut triad, moved) = known("triad", stream(Stream::Triad, 4), STREAM);
    triad.flops_fp64 = 2 * 2 * VECTORS;
    (triad.bytes_a, triad.bytes_b, triad.bytes_c) = (array, array, array);
    (triad.dram_read, triad.dram_write, triad.l1, triad.l2) = (Some(2 * array), Some(array), Some(moved), Some(moved));

    let (mut copy, moved) = known("copy", stream(Stream::Copy, 4), STREAM);
    (copy.bytes_a, copy.bytes_b) = (array, array);
    (copy.dram_read, copy.dram_write, copy.l1, copy.l2) = (Some(array), Some(array), Some(moved), Some(moved));

    let (mut write, moved) = known("write", stream(Stream::Write, 4), STREAM);
    write.bytes_a = array;
    (write.dram_read, write.dram_write, write.l1, write.l2) = (Some(0), Some(array), Some(moved), Some(moved));

    let (mut l2_read, moved) = known("l2_read", working_set(Cached::L2Only), L2);
    l2_read.bytes_a = 16 * L2.count;
    (l2_read.dram_read, l2_read.l1, l2_read.l2) = (Some(l2_read.bytes_a), Some(moved), Some(moved));

    let (mut l1_read, moved) = known("l1_read", l1_region(), L1);
    l1_read.bytes_a = 16 * L1.count * u64::from(L1.blocks);
    // The first of the passes brings the region into L1.
    (l1_read.dram_read, l1_read.l1, l1_read.l2) =
        (Some(l1_read.bytes_a), Some(moved), Some(moved / u64::from(L1.iters)));

    let (mut wide, moved) = known("shared", shared(Access::Read), SHARED);
    wide.shared = Some(moved);

    // A wavefront of 128 bytes for each lane's 4.
    let (mut conflicts, moved) = known("shared_stride32", shared(Access::Stride32), SHARED);
    conflicts.shared = Some(32 * moved);

    vec![triad, copy, write, l2_read, l1_read, wide, conflicts]
}
