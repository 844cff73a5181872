//! Which kernels make which ceiling of a GPU, and when each runs.
//!
//! ```text
//!  rounds of arithmetic and memory ─▶ curves ─▶ trips of a tensor kernel ─▶ [ pause: latencies, link, compiling the next one ] ─▶ burst
//!                                                ▲                                                                                │
//!                                                └────────────────────────── for each type of operands ◀─────────────────────────┘
//! ```

mod latency;
mod link;
pub mod plan;
mod reuse;
mod rounds;
mod sweeps;
mod tensor;

use std::time::{Duration, Instant};

use super::campaign::Campaign;
use super::catalogue;
use super::error::GpuError;
use super::log;
use crate::progress::Progress;
use crate::suite::campaign::Effort;
use plan::Step;
use rprof_profile::machine::Missing;

/// Measures all that `campaign`'s effort asks for.
///
/// # Errors
/// [`GpuError`] if the GPU is lost; earlier measurements are kept.
pub fn all(campaign: &mut Campaign, progress: &mut dyn Progress) -> Result<(), GpuError> {
    match campaign.effort {
        Effort::Quick => quick(campaign, progress),
        Effort::Full => full(campaign, progress),
    }
}

fn quick(campaign: &mut Campaign, progress: &mut dyn Progress) -> Result<(), GpuError> {
    let total = plan::QUICK_STEPS.len() + 1;
    let kind = &tensor::KINDS[0];
    let ready = prepared(campaign, kind)?;
    for (done, step) in plan::QUICK_STEPS.iter().enumerate() {
        tell(campaign, progress, step.name, done, total);
        let rounds = if done == 0 { 1 } else { plan::QUICK_ROUNDS };
        (0..rounds).try_for_each(|_| run(campaign, step))?;
    }
    if let Some(ready) = ready {
        tell(campaign, progress, kind.id, total - 1, total);
        rest(campaign);
        burst(campaign, kind, &ready, false)?;
    }
    Ok(())
}

fn full(campaign: &mut Campaign, progress: &mut dyn Progress) -> Result<(), GpuError> {
    let total = plan::BUSY.len() + tensor::KINDS.len() + 1;
    for (done, step) in plan::BUSY.iter().enumerate() {
        tell(campaign, progress, step.name, done, total);
        run(campaign, step)?;
    }
    tensor::fp64(campaign);
    let mut quiet_rounds = 0;
    let mut fillers = plan::FILLERS.iter();
    for (n, kind) in tensor::KINDS.iter().enumerate() {
        tell(campaign, progress, kind.id, plan::BUSY.len() + n, total);
        let Some(ready) = prepared(campaign, kind)? else { continue };
        quiet_round(campaign)?;
        quiet_rounds += 1;
        if let Some(filler) = fillers.next() {
            run(campaign, filler)?;
        }
        if let Some(next) = tensor::KINDS.get(n + 1) {
            compile_early(campaign, next)?;
        }
        rest(campaign);
        burst(campaign, kind, &ready, true)?;
    }
    tell(campaign, progress, "latencies and links", total - 1, total);
    for _ in quiet_rounds..plan::QUIET_ROUNDS {
        quiet_round(campaign)?;
    }
    fillers.try_for_each(|filler| run(campaign, filler))
}

fn quiet_round(campaign: &mut Campaign) -> Result<(), GpuError> {
    plan::QUIET.iter().try_for_each(|step| run(campaign, step))
}

fn prepared(campaign: &mut Campaign, kind: &tensor::Kind) -> Result<Option<tensor::Ready>, GpuError> {
    match tensor::prepare(campaign, kind) {
        Err(error) if !error.is_fatal() => {
            campaign.fail(&[kind.id], &error);
            Ok(None)
        }
        other => other,
    }
}

/// Compiles a kernel in the pause before its own. An error comes again when the kernel is wanted.
fn compile_early(campaign: &mut Campaign, kind: &tensor::Kind) -> Result<(), GpuError> {
    match tensor::compile(campaign, kind) {
        Err(error) if error.is_fatal() => Err(error),
        _ => Ok(()),
    }
}

fn burst(campaign: &mut Campaign, kind: &tensor::Kind, ready: &tensor::Ready, go_on: bool) -> Result<(), GpuError> {
    // Late, a burst is still worth its few milliseconds.
    let is_late = Instant::now() > campaign.deadline;
    match tensor::burst(campaign, kind, ready, go_on && !is_late) {
        Err(error) if !error.is_fatal() => campaign.fail(&[kind.id], &error),
        other => return other,
    }
    Ok(())
}

/// Runs a step if there is time. A failure that concerns only this step becomes the reason why its ceilings are missing.
fn run(campaign: &mut Campaign, step: &Step) -> Result<(), GpuError> {
    let begin = Instant::now();
    if begin + Duration::from_secs_f64(step.seconds) > campaign.deadline {
        for id in step.ids {
            campaign.ledger.missing(id, catalogue::unit(id), Missing::Time, "it did not fit the time");
        }
        return Ok(());
    }
    let done = (step.run)(campaign);
    log::line(|| format!("{}: {:.3} s of {:.3}", step.name, begin.elapsed().as_secs_f64(), step.seconds));
    match done {
        Err(error) if !error.is_fatal() => campaign.fail(step.ids, &error),
        other => return other,
    }
    Ok(())
}

/// Waits until there was no tensor work for long enough.
fn rest(campaign: &Campaign) {
    if let Some(last) = campaign.last_tensor {
        std::thread::sleep(tensor::PAUSE.saturating_sub(last.elapsed()));
    }
}

fn tell(campaign: &Campaign, progress: &mut dyn Progress, what: &str, done: usize, total: usize) {
    progress.group(&format!("gpu{} {what}", campaign.gpu.index), done, total);
}
