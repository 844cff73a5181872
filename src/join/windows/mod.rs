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
mod extend;
mod native;

use std::collections::{HashMap, HashSet};

use super::blocks::{ExecutedBlocks, Span};
use super::code_map::{CodeMap, FunctionId};
use super::modules::{Modules, Pass};
use super::resolver::Resolver;
use super::sampled::Sampled;
use crate::profile::code::{CodeRef, ModuleKind};
use crate::profile::evidence::blocks::merged;
use crate::profile::evidence::counted::CountedEvidence;
use crate::profile::evidence::estimate::{Estimate, FunctionEstimate};
use crate::profile::evidence::memory::MemoryEvidence;
use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::evidence::windows::Window;

use attribute::{Attributed, attribute};
use extend::Factors;

/// Windows are thrown together into this many groups, each of which is left out once to see how much the figures depend on it.
const GROUPS: usize = 16;

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
/// sampled, without the stretches `off` (nanoseconds of CLOCK_MONOTONIC) in which nothing was to be collected.
/// `clock_hz`: at which the program ran.
pub fn extend(
    timed: TimedEvidence,
    mut counted: CountedEvidence,
    memory: Option<MemoryEvidence>,
    (windows, off): (&[Window], &[(u64, u64)]),
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
        let met = windows.iter().filter(|w| !w.blocks.is_empty());
        let met: Vec<_> = met.map(|w| (w, instructions(w, &executed))).collect();
        let (met, of_windows): (Vec<&Window>, Vec<HashMap<FunctionId, f64>>) =
            telling(&met, &native_s).into_iter().unzip();
        let work_s: Vec<f64> = met.iter().map(|w| w.native_s(clock_hz)).collect();
        let translated_s: f64 = met.iter().map(|w| w.work_s()).sum();
        let haste = met.iter().map(|w| w.haste()).sum::<f64>() / met.len().max(1) as f64;
        let of_speed = haste + LEAST_OF_SPEED.max(1.0 - work_s.iter().sum::<f64>() / translated_s.max(1e-9));
        let telling = Telling::new(met, of_windows, work_s, &native_s);
        let attributed = &telling.attributed;
        if let Some(mpi) = &mut mpi {
            calls::extend(mpi, windows, &telling, &native::work(&sampled), of_speed);
        }
        let of_all = total(&executed);
        let of_windows_error = errors(&telling);
        let samples = native::samples(&sampled);
        let error = |id: &FunctionId| {
            let of_windows = of_windows_error.get(id)?;
            let of_time = 2.0 / (f64::from(*samples.get(id)?).max(1.0)).sqrt();
            Some(of_windows.hypot(of_time).hypot(of_speed))
        };
        let functions: Vec<FunctionEstimate> = attributed
            .window_s
            .keys()
            .filter_map(|id| {
                let at = code.known(*id).place?;
                Some(FunctionEstimate { module: at.module, start: at.offset, error: error(id) })
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
    counted.estimate = Some(Estimate { functions });
    Extended { timed, counted, memory }
}

/// Of the windows (each with its instructions by function) those that tell how fast the program works: those at speed if they met
/// nearly all that any window met, by native time; else all.
fn telling<'w>(
    met: &[(&'w Window, HashMap<FunctionId, f64>)],
    native_s: &HashMap<FunctionId, f64>,
) -> Vec<(&'w Window, HashMap<FunctionId, f64>)> {
    let seconds = |of: &[(&Window, HashMap<FunctionId, f64>)]| -> f64 {
        let functions: HashSet<FunctionId> =
            of.iter().flat_map(|(_, by_function)| by_function.keys().copied()).collect();
        functions.iter().filter_map(|id| native_s.get(id)).sum()
    };
    let at_speed: Vec<_> = met.iter().filter(|(window, _)| window.is_at_speed()).cloned().collect();
    if seconds(&at_speed) >= NEARLY_ALL * seconds(met) { at_speed } else { met.to_vec() }
}

/// Instructions by function in all windows.
fn total(executed: &ExecutedBlocks) -> HashMap<FunctionId, f64> {
    let of_span =
        |span: &Span| f64::from(span.last - span.first) * executed.blocks[span.block as usize].executions as f64;
    executed.spans.iter().map(|(id, spans)| (*id, spans.iter().map(of_span).sum())).collect()
}

/// Instructions by function in a window.
fn instructions(window: &Window, executed: &ExecutedBlocks) -> HashMap<FunctionId, f64> {
    let mut executions: HashMap<(CodeRef, &[u8]), u64> = HashMap::new();
    for block in &window.blocks {
        *executions.entry((block.at, &block.code)).or_default() += block.executions.iter().map(|e| e.1).sum::<u64>();
    }
    let mut by_function = HashMap::new();
    for (function, spans) in &executed.spans {
        let of_span = |span: &Span| {
            let block = executed.blocks[span.block as usize].count;
            let n = executions.get(&(block.at, &*block.code)).copied().unwrap_or(0);
            f64::from(span.last - span.first) * n as f64
        };
        let sum: f64 = spans.iter().map(of_span).sum();
        if sum > 0.0 {
            by_function.insert(*function, sum);
        }
    }
    by_function
}

/// The windows that tell how fast the program works, and their time by function.
#[derive(Debug)]
struct Telling<'w> {
    windows: Vec<&'w Window>,
    attributed: Attributed,
    /// The same without one group of windows at a time; empty if there is only one.
    replicates: Vec<Replicate>,
}

/// Some of the windows.
#[derive(Debug)]
struct Replicate {
    /// Their indices.
    kept: Vec<usize>,
    attributed: Attributed,
}

impl<'w> Telling<'w> {
    /// `of_windows`: instructions by function, and `work_s`: seconds, of each window.
    fn new(
        windows: Vec<&'w Window>,
        of_windows: Vec<HashMap<FunctionId, f64>>,
        work_s: Vec<f64>,
        native_s: &HashMap<FunctionId, f64>,
    ) -> Self {
        let groups = windows.len().min(GROUPS);
        let without = |left_out: usize| {
            // Neighbours go to different groups.
            let kept: Vec<usize> = (0..of_windows.len()).filter(|i| i % GROUPS != left_out).collect();
            let (instructions, seconds): (Vec<_>, Vec<_>) =
                kept.iter().map(|&i| (of_windows[i].clone(), work_s[i])).unzip();
            Replicate { kept, attributed: attribute(native_s, &instructions, &seconds) }
        };
        let replicates = if groups < 2 { Vec::new() } else { (0..groups).map(without).collect() };
        Telling { windows, attributed: attribute(native_s, &of_windows, &work_s), replicates }
    }
}

/// The relative half-width of each function's 95 % interval, from leaving out one group of windows at a time (jackknife).
fn errors(telling: &Telling<'_>) -> HashMap<FunctionId, f64> {
    let native_s = &telling.attributed.native_s;
    let totals = |attributed: &Attributed| -> HashMap<FunctionId, f64> {
        attributed
            .window_s
            .keys()
            .map(|id| (*id, attributed.rate(*id) * native_s.get(id).copied().unwrap_or(0.0)))
            .collect()
    };
    let replicates: Vec<HashMap<FunctionId, f64>> = telling.replicates.iter().map(|r| totals(&r.attributed)).collect();
    let error = |(id, total): (&FunctionId, &f64)| {
        let values: Vec<f64> = replicates.iter().filter_map(|r| r.get(id)).copied().collect();
        if values.len() < 2 || *total <= 0.0 {
            return None;
        }
        let k = values.len() as f64;
        let mean = values.iter().sum::<f64>() / k;
        let variance = (k - 1.0) / k * values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        Some((*id, STUDENT * variance.sqrt() / total))
    };
    totals(&telling.attributed).iter().filter_map(error).collect()
}

/// How well the speed of windows at least tells that of native code: caches are colder, and the price of counting is an estimate,
/// which has its own size as its error.
const LEAST_OF_SPEED: f64 = 0.05;
/// Windows at speed suffice if they met functions with this share of the native time of all that were met.
const NEARLY_ALL: f64 = 0.98;
/// The 97.5 % quantile of Student's t with one degree of freedom less than there are groups.
const STUDENT: f64 = 2.13;
