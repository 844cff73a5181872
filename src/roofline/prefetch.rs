//! What fetching ahead could do for a function that waits for lines from beyond L2.
//!
//! ```text
//! seconds = time_s · (1 − prefetched / model_s) · computable / (lines − foreseen)        at most
//! ```
//!
//! `prefetched` is what is left of the model where all lines from beyond L2 are asked for long before.

use crate::profile::account::{Cause, WhatIf};
use crate::profile::function::Saving;
use crate::profile::prefetch::Prefetch;

use super::account;
use super::advice;
use super::terms::Subject;

/// Name of what such a saving removes.
pub const SAVING: &str = "no-prefetch";

/// Latency is worth a word from this share of the time on.
const WORTH: f64 = 0.1;
/// So is a part of the lines.
const PART: f64 = 0.2;
/// And what gains this share of the time.
const GAIN: f64 = 0.05;

/// What software prefetches save at most, where the latency beyond L2 is a tenth of the time.
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

/// That nothing can be fetched ahead, where most lines are chased.
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

/// Share of the time that is latency beyond L2, where it is worth a word, and the lines.
fn waits(subject: &Subject<'_>) -> Option<(f64, Prefetch)> {
    let account = account::trusted(subject.function)?;
    let share = (account.part(Cause::L3) + account.part(Cause::DramLatency)) / account.model_s;
    let prefetch = subject.function.prefetch.filter(|p| p.lines > 0.0)?;
    (share >= WORTH).then_some((share, prefetch))
}
