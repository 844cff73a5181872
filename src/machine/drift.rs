//! Whether cached ceilings still hold: a few probes that end within 0.3 s whatever the load.

use std::time::{Duration, Instant};

use super::bench::timing::{Plan, Rate, Work};
use super::ceilings::bandwidth;
use super::error::MachineError;
use super::kernels::x86_64::integer::{self, Scalar};
use super::kernels::x86_64::{fp, opcodes::floating};
use super::lab::Lab;
use super::states::Looks;
use crate::isa::operation::{FpOp, Precision};
use crate::profile::machine::{Ceiling, Machine};

/// Time after which no further repetitions of a probe begin: of the roof, of the divider, of the memory.
const ENDS: [Duration; 3] = [Duration::from_millis(80), Duration::from_millis(100), Duration::from_millis(200)];

/// The memory is looked at only if its buffer can be touched in the time that is left.
const LAST_START: Duration = Duration::from_millis(130);

/// The clock or the pipes moved by more than this.
const CORE_TOLERANCE: f64 = 0.04;

/// The divider takes so much more or less: no work beside it explains that.
const DIVIDER_TOLERANCE: f64 = 0.25;

/// No CPU's clock moves further than this: what was kept is no measurement of this host.
const CLOCKS: std::ops::Range<f64> = 0.2..5.0;

/// The memory system differs by this much, or by its spread if that is more. Neighbours alone are no reason to.
const MEMORY_TOLERANCE: f64 = 0.25;

/// Largest buffer for the probe of memory: touching it takes most of the probe's time.
const LARGEST_PROBE: u64 = 256 << 20;

/// What has moved.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Drift {
    /// The core does not do the same in a cycle. How many of these a second has is no drift: each ceiling says at which clock it was
    /// measured, and is taken at the clock of the run (`profile/clock.rs`).
    pub core: bool,
    /// How the memory looks now, if the CPUs are placed otherwise or reading is beyond tolerance.
    pub memory: Option<Looks>,
}

/// Measures the roof and the DRAM bandwidth at most threads again, and compares them with `cached`.
///
/// Memory is probed where twice the last-level caches fit a buffer that is touched in a tenth of a second. A probe that other
/// work disturbed is no evidence.
///
/// # Errors
/// As the measurement of any ceiling.
pub fn check(lab: &Lab, cached: &Machine) -> Result<Drift, MachineError> {
    let start = Instant::now();
    let core = core(lab, cached, start)?;
    let core_to_core = lab.watch().placement()?.and_then(|at| lab.watch().placements().get(at).cloned());
    let read = if start.elapsed() < LAST_START { memory(lab, start + ENDS[2])? } else { None };
    let looks = Looks { core_to_core, read };
    let differs = looks.has_moved(cached) || read.is_some_and(|read| differs(lab, cached, read));
    Ok(Drift { core, memory: differs.then_some(looks) })
}

fn core(lab: &Lab, cached: &Machine, start: Instant) -> Result<bool, MachineError> {
    let threads = lab.most();
    let width = lab.features.widest();
    let op = if lab.features.has(FpOp::Fma, width) { FpOp::Fma } else { FpOp::Add };
    let Some(opcode) = floating(op, Precision::Dp, width, lab.features) else { return Ok(false) };
    let id = format!("dp.{}.{}", op.name(), width.name());
    let Some(known) = cached.ceiling(&id, threads as u32) else { return Ok(false) };
    let kernel = fp::throughput("drift", &[opcode], Precision::Dp, width, lab.features)?;
    let amount = (kernel.work.flops * threads as u64) as f64;
    let plan = Plan { seconds: 500e-6, pieces: 64, repetitions: 12, steady: 0.01, rounds: 2, fastest: 4 };
    let now = lab.watch().rate_until(&Work::on_registers(kernel, threads), amount, plan, Some(start + ENDS[0]))?;
    if evidence(now).is_some_and(|now| has_moved(now, known)) {
        return Ok(true);
    }
    // A different host shows in the divider. Not in what is stored and loaded again: cores that rename memory do so or not from
    // one moment to the next, in one cycle or in nine.
    let latency = cached.ceiling("lat.int.div", 1).and_then(|c| Some(c.value? * c.clock_hz?));
    let Some(latency) = latency else { return Ok(false) };
    let divider = integer::chain(Scalar::Divide, lab.features)?;
    let steps = divider.work.payload as f64;
    let divider = lab.watch().rate_until(&Work::on_registers(divider, 1), steps, plan, Some(start + ENDS[1]))?;
    let moved = |now: Rate| (now.clock_hz / now.best / latency - 1.0).abs() > DIVIDER_TOLERANCE;
    Ok(evidence(divider).is_some_and(moved))
}

/// Whether the core does more or less in a cycle where the roof is reached at `now`.
fn has_moved(now: Rate, known: &Ceiling) -> bool {
    let (Some(value), Some(clock_hz)) = (known.value, known.clock_hz) else { return false };
    let (moved, clock) = (now.best / value, now.clock_hz / clock_hz);
    (moved / clock - 1.0).abs() > CORE_TOLERANCE || !CLOCKS.contains(&clock)
}

fn memory(lab: &Lab, end: Instant) -> Result<Option<f64>, MachineError> {
    let rate = bandwidth::probe(lab, lab.most(), LARGEST_PROBE, end)?;
    Ok(rate.and_then(evidence).map(|now| now.best))
}

/// Whether `read` byte/s is not what `cached` holds.
fn differs(lab: &Lab, cached: &Machine, read: f64) -> bool {
    let known = cached.ceiling("dram.read", lab.most() as u32).and_then(|c| Some((c.value?, c.spread?)));
    known.is_some_and(|(known, spread)| (read / known - 1.0).abs() > MEMORY_TOLERANCE.max(spread))
}

fn evidence(rate: Rate) -> Option<Rate> {
    (!rate.disturbed && !rate.shared && rate.clock_doubt < CORE_TOLERANCE / 4.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(id: &str, value: f64, unit: &str) -> Ceiling {
        Ceiling { clock_hz: Some(4e9), spread: Some(0.01), ..Ceiling::settled(id, value, unit, 2) }
    }

    fn now(best: f64, clock_hz: f64) -> Rate {
        Rate {
            best,
            typical: best,
            spread: 0.01,
            clock_hz,
            resting_hz: clock_hz,
            clock_doubt: 0.0,
            disturbed: false,
            shared: false,
            stolen_s: 0.0,
            placement: None,
            each: Vec::new(),
            by_itself: true,
        }
    }

    #[test]
    fn a_slower_clock_is_told_from_slower_pipes() {
        let roof = known("dp.fma.512", 128e9, "flop/s");
        let moved = |best, clock_hz| has_moved(now(best, clock_hz), &roof);
        assert!(!moved(126e9, 3.95e9) && !moved(112e9, 3.5e9) && !moved(64e9, 2e9), "as much in a cycle");
        assert!(moved(64e9, 4e9));
        assert!(moved(12.8e9, 0.4e9), "a clock that no CPU has");
        assert!(moved(128e9, 2e9), "at half the clock, yet as fast: other pipes");
    }

    #[test]
    fn a_disturbed_probe_is_no_evidence() {
        assert!(evidence(now(1.0, 1.0)).is_some());
        assert!(evidence(Rate { shared: true, ..now(1.0, 1.0) }).is_none());
        assert!(evidence(Rate { disturbed: true, ..now(1.0, 1.0) }).is_none());
    }
}
