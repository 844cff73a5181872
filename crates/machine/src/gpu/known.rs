//! Runs kernels of known work: the program of `rprof demo --gpu`, and that of the check before kernels are counted.

use rprof_profile::vocabulary::Class;
use std::path::PathBuf;

use super::driver::{self, Cuda, Direction, Grid, HostKind};
use super::error::GpuError;
use super::ptx::{Cached, Known, Launch, MIX, MIX_NAME, chase, empty, flush, link, mix, mix_counts, yard};

/// Times that each kernel is launched.
const LAUNCHES: usize = 2;
/// Launches of a kernel that does nothing.
const EMPTY: u64 = 2000;
/// Bytes that are copied from pageable memory.
const COPIED: u64 = 64 << 20;
/// Hops of the one thread that follows pointers, and bytes from one to the next.
const HOPS: u64 = 20_000;
const STRIDE: u64 = 4096;

/// Launches every known kernel that this GPU can run, a kernel of one thread, many that do nothing, and copies. Returns how many kernels
/// it cannot run.
///
/// # Errors
/// [`GpuError`]; no driver is [`GpuError::Library`].
pub fn run() -> Result<usize, GpuError> {
    let mut cuda = start()?;
    let version = cuda.version()?;
    let (gpu, _) = cuda.facts(0, version)?;
    cuda.enter(0)?;
    let host = cuda.host_memory(HostKind::Pageable, COPIED)?;
    let copied = cuda.allocate(COPIED)?;
    cuda.copy(Direction::In, copied, host, COPIED)?;
    let mut left_out = 0;
    for known in yard() {
        if known.kernel.runs_on(gpu.capability.0, gpu.capability.1) {
            launch(&mut cuda, &known)?;
        } else {
            left_out += 1;
        }
    }
    lonely(&mut cuda)?;
    let nothing = cuda.compile(&empty())?;
    let grid = Grid { launch: Launch { blocks: 1, threads: 32, iters: 0, count: 0 }, arrays: [0; 3] };
    cuda.time_host(&nothing, grid, false, EMPTY)?;
    cuda.copy(Direction::Out, copied, host, COPIED)?;
    cuda.leave();
    Ok(left_out)
}

/// Launches the kernel with a different count for each instruction of floating point.
///
/// # Errors
/// [`GpuError`]; no driver is [`GpuError::Library`].
pub fn run_mix() -> Result<(), GpuError> {
    let mut cuda = start()?;
    cuda.enter(0)?;
    let function = cuda.compile(&mix())?;
    cuda.time(&function, &[Grid { launch: MIX, arrays: [0; 3] }])?;
    cuda.leave();
    Ok(())
}

/// The kernel of [`run_mix`], and its instructions of threads: DADD, DMUL, DFMA, FADD, FMUL, FFMA, HADD2, HMUL2, HFMA2.
pub fn mix_expected() -> (&'static str, [f64; 9]) {
    (MIX_NAME, mix_counts())
}

fn start() -> Result<Cuda, GpuError> {
    let library = std::env::var_os(driver::LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    Cuda::start(library.as_deref())?.ok_or_else(|| GpuError::Library {
        path: "libcuda.so.1".into(),
        reason: "no such file; install the NVIDIA driver".into(),
    })
}

fn launch(cuda: &mut Cuda, known: &Known) -> Result<(), GpuError> {
    let mut arrays = [0; 3];
    for (array, bytes) in arrays.iter_mut().zip([known.bytes_a, known.bytes_b, known.bytes_c]) {
        if bytes > 0 {
            *array = cuda.allocate(bytes)?;
        }
    }
    let function = cuda.compile(&known.kernel)?;
    cuda.time(&function, &[Grid { launch: known.launch, arrays }; LAUNCHES])?;
    for array in arrays.into_iter().filter(|array| *array != 0) {
        cuda.free(array)?;
    }
    Ok(())
}

/// One thread follows pointers through DRAM: nothing hides their latency.
fn lonely(cuda: &mut Cuda) -> Result<(), GpuError> {
    let (places, order) = (cuda.allocate(HOPS * STRIDE)?, cuda.allocate(HOPS * 8)?);
    // A step of an odd number of places meets each once.
    let offsets = (0..HOPS).map(|hop| (hop * 7919) % HOPS * STRIDE);
    let bytes: Vec<u8> = offsets.flat_map(u64::to_ne_bytes).collect();
    let host = cuda.host_memory(HostKind::Pageable, bytes.len() as u64)?;
    cuda.write_host(host, &bytes)?;
    cuda.copy(Direction::In, order, host, bytes.len() as u64)?;
    let linked = cuda.compile(&link())?;
    let wide = Launch { blocks: 64, threads: 256, iters: 1, count: HOPS };
    cuda.time(&linked, &[Grid { launch: wide, arrays: [places, order, 0] }])?;
    let cold = cuda.compile(&flush())?;
    let swept = cuda.allocate(COPIED)?;
    let sweep = Launch { blocks: 264, threads: 1024, iters: 1, count: COPIED / 16 };
    cuda.time(&cold, &[Grid { launch: sweep, arrays: [swept, 0, 0] }])?;
    let chased = cuda.compile(&chase(Cached::L2Only))?;
    let alone = Launch { blocks: 1, threads: 1, iters: 1, count: HOPS };
    cuda.time(&chased, &[Grid { launch: alone, arrays: [places, 0, 0] }; LAUNCHES])?;
    Ok(())
}

/// The class that a kernel of this name was built for.
pub fn expected(name: &str) -> Option<Class> {
    Some(match name {
        "y_fp64_fma" | "y_fp64_add" => Class::GpuFp64,
        "y_fp32_fma" | "y_fp32_mul" => Class::GpuFp32,
        "y_fp32_fma_8of32" => Class::GpuIssue,
        "y_fp16_fma" | "y_bf16_fma" => Class::GpuFp16,
        "y_mma_bf16" | "y_mma_tf32" | "y_mma_s8" => Class::GpuTensor,
        _ if name.starts_with("y_wgmma_") => Class::GpuTensor,
        "y_triad" | "y_copy" | "y_write" => Class::GpuDramBandwidth,
        "y_l2_read" => Class::GpuL2Bandwidth,
        "y_shared" | "y_shared_stride32" => Class::GpuSharedBandwidth,
        _ if name == empty().name => Class::GpuLaunch,
        _ if name == chase(Cached::L2Only).name => Class::GpuLatency,
        _ => return None,
    })
}
