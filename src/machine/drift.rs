//! Whether cached ceilings still hold: a few probes of under 0.3 s.

use super::bench::timing::{Plan, Rate, Work};
use super::ceilings::bandwidth;
use super::error::MachineError;
use super::kernels::x86_64::{chase, fp, opcodes::floating};
use super::lab::Lab;
use crate::isa::operation::{FpOp, Precision};
use crate::profile::machine::Machine;

/// The clock or the pipes moved by more than this: the core is measured again.
const CORE_TOLERANCE: f64 = 0.04;

/// What has moved.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Drift {
    /// Relative change of the roof at most threads, if beyond tolerance.
    pub core: Option<f64>,
    /// Relative change of reading from DRAM at most threads, if beyond tolerance.
    pub memory: Option<f64>,
}

/// The memory system differs by this much, or by its spread if that is more: it is measured again. Neighbours alone are no
/// reason to.
const MEMORY_TOLERANCE: f64 = 0.25;

/// Largest buffer for the probe of memory: touching it takes most of the probe's time.
const LARGEST_PROBE: u64 = 256 << 20;

/// Measures the roof and the DRAM bandwidth at most threads again, and compares them with `cached`.
///
/// Memory is probed where twice the last-level caches fit a buffer that is touched in a tenth of a second.
///
/// # Errors
/// As the measurement of any ceiling.
pub fn check(lab: &Lab, cached: &Machine) -> Result<Drift, MachineError> {
    let threads = lab.most();
    let Some(roof) = cached.value("dp.fma", threads as u32) else { return Ok(Drift::default()) };
    let width = lab.features.widest();
    let op = if lab.features.has(FpOp::Fma, width) { FpOp::Fma } else { FpOp::Add };
    let Some(opcode) = floating(op, Precision::Dp, width, lab.features) else { return Ok(Drift::default()) };
    let id = format!("dp.{}.{}", op.name(), width.name());
    let known = cached.value(&id, threads as u32).unwrap_or(roof);
    let kernel = fp::throughput("drift", &[opcode], Precision::Dp, width, lab.features)?;
    let amount = (kernel.work.flops * threads as u64) as f64;
    let plan = Plan { seconds: 500e-6, repetitions: 12, steady: 0.01, rounds: 2, fastest: 4 };
    let now: Rate = lab.watch().rate(&Work::on_registers(kernel, threads), amount, plan)?;
    // The chain warms nothing but tells whether store forwarding still is what it was: a different host shows here.
    let forward = chase::forward(lab.features)?;
    let steps = forward.work.payload as f64;
    let forward = lab.watch().rate(&Work::on_registers(forward, 1), steps, plan)?;
    let moved = |now: f64, known: f64| (now / known - 1.0).abs();
    let mut worst = now.best / known - 1.0;
    if let Some(latency) = cached.value("lat.forward.gpr", 1)
        && moved(1.0 / forward.best, latency) > worst.abs()
        && moved(1.0 / forward.best, latency) > 0.25
    {
        worst = 1.0 / forward.best / latency - 1.0;
    }
    let memory = memory(lab, cached)?;
    Ok(Drift { core: (worst.abs() > CORE_TOLERANCE).then_some(worst), memory })
}

fn memory(lab: &Lab, cached: &Machine) -> Result<Option<f64>, MachineError> {
    let threads = lab.most();
    let known = cached.ceilings.iter().find(|c| c.id == "dram.read" && c.threads == threads as u32);
    let Some((known, spread)) = known.and_then(|c| Some((c.value?, c.spread?))) else { return Ok(None) };
    let Some(now) = bandwidth::probe(lab, threads, LARGEST_PROBE)? else { return Ok(None) };
    let moved = now.best / known - 1.0;
    Ok((moved.abs() > MEMORY_TOLERANCE.max(spread)).then_some(moved))
}
