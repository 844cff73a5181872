//! Which kernels make which ceiling of a GPU, and when each runs.
//!
//! ```text
//!  rounds of arithmetic and memory ─▶ curves ─▶ tensor kernels compiled ─▶ [ pause: latencies, link ] ─▶ burst ─▶ [ pause … ] ─▶ …
//! ```

mod latency;
mod link;
pub mod plan;
mod reuse;
mod rounds;
mod sweeps;
mod tensor;

use std::time::{Duration, Instant};

use super::catalogue;
use super::error::GpuError;
use super::lab::Lab;
use super::log;
use crate::machine::progress::Progress;
use crate::machine::suite::lab::Effort;
use crate::profile::machine::Missing;
use plan::Step;

/// Measures all that `lab`'s effort asks for.
///
/// # Errors
/// [`GpuError`] if the GPU is lost; earlier measurements are kept.
pub fn all(lab: &mut Lab, progress: &mut dyn Progress) -> Result<(), GpuError> {
    match lab.effort {
        Effort::Quick => quick(lab, progress),
        Effort::Full => full(lab, progress),
    }
}

fn quick(lab: &mut Lab, progress: &mut dyn Progress) -> Result<(), GpuError> {
    let total = plan::QUICK_STEPS.len() + 1;
    let kind = &tensor::KINDS[0];
    let ready = prepared(lab, kind)?;
    for (done, step) in plan::QUICK_STEPS.iter().enumerate() {
        tell(lab, progress, step.name, done, total);
        let rounds = if done == 0 { 1 } else { plan::QUICK_ROUNDS };
        (0..rounds).try_for_each(|_| run(lab, step))?;
    }
    if let Some(ready) = ready {
        tell(lab, progress, kind.id, total - 1, total);
        rest(lab);
        burst(lab, kind, &ready, false)?;
    }
    Ok(())
}

fn full(lab: &mut Lab, progress: &mut dyn Progress) -> Result<(), GpuError> {
    let total = plan::BUSY.len() + tensor::KINDS.len() + 1;
    for (done, step) in plan::BUSY.iter().enumerate() {
        tell(lab, progress, step.name, done, total);
        run(lab, step)?;
    }
    tensor::fp64(lab);
    let mut ready = Vec::new();
    for kind in &tensor::KINDS {
        ready.extend(prepared(lab, kind)?.map(|ready| (kind, ready)));
    }
    let mut quiet_rounds = 0;
    let mut fillers = plan::FILLERS.iter();
    for (n, (kind, ready)) in ready.iter().enumerate() {
        tell(lab, progress, kind.id, plan::BUSY.len() + n, total);
        quiet_round(lab)?;
        quiet_rounds += 1;
        if let Some(filler) = fillers.next() {
            run(lab, filler)?;
        }
        rest(lab);
        burst(lab, kind, ready, true)?;
    }
    tell(lab, progress, "latencies and links", total - 1, total);
    for _ in quiet_rounds..plan::QUIET_ROUNDS {
        quiet_round(lab)?;
    }
    fillers.try_for_each(|filler| run(lab, filler))
}

fn quiet_round(lab: &mut Lab) -> Result<(), GpuError> {
    plan::QUIET.iter().try_for_each(|step| run(lab, step))
}

fn prepared(lab: &mut Lab, kind: &tensor::Kind) -> Result<Option<tensor::Ready>, GpuError> {
    match tensor::prepare(lab, kind) {
        Err(error) if !error.is_fatal() => {
            lab.fail(&[kind.id], &error);
            Ok(None)
        }
        other => other,
    }
}

fn burst(lab: &mut Lab, kind: &tensor::Kind, ready: &tensor::Ready, go_on: bool) -> Result<(), GpuError> {
    // Late, a burst is still worth its few milliseconds.
    let is_late = Instant::now() > lab.deadline;
    match tensor::burst(lab, kind, ready, go_on && !is_late) {
        Err(error) if !error.is_fatal() => lab.fail(&[kind.id], &error),
        other => return other,
    }
    Ok(())
}

/// Runs a step if there is time. A failure that concerns only this step becomes the reason why its ceilings are missing.
fn run(lab: &mut Lab, step: &Step) -> Result<(), GpuError> {
    let begin = Instant::now();
    if begin + Duration::from_secs_f64(step.seconds) > lab.deadline {
        for id in step.ids {
            lab.ledger.missing(id, catalogue::unit(id), Missing::Time, "it did not fit the time");
        }
        return Ok(());
    }
    let done = (step.run)(lab);
    log::line(|| format!("{}: {:.3} s of {:.3}", step.name, begin.elapsed().as_secs_f64(), step.seconds));
    match done {
        Err(error) if !error.is_fatal() => lab.fail(step.ids, &error),
        other => return other,
    }
    Ok(())
}

/// Waits until there was no tensor work for long enough.
fn rest(lab: &Lab) {
    if let Some(last) = lab.last_tensor {
        std::thread::sleep(tensor::PAUSE.saturating_sub(last.elapsed()));
    }
}

fn tell(lab: &Lab, progress: &mut dyn Progress, what: &str, done: usize, total: usize) {
    progress.group(&format!("gpu{} {what}", lab.gpu.index), done, total);
}
