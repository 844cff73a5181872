//! The possible gain from fetching ahead, for a function that waits for lines from beyond L2.
//!
//! ```text
//! seconds = time_s · (1 − prefetched / model_s) · computable / (lines − foreseen)        at most
//! ```
//!
//! `prefetched` is the model's time if all lines from beyond L2 were requested long before their use.

use rprof_profile::account::{Cause, WhatIf};
use rprof_profile::function::Saving;
use rprof_profile::prefetch::Prefetch;

use super::account;
use super::advice;
use super::terms::Subject;

/// Name of the cause that such a saving removes.
pub const SAVING: &str = "no-prefetch";

/// Least share of latency in the time that a report mentions.
const WORTH: f64 = 0.1;
/// Least part of the lines that a report mentions.
const PART: f64 = 0.2;
/// Least gain, as a share of the time, that a report mentions.
const GAIN: f64 = 0.05;

/// The most that software prefetches can save, if the latency beyond L2 is at least a tenth of the time.
pub fn saving(subject: &Subject<'_>) -> Option<Saving> {
    let (share, prefetch) = waits(subject)?;
    let potential = prefetch.potential().filter(|potential| *potential >= PART)?;
    let account = account::trusted(subject.function)?;
    let left = account.what_if_s.get(&WhatIf::Prefetched.into())?;
    let gain = (1.0 - left / account.model_s).clamp(0.0, share) * potential;
    if gain < GAIN {
        return None;
    }
    let seconds = subject.function.time_s? * gain;
    Some(Saving {
        remove: vec![SAVING.to_owned()],
        seconds,
        seconds_max: seconds,
        program_seconds: subject.alone_share().map(|alone| seconds * alone),
        advice: format!(
            "{:.0} % of its time is latency beyond L2, and {:.0} % of the lines that no stride foresees have addresses that an index or \
             arithmetic tells ahead{}: prefetch them some iterations before (__builtin_prefetch). At most {:.0} % of its time.",
            100.0 * share,
            100.0 * potential,
            advice::at_loop(subject.function),
            100.0 * gain
        ),
    })
}

/// The remark that nothing can be fetched ahead, if most lines are chased.
pub fn remark(subject: &Subject<'_>) -> Option<String> {
    let (share, prefetch) = waits(subject)?;
    let chased = prefetch.chased / prefetch.lines;
    (chased > 0.5).then(|| {
        format!(
            "{:.0} % of its time is latency beyond L2, and {:.0} % of these lines need what the access before brought: no prefetch foresees \
             them. Walk several lists or searches at once, or put what follows one another next to each other.",
            100.0 * share,
            100.0 * chased
        )
    })
}

/// Share of the time that is latency beyond L2, if a report mentions it, and the lines.
fn waits(subject: &Subject<'_>) -> Option<(f64, Prefetch)> {
    let account = account::trusted(subject.function)?;
    let share = (account.part(Cause::L3) + account.part(Cause::DramLatency)) / account.model_s;
    let prefetch = subject.function.prefetch.filter(|p| p.lines > 0.0)?;
    (share >= WORTH).then_some((share, prefetch))
}
