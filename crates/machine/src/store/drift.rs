//! Whether cached ceilings still hold: a few probes of some tenths of a second.

use std::time::{Duration, Instant};

use crate::error::MachineError;
use crate::estimate::class::Class;
use crate::harness::timing::{Plan, Rate, Work};
use crate::kernels::x86_64::{fp, opcodes::floating};
use crate::suite::bandwidth;
use crate::suite::campaign::Campaign;
use rprof_isa::operation::{FpOp, Precision};
use rprof_profile::machine::{Ceiling, Machine};

/// The memory is probed only if its buffer can be touched in the remaining time.
const LAST_START: Duration = Duration::from_millis(130);

/// Largest change of a CPU's clock: beyond it, the cached values are no measurement of this host.
const CLOCKS: std::ops::Range<f64> = 0.2..5.0;

/// Largest buffer for the probe of memory: touching it takes most of the probe's time.
const LARGEST_PROBE: u64 = 256 << 20;

/// How many times as fast each part is as when the ceilings were measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Drift {
    /// The core's work per cycle has changed. A different number of cycles per second is no drift: each ceiling records its clock, and is
    /// converted to the clock of the run (`profile/clock.rs`).
    pub core: Option<f64>,
    /// Memory is read faster or slower.
    pub memory: Option<f64>,
}

impl Drift {
    /// By how much the part of the machine behind ceilings of `class` has moved.
    pub fn of(&self, class: Class) -> Option<f64> {
        if class == Class::Beyond { self.memory } else { self.core }
    }
}

/// Largest distance of a probe from a ceiling of `class`: the limit for a round plus the stated interval.
fn tolerance(class: Class) -> f64 {
    class.noisy_from() + class.least_interval(false)
}

/// Measures the roof and the DRAM bandwidth at most threads again, and compares them with `cached`.
///
/// Memory is probed only if twice the last-level caches fit a buffer that can be touched in a tenth of a second. A probe that other work
/// disturbed is no evidence.
///
/// # Errors
/// As the measurement of any ceiling.
pub fn check(campaign: &Campaign, cached: &Machine) -> Result<Drift, MachineError> {
    let start = Instant::now();
    let core = core(campaign, cached)?;
    let read = if start.elapsed() < LAST_START { memory(campaign)? } else { None };
    let known = cached.ceiling("dram.read", campaign.most() as u32).and_then(|c| Some((c.value?, c.spread?)));
    let moved = read.zip(known).map(|(read, (known, spread))| (read / known, spread));
    let memory = moved.filter(|(factor, spread)| (factor - 1.0).abs() > tolerance(Class::Beyond).max(*spread));
    Ok(Drift { core, memory: memory.map(|(factor, _)| factor) })
}

fn core(campaign: &Campaign, cached: &Machine) -> Result<Option<f64>, MachineError> {
    let threads = campaign.most();
    let width = campaign.features.widest();
    let op = if campaign.features.has(FpOp::Fma, width) { FpOp::Fma } else { FpOp::Add };
    let Some(opcode) = floating(op, Precision::Dp, width, campaign.features) else { return Ok(None) };
    let id = format!("dp.{}.{}", op.name(), width.name());
    let Some(known) = cached.ceiling(&id, threads as u32) else { return Ok(None) };
    let kernel = fp::throughput("drift", &[opcode], Precision::Dp, width, campaign.features)?;
    let amount = (kernel.work.flops * threads as u64) as f64;
    let plan = Plan { seconds: 500e-6, pieces: 64, repetitions: 12, fastest: 4 };
    let now = campaign.watch().rate(&Work::on_registers(kernel, threads), amount, plan)?;
    Ok(evidence(now).and_then(|now| has_moved(&now, known)))
}

/// Ratio of the core's work per cycle `now`, at the roof, to the known one, if that or the clock has changed.
fn has_moved(now: &Rate, known: &Ceiling) -> Option<f64> {
    let (value, clock_hz) = known.value.zip(known.clock_hz)?;
    let (moved, clock) = (now.best / value, now.clock_hz / clock_hz);
    let factor = moved / clock;
    ((factor - 1.0).abs() > tolerance(Class::Core) || !CLOCKS.contains(&clock)).then_some(factor)
}

fn memory(campaign: &Campaign) -> Result<Option<f64>, MachineError> {
    let rate = bandwidth::probe(campaign, campaign.most(), LARGEST_PROBE)?;
    Ok(rate.and_then(evidence).map(|now| now.best))
}

fn evidence(rate: Rate) -> Option<Rate> {
    (!rate.disturbed && !rate.shared && rate.clock_doubt < tolerance(Class::Core) / 4.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(best: f64, clock_hz: f64) -> Rate {
        Rate { clock_hz, idle_clock_hz: clock_hz, ..Rate::planned(best) }
    }

    #[test]
    fn a_slower_clock_is_told_from_slower_pipes() {
        let roof = Ceiling { clock_hz: Some(4e9), ..Ceiling::reproduced("dp.fma.512", 128e9, "flop/s", 2) };
        let moved = |best, clock_hz| has_moved(&now(best, clock_hz), &roof);
        assert_eq!([moved(126e9, 3.95e9), moved(112e9, 3.5e9), moved(64e9, 2e9)], [None; 3], "as much in a cycle");
        assert_eq!(moved(64e9, 4e9), Some(0.5));
        assert!(moved(12.8e9, 0.4e9).is_some(), "a clock that no CPU has");
        assert_eq!(moved(128e9, 2e9), Some(2.0), "at half the clock, yet as fast: other pipes");
    }

    #[test]
    fn a_disturbed_probe_is_no_evidence() {
        assert!(evidence(now(1.0, 1.0)).is_some());
        assert!(evidence(Rate { shared: true, ..now(1.0, 1.0) }).is_none());
        assert!(evidence(Rate { disturbed: true, ..now(1.0, 1.0) }).is_none());
    }
}
