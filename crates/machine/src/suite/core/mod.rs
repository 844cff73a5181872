//! Parameters of the core that a replay of its instructions needs: widths, windows, latencies and rates of forms of instructions, ports,
//! address translation. One thread; `crates/machine/src/lib.rs` lists the ids.
//!
//! ```text
//! forms/ slots branches forwarding ─▶ kernels ─▶ rounds: all of them by turns, in cycles ─┐
//! forms/ ─▶ ports/: pairs of them ─▶ rounds ─▶ which ports explain that ──────────────────┤
//! windows/: misses with more and more between them ─▶ where their time steps up ──────────┼─▶ found ─▶ ceilings
//! jumps: rings of more and more jumps ─▶ where their time steps up ───────────────────────┤
//! predictor: a branch on random bits that come again ─▶ where their time rises ───────────┤
//! translation: a line of each of more and more pages ─▶ where their time steps up ────────┘
//! ```
//!
//! The second-best run of a kernel counts, in cycles of the clock measured right beside it. Results are kept as time or rate at that clock
//! (`clock_hz`). Windows are counts.

mod branches;
mod chains;
mod emission;
mod forms;
mod forwarding;
mod found;
mod jumps;
mod ports;
mod predictor;
mod rounds;
mod slots;
mod translation;
mod windows;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::harness::ClockChain;
use rprof_profile::clock::PARAMETERS;

use super::campaign::Campaign;
use crate::error::MachineError;
use crate::host::features::Features;
use chains::Suite;
use found::Found;
use rounds::Piece;

/// Time for the kernels of `rounds`, for windows, and for address translation: three times that of a quiet host.
const TIME: Duration = Duration::from_millis(300);
const TIME_OF_PAIRS: Duration = Duration::from_millis(150);
const TIME_OF_WINDOWS: Duration = Duration::from_millis(150);
const TIME_OF_PAGES: Duration = Duration::from_millis(200);
const TIME_OF_JUMPS: Duration = Duration::from_millis(40);
const TIME_OF_OUTCOMES: Duration = Duration::from_millis(60);

/// The planned time for all of them.
const PLANNED: Duration = Duration::from_millis(350);

/// Rounds in which all kernels are timed.
const ROUNDS: usize = 24;

/// Measures all parameters and records them.
///
/// # Errors
/// As [`Campaign::registers`].
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    if !campaign.wants_family(&PARAMETERS, 1) || !campaign.measures_all() && campaign.out_of_time() {
        return Ok(());
    }
    if campaign.watch().plan(PLANNED.as_secs_f64()) {
        return Ok(());
    }
    let (features, clock) = (campaign.features, campaign.watch().clock());
    let l2_bytes = campaign.topology.cache(2).map(|cache| cache.size);
    let found = on_core(campaign, move || all(&clock, features, l2_bytes))??;
    for ceiling in found.into_ceilings() {
        campaign.record_parameter(ceiling);
    }
    Ok(())
}

fn all(clock: &ClockChain, features: Features, l2_bytes: Option<u64>) -> Result<Found, MachineError> {
    let mut found = Found::default();
    in_rounds(clock, features, &mut found)?;
    windows::measure(clock, features, l2_bytes, Instant::now() + TIME_OF_WINDOWS, &mut found)?;
    translation::measure(clock, features, Instant::now() + TIME_OF_PAGES, &mut found)?;
    jumps::measure(clock, features, Instant::now() + TIME_OF_JUMPS, &mut found)?;
    predictor::measure(clock, features, Instant::now() + TIME_OF_OUTCOMES, &mut found)?;
    Ok(found)
}

/// Measures with the kernels that run by turns.
fn in_rounds(clock: &ClockChain, features: Features, found: &mut Found) -> Result<(), MachineError> {
    let mut pieces: Vec<Piece> = Vec::new();
    let slots = slots::emit(features, &mut pieces)?;
    let jumps = branches::emit(features, &mut pieces)?;
    let forwarding = forwarding::emit(features, &mut pieces)?;
    let suite = Suite::emit(forms::all(features), features, &mut pieces)?;
    let timed = rounds::time(clock, pieces, ROUNDS, Instant::now() + TIME);
    slots.note(&timed, found);
    branches::note(jumps, &timed, found);
    forwarding.note(&timed, found);
    suite.note(&timed, found);
    ports::measure(clock, features, suite.forms(), Instant::now() + TIME_OF_PAIRS, found)
}

/// Runs `job` on the first of the pinned threads.
fn on_core<T: Send + 'static>(
    campaign: &Campaign,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, MachineError> {
    let job = Mutex::new(Some(job));
    let result: Arc<Mutex<Option<T>>> = Arc::default();
    let shared = result.clone();
    let run = move |_rank: usize| {
        let job = job.lock().ok().and_then(|mut job| job.take());
        let done = job.map(|job| job());
        if let Ok(mut result) = shared.lock() {
            *result = done;
        }
    };
    campaign.team().run(1, Arc::new(run))?;
    let result = result.lock().ok().and_then(|mut result| result.take());
    result.ok_or_else(|| MachineError::Thread { cpu: 0, reason: "panicked".into() })
}
