//! One sentence of advice for each thing that holds a kernel, with its evidence.

use rprof_profile::device::{Advice, Counts, Kernel, Shape, Term, Uncounted};
use rprof_profile::gpu::Gpu;
use rprof_profile::number::{percent, seconds, si, significant};
use rprof_profile::vocabulary::Class;

use super::class::{Verdict, empty};
use super::occupancy::{LaunchOccupancy, Limit};
use super::savings;

/// A warp instruction without bank conflicts takes at most this many wavefronts: 32 lanes of 16 bytes.
const WAVEFRONTS: f64 = 4.0;
/// This number of sectors for each access of a warp proves that not all of their bytes are used. More than 32 are no access' own:
/// copies to shared memory that go past the registers have sectors, and are not among these instructions.
const SCATTERED: std::ops::RangeInclusive<f64> = 16.5..=32.0;
/// Fewer working lanes than this of a warp's 32 are few. (A block of one thread has one.)
const FEW_LANES: f64 = 16.0;
/// FLOPs of an instruction from which all are FMAs, to three digits.
const ALL_FMAS: f64 = 1.9995;
/// Bytes of a wavefront.
const WAVEFRONT: f64 = 128.0;

/// All that advice is made of.
pub struct Case<'a> {
    pub kernel: &'a Kernel,
    pub gpu: Option<&'a Gpu>,
    pub verdict: &'a Verdict,
    pub terms: &'a [Term],
    pub uncounted: Option<&'a Uncounted>,
}

/// On the class, on the last wave, on memory of threads.
pub fn of(case: &Case<'_>) -> Vec<Advice> {
    let Case { kernel, gpu, verdict, terms, .. } = *case;
    let on_class = Advice {
        cause: verdict.class.name().into(),
        seconds: savings::of_class(kernel, terms, verdict, gpu),
        text: class(case),
    };
    let tail = savings::of_tail(kernel, verdict, gpu).and_then(|seconds| tail(case, seconds));
    [Some(on_class), tail, spills(case), scattered(case), divergent(case)].into_iter().flatten().collect()
}

/// Accesses that touch more sectors than their bytes can fill: 32 threads with 16 bytes each fill 16.
fn scattered(case: &Case<'_>) -> Option<Advice> {
    // Code for the tensor cores loads in that way.
    let counts = case.kernel.counts.as_ref().filter(|counts| counts.tensor.is_empty())?;
    let each = counts.global_sectors? / counts.global_instructions.filter(|n| *n > 0.0)?;
    let text = format!(
        "An access of a warp to global memory touches {} sectors of 32 bytes on the mean, and 16 hold all that 32 threads can ask for: \
         its accesses are not coalesced, so let neighbouring threads access neighbouring addresses.",
        significant(each)
    );
    SCATTERED.contains(&each).then(|| Advice { cause: "uncoalesced".into(), seconds: None, text })
}

/// Warps in which many lanes do nothing.
fn divergent(case: &Case<'_>) -> Option<Advice> {
    let counts = case.kernel.counts.as_ref()?;
    let lanes = counts.thread_instructions? / counts.instructions.filter(|n| *n > 0.0)?;
    let text = format!(
        "On the mean {} of the 32 lanes of its warps work: sort the work so that the threads of a warp take the same branches.",
        significant(lanes)
    );
    (lanes < FEW_LANES).then(|| Advice { cause: "divergence".into(), seconds: None, text })
}

fn class(case: &Case<'_>) -> String {
    match (case.verdict.class, case.kernel.counts.as_ref()) {
        (Class::GpuLaunch, _) => launch(case),
        (Class::GpuLatency, _) => latency(case),
        (Class::Unknown, None) => match case.uncounted {
            Some(why) => format!("Its FLOPs and bytes were not counted ({}): {}.", why.reason, why.fix),
            None => "Its launches were not counted: only its time is known.".into(),
        },
        (Class::Unknown, Some(_)) => unknown(case),
        (class, Some(counts)) => held(case, class, counts),
        (class, None) => format!("It is held by {class}."),
    }
}

/// `3.25 TB/s, 79 % of gpu.dram.triad`
fn at(case: &Case<'_>, work: Option<f64>, unit: &str) -> String {
    let counted_s = case.kernel.counts.as_ref().map_or(0.0, |counts| counts.seconds);
    let rate = work.filter(|_| counted_s > 0.0).map(|work| si(work / counted_s, unit));
    let binding = case.verdict.binding.as_ref();
    let share = binding.map(|t| format!("{} of {}", percent(t.seconds / case.kernel.seconds), t.ceiling));
    rate.into_iter().chain(share).collect::<Vec<_>>().join(", ")
}

fn held(case: &Case<'_>, class: Class, counts: &Counts) -> String {
    let launches = counts.launches.max(1) as f64;
    let each = |work: Option<f64>| si(work.unwrap_or(0.0) / launches, "B");
    let tensor: f64 = counts.tensor.iter().map(|work| work.operations).sum();
    match class {
        Class::GpuDramBandwidth => format!(
            "A launch moves {} between memory and GPU ({}): fuse it with the kernels that write its inputs or read its results, or \
             use smaller types.",
            each(counts.dram()),
            at(case, counts.dram(), "B/s")
        ),
        Class::GpuL2Bandwidth => {
            let ratio = counts.l2.zip(counts.dram().filter(|bytes| *bytes > 0.0)).map(|(l2, dram)| l2 / dram);
            let times = ratio
                .filter(|r| *r > 1.0)
                .map_or(String::new(), |r| format!(", {} times those of memory", significant(r)));
            format!(
                "A launch reads or writes at least {} of L2{times} ({}): keep what several threads of a block use in shared memory \
                 or registers.",
                each(counts.l2),
                at(case, counts.l2, "B/s")
            )
        }
        Class::GpuL1Bandwidth => format!(
            "A launch moves {} between L1 and registers ({}): let each thread compute several results from what it has loaded.",
            each(counts.l1),
            at(case, counts.l1, "B/s")
        ),
        Class::GpuSharedBandwidth => format!(
            "A launch takes {} wavefronts of {WAVEFRONT} B of shared memory ({}){}.",
            si(counts.shared.unwrap_or(0.0) / launches / WAVEFRONT, ""),
            at(case, counts.shared, "B/s"),
            conflicts(counts)
                .unwrap_or_else(|| ": hold more in registers, and check its strides for bank conflicts".into())
        ),
        Class::GpuTensor => format!(
            "The tensor cores are busy ({}): use a smaller type of operands, where the accuracy allows that.",
            at(case, Some(tensor), "op/s")
        ),
        Class::GpuIssue => format!(
            "Its warps issue nearly an instruction a clock ({}): most of these are not FLOPs or have lanes switched off, so use \
             wider loads, and avoid divergent branches and index arithmetic.",
            at(case, None, "")
        ),
        _ => arithmetic(case, class, counts),
    }
}

fn arithmetic(case: &Case<'_>, class: Class, counts: &Counts) -> String {
    let (flops, instructions, remedy) = match class {
        Class::GpuFp64 => (
            counts.fp64,
            counts.fp64_instructions,
            "use the tensor cores for products of matrices (DMMA), or single precision where that is enough",
        ),
        Class::GpuFp32 => (
            counts.fp32,
            counts.fp32_instructions,
            "use the tensor cores for products of matrices (TF32, BF16), or half precision where that is enough",
        ),
        _ => (counts.fp16, None, "use the tensor cores for products of matrices"),
    };
    format!(
        "Its {} arithmetic runs at {} ({}): {remedy}.",
        class.name().trim_start_matches("gpu-").to_uppercase(),
        at(case, flops, "FLOP/s"),
        balance(flops, instructions)
    )
}

/// The share of FMAs in the instructions that make the FLOPs.
fn balance(flops: Option<f64>, instructions: Option<f64>) -> String {
    match flops.zip(instructions.filter(|n| *n > 0.0)) {
        Some((flops, n)) if flops / n > ALL_FMAS => "all of its instructions for that are FMAs".into(),
        Some((flops, n)) => {
            format!(
                "{} of its instructions for that are FMAs; each of the others does half as much",
                percent(flops / n - 1.0)
            )
        }
        None => "a roof of multiply-adds: additions and multiplications apart reach half of it".into(),
    }
}

/// More wavefronts than conflict-free instructions could make. Operands of tensor cores take many wavefronts an instruction.
fn conflicts(counts: &Counts) -> Option<String> {
    let instructions = counts.instructions.filter(|n| *n > 0.0 && counts.tensor.is_empty())?;
    let each = counts.shared? / WAVEFRONT / instructions;
    (each > WAVEFRONTS).then(|| {
        format!(
            ": these are {} for each of its warp instructions of any kind, which proves bank conflicts, so pad the rows or swizzle the \
             index",
            significant(each)
        )
    })
}

fn launch(case: &Case<'_>) -> String {
    let k = case.kernel;
    let cost = case.gpu.and_then(|gpu| gpu.value(super::terms::LAUNCH));
    let cost = cost.map_or("some microseconds".into(), seconds);
    format!(
        "A launch costs the host {cost} and keeps the GPU busy for {}, {} times: fuse it with its neighbours, or put the launches into \
         a CUDA graph.",
        seconds(k.seconds / k.launches.max(1) as f64),
        k.launches
    )
}

fn latency(case: &Case<'_>) -> String {
    let shape = case.kernel.shapes.first();
    let occupancy = shape.zip(case.gpu).and_then(|(shape, gpu)| LaunchOccupancy::of(shape, gpu));
    let (Some(shape), Some(r), Some(gpu)) = (shape, occupancy, case.gpu) else {
        return "Too few of its instructions are under way at once: give each thread independent work.".into();
    };
    let empty = empty(case.kernel, gpu);
    let evidence = format!("Its {} fill {} of the GPU's thread slots", words(shape), percent(r.fill()));
    if empty > 0.0 {
        let blocks = shape.grid.iter().map(|n| u64::from(*n)).product::<u64>();
        return format!(
            "{evidence}, and {} of {} multiprocessors get no block: divide the work into more blocks, or run it beside other kernels.",
            u64::from(gpu.multiprocessors).saturating_sub(blocks),
            gpu.multiprocessors
        );
    }
    if r.waves < 1.0 {
        return format!(
            "{evidence}: launch more or larger blocks, or give each thread several independent operations."
        );
    }
    let remedy = match r.limit {
        Limit::Registers => {
            format!("{} registers a thread allow no more; limit them (__launch_bounds__)", shape.registers)
        }
        Limit::Shared => format!("{} B of shared memory a block allow no more; use less of it", shape.shared),
        Limit::Blocks => "no more blocks fit a multiprocessor; make them larger".into(),
        Limit::Threads => "blocks of this size leave a rest; choose another size".into(),
    };
    format!("{evidence}: {remedy}, or give each thread several independent operations.")
}

/// `1056×256 threads`
fn words(shape: &Shape) -> String {
    let product = |sides: [u32; 3]| sides.into_iter().map(u64::from).product::<u64>();
    format!("{}×{} threads", product(shape.grid), product(shape.block))
}

fn unknown(case: &Case<'_>) -> String {
    match &case.verdict.binding {
        Some(term) => format!(
            "No ceiling explains its time: the nearest, {}, takes {} of it, and atomics, waiting at barriers, uneven blocks and \
             latency have no figures here.",
            term.ceiling,
            percent(term.seconds / case.kernel.seconds)
        ),
        None => "The GPU's ceilings are not known, so that its counts explain nothing: run `rprof machine`.".into(),
    }
}

fn tail(case: &Case<'_>, saved_s: f64) -> Option<Advice> {
    let shape = case.kernel.shapes.first()?;
    let waves = LaunchOccupancy::of(shape, case.gpu?)?.waves;
    let text = format!(
        "Its {} make {} waves, the last of which is not full: choose blocks that fill whole waves, or fewer blocks that loop over \
         the work.",
        words(shape),
        significant(waves)
    );
    Some(Advice { cause: "tail".into(), seconds: Some(saved_s), text })
}

/// Spilled registers and arrays of threads go through L1 and further.
fn spills(case: &Case<'_>) -> Option<Advice> {
    let shape = case.kernel.shapes.first().filter(|shape| shape.local > 0)?;
    let of_memory = case.verdict.class.name().ends_with("-bandwidth");
    of_memory.then(|| Advice {
        cause: "local-memory".into(),
        seconds: None,
        text: format!(
            "Each thread has {} B of local memory (spilled registers, arrays), which goes through L1 and L2: allow more registers, or \
             index arrays by constants.",
            shape.local
        ),
    })
}
