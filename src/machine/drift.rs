//! Whether cached ceilings still hold: a few probes that end within 0.3 s whatever the load.

use std::time::{Duration, Instant};

use super::bench::timing::{Plan, Rate, Work};
use super::ceilings::bandwidth;
use super::error::MachineError;
use super::kernels::x86_64::{chase, fp, opcodes::floating};
use super::lab::Lab;
use super::states::Looks;
use crate::isa::operation::{FpOp, Precision};
use crate::profile::clock;
use crate::profile::machine::{Ceiling, Machine};

/// Time after which no further repetitions of a probe begin: of the roof, of the near loads and stores, of the memory.
const ENDS: [Duration; 3] = [Duration::from_millis(80), Duration::from_millis(100), Duration::from_millis(200)];

/// The memory is looked at only if its buffer can be touched in the time that is left.
const LAST_START: Duration = Duration::from_millis(130);

/// The clock or the pipes moved by more than this.
const CORE_TOLERANCE: f64 = 0.04;

/// No CPU's clock moves further than this: what was kept is no measurement of this host.
const CLOCKS: std::ops::Range<f64> = 0.2..5.0;

/// The memory system differs by this much, or by its spread if that is more. Neighbours alone are no reason to.
const MEMORY_TOLERANCE: f64 = 0.25;

/// Largest buffer for the probe of memory: touching it takes most of the probe's time.
const LARGEST_PROBE: u64 = 256 << 20;

/// What has moved.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Drift {
    /// The core, if beyond tolerance.
    pub core: Option<Core>,
    /// How the memory looks now, if the CPUs are placed otherwise or reading is beyond tolerance.
    pub memory: Option<Looks>,
}

impl Drift {
    /// How many times the clock of before the core has, if that has moved.
    pub fn clock(&self) -> Option<f64> {
        match self.core {
            Some(Core::Clock(factor)) => Some(factor),
            _ => None,
        }
    }

    /// Whether what was measured no longer holds, whatever the clock.
    pub fn is_of_more_than_the_clock(&self) -> bool {
        self.core == Some(Core::Pipes) || self.memory.is_some()
    }
}

/// How the core has moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Core {
    /// It does the same in a cycle, of which there are so many times as many in a second.
    Clock(f64),
    /// It does not.
    Pipes,
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

fn core(lab: &Lab, cached: &Machine, start: Instant) -> Result<Option<Core>, MachineError> {
    let threads = lab.most();
    let width = lab.features.widest();
    let op = if lab.features.has(FpOp::Fma, width) { FpOp::Fma } else { FpOp::Add };
    let Some(opcode) = floating(op, Precision::Dp, width, lab.features) else { return Ok(None) };
    let id = format!("dp.{}.{}", op.name(), width.name());
    let Some(known) = cached.ceiling(&id, threads as u32) else { return Ok(None) };
    let kernel = fp::throughput("drift", &[opcode], Precision::Dp, width, lab.features)?;
    let amount = (kernel.work.flops * threads as u64) as f64;
    let plan = Plan { seconds: 500e-6, repetitions: 12, steady: 0.01, rounds: 2, fastest: 4 };
    let now = lab.watch().rate_until(&Work::on_registers(kernel, threads), amount, plan, Some(start + ENDS[0]))?;
    if let Some(moved) = evidence(now).and_then(|now| judged(now, known)) {
        return Ok(Some(moved));
    }
    // The chain warms nothing but tells whether store forwarding still is what it was: a different host shows here.
    let Some(latency) = cached.value("lat.forward.gpr", 1) else { return Ok(None) };
    let forward = chase::forward(lab.features)?;
    let steps = forward.work.payload as f64;
    let forward = lab.watch().rate_until(&Work::on_registers(forward, 1), steps, plan, Some(start + ENDS[1]))?;
    let moved = |now: Rate| (1.0 / now.best / latency - 1.0).abs() > 0.25;
    Ok(evidence(forward).is_some_and(moved).then_some(Core::Pipes))
}

/// What moved where the roof is reached at `now`.
fn judged(now: Rate, known: &Ceiling) -> Option<Core> {
    let (value, clock_hz) = (known.value?, known.clock_hz?);
    let (moved, clock) = (now.best / value, now.clock_hz / clock_hz);
    if (moved / clock - 1.0).abs() > CORE_TOLERANCE || !CLOCKS.contains(&clock) {
        Some(Core::Pipes)
    } else {
        ((moved - 1.0).abs() > CORE_TOLERANCE).then_some(Core::Clock(moved))
    }
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
    (!rate.disturbed && !rate.shared && rate.clock_spread < CORE_TOLERANCE / 2.0).then_some(rate)
}

/// What the core does at `factor` times the clock that it was measured at: the same in a cycle.
pub fn rescale(ceilings: &mut [Ceiling], factor: f64) {
    let of_core = |c: &&mut Ceiling| clock::follows(&c.id) && c.clock_hz.is_some();
    for ceiling in ceilings.iter_mut().filter(of_core) {
        ceiling.value = ceiling.value.map(|v| clock::scaled(&ceiling.unit, v, factor));
        ceiling.clock_hz = ceiling.clock_hz.map(|hz| hz * factor);
    }
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
            clock_spread: 0.0,
            disturbed: false,
            shared: false,
            stolen_s: 0.0,
            placement: None,
        }
    }

    #[test]
    fn a_slower_clock_is_told_from_slower_pipes() {
        let roof = known("dp.fma.512", 128e9, "flop/s");
        assert_eq!(judged(now(126e9, 3.95e9), &roof), None);
        assert_eq!(judged(now(112e9, 3.5e9), &roof), Some(Core::Clock(0.875)));
        assert_eq!(judged(now(64e9, 4e9), &roof), Some(Core::Pipes));
        assert_eq!(judged(now(12.8e9, 0.4e9), &roof), Some(Core::Pipes), "a clock that no CPU has");
        // At half the clock, yet as fast: other pipes.
        assert_eq!(judged(now(128e9, 2e9), &roof), Some(Core::Pipes));
    }

    #[test]
    fn a_disturbed_probe_is_no_evidence() {
        assert!(evidence(now(1.0, 1.0)).is_some());
        assert!(evidence(Rate { shared: true, ..now(1.0, 1.0) }).is_none());
        assert!(evidence(Rate { disturbed: true, ..now(1.0, 1.0) }).is_none());
    }

    #[test]
    fn at_another_clock_a_cycle_does_the_same() {
        let mut all = [
            known("dp.fma.512", 128e9, "flop/s"),
            known("lat.dp.add.after.add.scalar", 1e-9, "s"),
            known("overlap.window", 66.0, "op"),
            known("dram.read", 70e9, "byte/s"),
        ];
        rescale(&mut all, 0.5);
        assert_eq!(all.iter().map(|c| c.value).collect::<Vec<_>>(), [64e9, 2e-9, 66.0, 70e9].map(Some));
        assert_eq!((all[0].clock_hz, all[3].clock_hz), (Some(2e9), Some(4e9)));
    }
}
