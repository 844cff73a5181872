//! Extends the counts of windows to the whole run.
//!
//! ```text
//!  samples outside of windows ─▶ T_s, native seconds of stratum s: a loop, or a function outside of its loops
//!  blocks of windows ──────────▶ I_s,w, its instructions in window w ─▶ τ_s, its seconds in all windows ─▶ factor_s = (T_s + τ_s) / τ_s
//! ```
//!
//! A function that no window met has no counts, and is never 0.

mod attribute;
mod calls;
mod error;
mod extend;
mod jackknife;
mod native;
mod strata;
mod timing;

use std::collections::{BTreeSet, HashMap};

use super::blocks::ExecutedBlocks;
use super::code_map::{CodeMap, FunctionId};
use super::modules::{Modules, Pass};
use super::resolver::Resolver;
use super::sampled::Sampled;
use rprof_profile::code::{CodeRef, ModuleKind};
use rprof_profile::evidence::blocks::merged;
use rprof_profile::evidence::counted::CountedEvidence;
use rprof_profile::evidence::estimate::{Estimate, FunctionEstimate, Interval};
use rprof_profile::evidence::memory::MemoryEvidence;
use rprof_profile::evidence::timed::TimedEvidence;
use rprof_profile::evidence::windows::Window;

use extend::Factors;
use native::NativeTime;
use strata::{Pieces, Strata, StratumId};
use timing::{Met, TimingWindows};

/// A function with more than this share of its time in code that no window met has no counts: they would be those of its other part.
const MOST_UNMET: f64 = 0.1;

/// The evidence of one run, as if all of it had been counted.
#[derive(Debug)]
pub struct Extended {
    /// The samples outside of windows, with the weight of the whole run.
    pub timed: TimedEvidence,
    /// Counts of the whole run, with their errors.
    pub counted: CountedEvidence,
    /// Traffic of the whole run.
    pub memory: Option<MemoryEvidence>,
}

/// Extends `counted` and `memory`, which hold what `windows` met, to the run that `timed` has
/// sampled, without the stretches `off` (nanoseconds of CLOCK_MONOTONIC) in which nothing was to be collected. The windows have delayed
/// the program by `delay_s`. `clock_hz`: at which the program ran.
pub fn extend(
    timed: TimedEvidence,
    mut counted: CountedEvidence,
    memory: Option<MemoryEvidence>,
    (windows, off, delay_s): (&[Window], &[(u64, u64)], f64),
    clock_hz: f64,
    resolver: &mut dyn Resolver,
) -> Extended {
    let mut timed = native::without_windows(timed, windows, off);
    native::add_uncounted(&mut timed, windows);
    native::match_threads(&mut counted, &timed);
    // Code that is made at run time comes and goes between windows: such code is no part of the whole.
    let is_lasting =
        |at: CodeRef| counted.modules.get(at.module as usize).is_some_and(|m| m.kind != ModuleKind::Anonymous);
    counted.blocks =
        merged(windows.iter().flat_map(|w| &w.blocks)).into_iter().filter(|block| is_lasting(block.at)).collect();
    let mut mpi = counted.mpi.take();
    let (factors, functions, seconds) = {
        let mut code = {
            let threads = [&timed.threads[..], &counted.threads[..]];
            CodeMap::new(Modules::new(&timed.modules, &counted.modules, threads), threads, resolver)
        };
        let executed = ExecutedBlocks::new(&counted, &mut code);
        let sampled = Sampled::new(&timed, &mut code);
        let samples = native::samples(&sampled);
        let mut strata = Strata::new(samples.keys().copied(), &executed, &mut code);
        let native = NativeTime::of(&sampled, &mut strata);
        let pieces = Pieces::new(&executed, &mut strata);
        let met: Vec<_> = windows.iter().map(|window| (window, pieces.of_window(window))).collect();
        let of_all = total(&met);
        let timing = TimingWindows::select(met, &native.cpu_s, clock_hz);
        let attributed = &timing.attributed;
        if let Some(mpi) = &mut mpi {
            calls::extend(mpi, windows, &timing, &native.work_s);
        }
        let unmet = strata::unmet(&sampled, &executed);
        let met: BTreeSet<FunctionId> =
            attributed.window_s.keys().filter_map(|stratum| strata.function(*stratum)).collect();
        let estimate = |id: FunctionId| {
            let at = code.known(id).place?;
            let (samples, unmet) = (samples.get(&id).copied(), unmet.get(&id).copied().unwrap_or(0.0));
            let errors = error::of_function(&timing, &strata, id, (samples.unwrap_or(0), &native.samples), unmet);
            let interval = match errors.counts {
                _ if samples.is_none() => Interval::NoSample,
                _ if unmet > MOST_UNMET => Interval::Unmet(unmet),
                Some(error) => Interval::Within(error),
                None => Interval::FewWindows,
            };
            let (figures, loops) = (errors.figures, errors.loops);
            Some(FunctionEstimate { module: at.module, start: at.offset, interval, figures, loops })
        };
        let functions: Vec<FunctionEstimate> = met.into_iter().filter_map(estimate).collect();
        let mut stratum_at = |at: CodeRef| {
            let place = code.place(Pass::Counted, at)?;
            Some(strata.at(code.function(place), place.offset))
        };
        let places =
            counted.blocks.iter().map(|b| b.at).chain(memory.iter().flat_map(|m| m.sites.iter().map(|s| s.at)));
        let places: Vec<CodeRef> = places.collect();
        let by_place = places.into_iter().filter_map(|at| Some((at, stratum_at(at)?))).collect();
        let seconds = (native.cpu_s.values().sum::<f64>(), attributed.window_s.values().sum::<f64>());
        (Factors::new(attributed, &of_all, by_place), functions, seconds)
    };
    let (native_s, window_s) = seconds;
    let longer = if native_s > 0.0 { (native_s + window_s) / native_s } else { 1.0 };
    timed.samples.iter_mut().for_each(|sample| sample.weight_s *= longer);
    timed.threads.iter_mut().for_each(|thread| thread.cpu_s *= longer);
    factors.apply(&mut counted.blocks);
    let memory = memory.map(|memory| factors.apply_to_traffic(memory));
    counted.mpi = mpi;
    counted.estimate = Some(Estimate { functions, delay_s });
    Extended { timed, counted, memory }
}

/// Instructions by stratum in all windows.
fn total(met: &[Met<'_>]) -> HashMap<StratumId, f64> {
    let mut sums = HashMap::new();
    for (stratum, figures) in met.iter().flat_map(|(_, figures)| figures) {
        *sums.entry(*stratum).or_default() += figures[0];
    }
    sums
}
