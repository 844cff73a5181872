//! Ceilings of registers, shared memory, L1, L2 and DRAM: in each round every kernel runs.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use crate::gpu::campaign::{Campaign, LAUNCH_S, unit};
use crate::gpu::driver::{Function, Grid};
use crate::gpu::error::GpuError;
use crate::gpu::log;
use crate::gpu::ptx::{
    Access, Cached, Kernel, Operation, Precision, Shape, Stream, Type, dmma, l1_region, mma, scalar, shared, stream,
    working_set,
};
use crate::suite::campaign::Effort;
use rprof_profile::machine::Missing;

/// Rounds of a full and of a quick measurement.
const ROUNDS: [usize; 2] = [6, 3];
/// Launches of a kernel in one round.
const LAUNCHES: usize = 3;

/// One way to measure a ceiling. Those of one id are alternatives: the best one of each round counts.
struct Entry {
    id: &'static str,
    kernel: Kernel,
    grid: Grid,
    tensor: bool,
}

/// One way, compiled, with as many trips as it needs.
struct Ready {
    id: &'static str,
    function: Rc<Function>,
    grid: Grid,
    tensor: bool,
}

/// Measures all of them.
///
/// # Errors
/// [`GpuError`] if nothing more can be measured on this GPU.
pub fn measure(campaign: &mut Campaign) -> Result<(), GpuError> {
    let quick = campaign.effort == Effort::Quick;
    let mut entries = if quick { Vec::new() } else { arithmetic(campaign) };
    if quick {
        entries.extend(arithmetic(campaign).into_iter().filter(|e| ["gpu.fp64.fma", "gpu.fp32.fma"].contains(&e.id)));
    }
    entries.extend(memory(campaign).into_iter().filter(|e| !quick || super::plan::QUICK.contains(&e.id)));
    let mut ready = Vec::new();
    for entry in entries {
        let id = entry.id;
        match prepare(campaign, entry) {
            Ok(one) => ready.extend(one),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => campaign.fail(&[id], &error),
        }
    }
    for round in 0..ROUNDS[usize::from(quick)] {
        if round > 1 && Instant::now() > campaign.deadline {
            break;
        }
        one_round(campaign, &ready)?;
    }
    Ok(())
}

fn prepare(campaign: &mut Campaign, entry: Entry) -> Result<Option<Ready>, GpuError> {
    let Entry { id, kernel, grid, tensor } = entry;
    let Some(function) = campaign.function(&kernel)? else {
        let reason = format!("{} needs compute capability {}.{}", kernel.name, kernel.needs.major, kernel.needs.minor);
        campaign.ledger.missing(id, unit(&kernel), Missing::Host, &reason);
        return Ok(None);
    };
    let grid = campaign.aim(&function, grid, LAUNCH_S)?;
    if tensor {
        campaign.last_tensor = Some(Instant::now());
    }
    Ok(Some(Ready { id, function, grid, tensor }))
}

fn one_round(campaign: &mut Campaign, ready: &[Ready]) -> Result<(), GpuError> {
    let mut best: BTreeMap<&str, (f64, Option<f64>, &'static str)> = BTreeMap::new();
    for one in ready {
        let (rate, clock_hz) = campaign.rate(&one.function, one.grid, LAUNCHES)?;
        if one.tensor {
            campaign.last_tensor = Some(Instant::now());
        }
        log::line(|| {
            let (name, iters) = (&one.function.kernel.name, one.grid.launch.iters);
            format!("{}: {rate:.5e} at {:.0} MHz ({name}, {iters} trips)", one.id, clock_hz.unwrap_or(0.0) / 1e6)
        });
        let found = (rate, clock_hz, unit(&one.function.kernel));
        let known = best.entry(one.id).or_insert(found);
        if rate > known.0 {
            *known = found;
        }
    }
    for (id, (rate, clock_hz, unit)) in best {
        campaign.ledger.note(id, unit, rate, clock_hz);
    }
    Ok(())
}

/// Chains × unroll and grids that reach the roofs on compute capability 9.0.
fn arithmetic(campaign: &Campaign) -> Vec<Entry> {
    use {Operation::*, Precision::*};
    let scalars = [
        ("gpu.fp64.fma", Fma, F64, 32),
        ("gpu.fp64.add", Add, F64, 32),
        ("gpu.fp64.mul", Mul, F64, 32),
        ("gpu.fp32.fma", Fma, F32, 32),
        ("gpu.fp32.add", Add, F32, 32),
        ("gpu.fp32.mul", Mul, F32, 32),
        ("gpu.fp16.fma", Fma, F16, 32),
        ("gpu.fp16.add", Add, F16, 32),
        ("gpu.fp16.mul", Mul, F16, 32),
        ("gpu.bf16.fma", Fma, Bf16, 16),
        ("gpu.bf16.add", Add, Bf16, 16),
        ("gpu.bf16.mul", Mul, Bf16, 16),
        ("gpu.int32.mad", Fma, I32, 16),
        ("gpu.ex2", Ex2, F32, 16),
    ];
    let of_all = campaign.grid(4, 256, 0, [campaign.arena.at; 3]);
    let entry = |id, kernel, tensor| Entry { id, kernel, grid: of_all, tensor };
    let mut entries: Vec<Entry> =
        scalars.map(|(id, op, of, unroll)| entry(id, scalar(op, of, 8, unroll), false)).into();
    let types = [
        ("gpu.mma.bf16", Type::Bf16),
        ("gpu.mma.f16", Type::F16),
        ("gpu.mma.tf32", Type::Tf32),
        ("gpu.mma.s8", Type::S8),
    ];
    entries.extend(types.map(|(id, kind)| entry(id, mma(kind, 8, 4), true)));
    entries.push(entry("gpu.mma.fp64", dmma(Shape::M16N8K16, 4, 4), true));
    entries.push(entry("gpu.mma.fp64", dmma(Shape::M8N8K4, 8, 4), true));
    entries
}

/// Streams and repeated reads. The arrays of a stream share the arena.
fn memory(campaign: &Campaign) -> Vec<Entry> {
    let (base, bytes) = (campaign.arena.at, campaign.arena.bytes);
    let mut entries = Vec::new();
    let mut add = |id, kernel, grid| entries.push(Entry { id, kernel, grid, tensor: false });
    let streams = [
        ("gpu.dram.read", Stream::Read, 8, 1),
        ("gpu.dram.copy", Stream::Copy, 4, 2),
        ("gpu.dram.triad", Stream::Triad, 4, 3),
        ("gpu.dram.update", Stream::Update, 4, 1),
        ("gpu.dram.write", Stream::Write, 4, 1),
    ];
    for (id, kind, in_flight, arrays) in streams {
        let each = (bytes / arrays) & !0xfffff;
        let places = [base, base + (arrays > 1) as u64 * each, base + (arrays > 2) as u64 * 2 * each];
        for (per_sm, threads) in [campaign.full(), (campaign.gpu.threads_per_multiprocessor / 256, 256)] {
            add(id, stream(kind, in_flight), campaign.grid(per_sm, threads, each / 16, places));
        }
    }
    let (at, (per_sm, threads)) = ([base, 0, 0], campaign.full());
    for part in [8, 4, 2] {
        let set = (campaign.gpu.l2_bytes / part).max(1 << 20) / 16;
        add("gpu.l2.read", working_set(Cached::L2Only), campaign.grid(per_sm, threads, set, at));
    }
    add("gpu.l1.read", l1_region(), campaign.grid(1, 1024, campaign.l1_set() / 16, at));
    add("gpu.l1.read", working_set(Cached::L1AndL2), campaign.grid(per_sm, threads, campaign.l1_set() / 16, at));
    let accesses = [
        ("gpu.shared.read", Access::Read),
        ("gpu.shared.write", Access::Write),
        ("gpu.shared.stride2", Access::Stride2),
        ("gpu.shared.stride32", Access::Stride32),
    ];
    for (id, access) in accesses {
        add(id, shared(access), campaign.grid(per_sm, threads, 0, at));
    }
    entries
}
