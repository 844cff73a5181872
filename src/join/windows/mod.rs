//! Extends the counts of windows to the whole run.
//!
//! ```text
//!  samples outside of windows ─▶ T_f, native seconds of function f
//!  blocks of windows ──────────▶ I_f,w, its instructions in window w ─▶ τ_f, its seconds in all windows ─▶ factor_f = (T_f + τ_f) / τ_f
//! ```
//!
//! A function that no window met has no counts, and is never 0.

mod attribute;
mod calls;
mod error;
mod extend;
mod jackknife;
mod loops;
mod native;
mod timing;

use std::collections::HashMap;

use super::blocks::{ExecutedBlocks, Span};
use super::code_map::{CodeMap, FunctionId};
use super::modules::{Modules, Pass};
use super::resolver::Resolver;
use super::sampled::Sampled;
use crate::profile::code::{CodeRef, ModuleKind};
use crate::profile::evidence::blocks::merged;
use crate::profile::evidence::counted::CountedEvidence;
use crate::profile::evidence::estimate::{Estimate, FunctionEstimate, Interval};
use crate::profile::evidence::memory::MemoryEvidence;
use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::evidence::windows::Window;

use extend::Factors;
use timing::TimingWindows;

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
    native::match_threads(&mut counted, &timed);
    // Code that is made at run time comes and goes between windows: what they met is no part of the whole.
    let is_lasting =
        |at: CodeRef| counted.modules.get(at.module as usize).is_some_and(|m| m.kind != ModuleKind::Anonymous);
    counted.blocks =
        merged(windows.iter().flat_map(|w| &w.blocks)).into_iter().filter(|block| is_lasting(block.at)).collect();
    let mut mpi = counted.mpi.take();
    let (factors, functions, seconds) = {
        let mut code = {
            let threads = [&timed.threads[..], &counted.threads[..]];
            CodeMap::new(Modules::new(&timed.modules, &counted.modules, threads), resolver)
        };
        let executed = ExecutedBlocks::new(&counted, &mut code);
        let sampled = Sampled::new(&timed, &mut code);
        let native_s = native::seconds(&sampled);
        let timing = TimingWindows::select(windows, &executed, &native_s, clock_hz);
        let attributed = &timing.attributed;
        if let Some(mpi) = &mut mpi {
            calls::extend(mpi, windows, &timing, &native::work(&sampled));
        }
        let of_all = total(&executed);
        let samples = native::samples(&sampled);
        let errors = error::of_functions(&timing, &samples);
        let interval = |id: &FunctionId| match errors.get(id) {
            Some(error) => Interval::Within(*error),
            None if samples.contains_key(id) => Interval::FewWindows,
            None => Interval::NoSample,
        };
        let mut of_loops = loops::of_functions(&timing, &executed, &errors, &samples, &mut code);
        let functions: Vec<FunctionEstimate> = attributed
            .window_s
            .keys()
            .filter_map(|id| {
                let at = code.known(*id).place?;
                let (interval, loops) = (interval(id), of_loops.remove(id).unwrap_or_default());
                Some(FunctionEstimate { module: at.module, start: at.offset, interval, loops })
            })
            .collect();
        let mut function_at = |at: CodeRef| code.place(Pass::Counted, at).map(|place| code.function(place));
        let places =
            counted.blocks.iter().map(|b| b.at).chain(memory.iter().flat_map(|m| m.sites.iter().map(|s| s.at)));
        let places: Vec<CodeRef> = places.collect();
        let by_place = places.into_iter().filter_map(|at| Some((at, function_at(at)?))).collect();
        let seconds = (native_s.values().sum::<f64>(), attributed.window_s.values().sum::<f64>());
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

/// Instructions by function in all windows.
fn total(executed: &ExecutedBlocks) -> HashMap<FunctionId, f64> {
    let of_span =
        |span: &Span| f64::from(span.last - span.first) * executed.blocks[span.block as usize].executions as f64;
    executed.spans.iter().map(|(id, spans)| (*id, spans.iter().map(of_span).sum())).collect()
}
