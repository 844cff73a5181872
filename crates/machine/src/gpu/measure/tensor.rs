//! Roofs of the tensor cores: a burst after a pause, and the sustained rate.
//!
//! A GPU reaches its power limit after some tens of milliseconds of tensor work and lowers its clock, so a burst measured after other
//! tensor work is 5 to 10 % low. The burst is the best of launches 2 to 9, of 4 ms each, after a pause without such work; the pause is
//! filled with measurements that take little power.

use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::estimate::class::Class;
use crate::gpu::campaign::Campaign;
use crate::gpu::catalogue;
use crate::gpu::driver::{Function, Grid, MOST_LAUNCHES, Shot};
use crate::gpu::error::GpuError;
use crate::gpu::log;
use crate::gpu::ptx::{Kernel, Type, mma, wgmma};
use rprof_profile::machine::{Ceiling, How, Missing, Quality};

/// Time of one launch.
const LAUNCH_S: f64 = 0.004;
/// The pause before a burst.
pub const PAUSE: Duration = Duration::from_millis(800);
/// Launches that are the burst, counted from 0.
const BURST: Range<usize> = 1..9;
/// Seconds since the first launch that are sustained work.
const SUSTAINED_S: Range<f64> = 0.2..0.6;
/// Launches of 4 ms that reach its end, at the lower clock, too.
const SUSTAINED_LAUNCHES: usize = 155;
/// Two medians of one interval differ by less.
const LEAST_INTERVAL: f64 = 0.015;

/// A type that is measured.
pub struct Kind {
    operand: Type,
    /// Id of the burst.
    pub id: &'static str,
    /// Id of the same by `mma.sync`.
    mma: Option<&'static str>,
    /// Id of sustained work.
    pub sustained: Option<&'static str>,
}

/// All types, the one of a quick measurement first.
pub const KINDS: [Kind; 5] = [
    Kind {
        operand: Type::Bf16,
        id: "gpu.tensor.bf16",
        mma: Some("gpu.mma.bf16"),
        sustained: Some("gpu.tensor.bf16.sustained"),
    },
    Kind {
        operand: Type::F16,
        id: "gpu.tensor.f16",
        mma: Some("gpu.mma.f16"),
        sustained: Some("gpu.tensor.f16.sustained"),
    },
    Kind {
        operand: Type::Tf32,
        id: "gpu.tensor.tf32",
        mma: Some("gpu.mma.tf32"),
        sustained: Some("gpu.tensor.tf32.sustained"),
    },
    Kind { operand: Type::E4m3, id: "gpu.tensor.fp8", mma: None, sustained: Some("gpu.tensor.fp8.sustained") },
    Kind {
        operand: Type::S8,
        id: "gpu.tensor.int8",
        mma: Some("gpu.mma.s8"),
        sustained: Some("gpu.tensor.int8.sustained"),
    },
];

/// A type's kernel, with as many trips as it needs.
pub struct Ready {
    function: Rc<Function>,
    grid: Grid,
}

/// Compiles the kernel of a type, which is no tensor work and may fill a pause. Returns it with its blocks on a multiprocessor; `None`
/// if this GPU has no such instruction.
///
/// # Errors
/// [`GpuError`].
pub fn compile(campaign: &mut Campaign, kind: &Kind) -> Result<Option<(Rc<Function>, u32)>, GpuError> {
    let compiled = match campaign.function(&wgmma(kind.operand)) {
        Err(error) if !error.is_fatal() => {
            log::line(|| error.to_string());
            None
        }
        other => other?,
    };
    match compiled {
        Some(function) => Ok(Some((function, 1))),
        None => Ok(campaign.function(&mma(kind.operand, 8, 4))?.map(|function| (function, 4))),
    }
}

/// Compiles the kernel of a type and finds its number of trips: tensor work, so it must be done ahead of the pause.
///
/// # Errors
/// [`GpuError`].
pub fn prepare(campaign: &mut Campaign, kind: &Kind) -> Result<Option<Ready>, GpuError> {
    let Some((function, per_sm)) = compile(campaign, kind)? else {
        let Kernel { needs, .. } = mma(kind.operand, 8, 4);
        let reason = format!("it needs compute capability {}.{}", needs.major, needs.minor);
        campaign.ledger.missing(kind.id, catalogue::unit(kind.id), Missing::Host, &reason);
        return Ok(None);
    };
    let grid = campaign.grid(per_sm, 256, 0, [campaign.arena.at; 3]);
    let grid = campaign.aim(&function, grid, LAUNCH_S)?;
    campaign.last_tensor = Some(Instant::now());
    Ok(Some(Ready { function, grid }))
}

/// Runs the burst, and goes on if sustained work is asked for, too. The pause is over.
///
/// # Errors
/// [`GpuError`].
pub fn burst(campaign: &mut Campaign, kind: &Kind, ready: &Ready, go_on: bool) -> Result<(), GpuError> {
    let sustained = kind.sustained.filter(|_| go_on);
    let n = if sustained.is_some() { SUSTAINED_LAUNCHES.min(MOST_LAUNCHES) } else { BURST.end + 1 };
    let shots = campaign.cuda.time(&ready.function, &vec![ready.grid; n])?;
    campaign.last_tensor = Some(Instant::now());
    let work = ready.function.kernel.work(&ready.grid.launch);
    let unit = catalogue::unit(kind.id);
    let burst = best(&shots, work);
    if let Some(Best { rate, clock_hz, below }) = burst {
        log::line(|| format!("{}: {rate:.5e} at {:.0} MHz", kind.id, clock_hz.unwrap_or(0.0) / 1e6));
        let is_noisy = below > Class::Device.noisy_from();
        let ceiling = Ceiling {
            value: Some(rate),
            clock_hz,
            spread: Some(below.max(LEAST_INTERVAL)),
            quality: if is_noisy { Quality::Noisy } else { Quality::Reproduced },
            reason: is_noisy.then(|| format!("the median launch is {:.0} % below the best", 100.0 * below)),
            ..Ceiling::blank(kind.id, unit, 0)
        };
        campaign.ledger.put(better(campaign, kind, ceiling));
    }
    if let Some(id) = sustained {
        let rate = mean(&shots, work);
        log::line(|| format!("{id}: {rate:?}"));
        if let Some((rate, clock_hz)) = rate {
            let (spread, quality) = (Some(LEAST_INTERVAL), Quality::Reproduced);
            let value = Some(rate);
            campaign.ledger.put(Ceiling { value, clock_hz, spread, quality, ..Ceiling::blank(id, unit, 0) });
        }
        if kind.operand == Type::Bf16 {
            campaign.ledger.sweep("gpu.tensor-rate.bf16", "s", "flop/s", over_time(&shots, work));
        }
    }
    Ok(())
}

/// FP64 has no kernel of its own: its roof is that of `mma.sync`.
pub fn fp64(campaign: &mut Campaign) {
    if let Some(mma) = campaign.ledger.get("gpu.mma.fp64").filter(|c| c.value.is_some()).cloned() {
        campaign.ledger.put(Ceiling { id: "gpu.tensor.fp64".into(), ..mma });
    }
}

/// The burst, or `mma.sync` if that is faster; with a remark on later GPUs, where it is unknown.
fn better(campaign: &Campaign, kind: &Kind, burst: Ceiling) -> Ceiling {
    let other = kind.mma.and_then(|id| campaign.ledger.get(id)).filter(|mma| mma.value > burst.value);
    let mut best = other.map_or(burst, |mma| Ceiling { id: kind.id.into(), how: How::Derived, ..mma.clone() });
    if campaign.gpu.capability.0 > 9 {
        best.reason =
            Some("a lower bound: measured by mma.sync, this GPU's own tensor instructions are not known".into());
    }
    best
}

/// The best launch of a burst.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Best {
    rate: f64,
    clock_hz: Option<f64>,
    /// Share by which the median launch is below it.
    below: f64,
}

fn best(shots: &[Shot], work: f64) -> Option<Best> {
    let mut burst: Vec<&Shot> = shots.get(BURST)?.iter().filter(|shot| shot.seconds > 0.0).collect();
    burst.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let (best, median) = (burst.first()?, burst.get(burst.len() / 2)?);
    Some(Best { rate: work / best.seconds, clock_hz: best.clock_hz, below: 1.0 - best.seconds / median.seconds })
}

/// Mean rate and clock of sustained work.
fn mean(shots: &[Shot], work: f64) -> Option<(f64, Option<f64>)> {
    let mut end = 0.0;
    let late: Vec<&Shot> = shots
        .iter()
        .filter(|shot| {
            let begin = end;
            end += shot.seconds;
            SUSTAINED_S.contains(&begin) && end <= SUSTAINED_S.end
        })
        .collect();
    let seconds: f64 = late.iter().map(|shot| shot.seconds).sum();
    let clocks: Vec<f64> = late.iter().filter_map(|shot| shot.clock_hz).collect();
    let clock_hz = (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64);
    (seconds > 0.0).then(|| (work * late.len() as f64 / seconds, clock_hz))
}

/// The rate of each launch, at its end.
fn over_time(shots: &[Shot], work: f64) -> Vec<(f64, f64)> {
    let mut end = 0.0;
    let point = |shot: &Shot| {
        end += shot.seconds;
        (end, work / shot.seconds)
    };
    shots.iter().filter(|shot| shot.seconds > 0.0).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bf16 series of gpu.md, section 6.
    fn shots() -> Vec<Shot> {
        let rate = |t: f64| match t {
            t if t < 0.004 => 960e12,
            t if t < 0.045 => 967e12,
            _ => 900e12,
        };
        let mut t = 0.0;
        let mut next = |_| {
            let shot = Shot { seconds: 3.87e12 / rate(t), clock_hz: Some(rate(t) / 5.4e5), clocks: 0 };
            t += shot.seconds;
            shot
        };
        (0..SUSTAINED_LAUNCHES).map(&mut next).collect()
    }

    #[test]
    fn burst_and_sustained_are_kept_apart() {
        let shots = shots();
        let burst = best(&shots, 3.87e12).expect("a burst");
        assert!((burst.rate / 967e12 - 1.0).abs() < 1e-9 && burst.below.abs() < 1e-9);
        let (rate, clock_hz) = mean(&shots, 3.87e12).expect("sustained");
        assert!((rate / 900e12 - 1.0).abs() < 1e-9 && clock_hz.is_some_and(|hz| hz < 1.7e9));
        let series = over_time(&shots, 3.87e12);
        assert!(series.len() == shots.len() && series.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(series.last().is_some_and(|(end, _)| *end > SUSTAINED_S.end));
    }
}
