//! The windows from which the speed of the program is taken.

use std::collections::{HashMap, HashSet};

use super::attribute::{Attributed, attribute};
use crate::join::blocks::{ExecutedBlocks, Span};
use crate::join::code_map::FunctionId;
use crate::profile::code::CodeRef;
use crate::profile::evidence::windows::Window;

/// Windows are divided into this many groups, each of which is left out once to see how much the figures depend on it.
const GROUPS: usize = 16;
/// The least relative error of the windows' speed: caches are colder than natively.
const LEAST_SPEED_ERROR: f64 = 0.1;
/// The error of the price of counting, over the price. (With 1, 14 of 53 intervals, all of branchy programs, did not hold the exact count: one trial on
/// a Zen 4 whose speed changed. The share with 2 was not measured.)
const PRICE_ERROR: f64 = 2.0;
/// Windows at speed suffice if the functions in them have this share of the native time of all that any window met.
const NEARLY_ALL: f64 = 0.98;

/// Windows, and their time by function.
#[derive(Debug)]
pub struct TimingWindows<'w> {
    pub windows: Vec<&'w Window>,
    pub attributed: Attributed,
    /// The same without one group of windows at a time; empty if there is only one group.
    pub replicates: Vec<Replicate>,
    /// How far the speed of the windows can be from the native one, relative.
    pub speed_error: f64,
}

/// All windows but one group.
#[derive(Debug)]
pub struct Replicate {
    /// Their indices.
    pub kept: Vec<usize>,
    pub attributed: Attributed,
}

impl<'w> TimingWindows<'w> {
    /// Selects them among `windows`, whose blocks are in `executed`. `native_s`: seconds outside of windows by function; `clock_hz`: at
    /// which the program ran.
    pub fn select(
        windows: &'w [Window],
        executed: &ExecutedBlocks,
        native_s: &HashMap<FunctionId, f64>,
        clock_hz: f64,
    ) -> Self {
        let met = windows.iter().filter(|w| !w.blocks.is_empty());
        let met: Vec<_> = met.map(|w| (w, instructions(w, executed))).collect();
        let (windows, instructions): (Vec<&Window>, Vec<_>) = undisturbed(&met, native_s).into_iter().unzip();
        let work_s: Vec<f64> = windows.iter().map(|w| w.native_s(clock_hz)).collect();
        let translated_s: f64 = windows.iter().map(|w| w.work_s()).sum();
        let haste = windows.iter().map(|w| w.haste()).sum::<f64>() / windows.len().max(1) as f64;
        let price = 1.0 - work_s.iter().sum::<f64>() / translated_s.max(1e-9);
        TimingWindows {
            speed_error: haste + LEAST_SPEED_ERROR.max(PRICE_ERROR * price),
            ..Self::new(windows, instructions, work_s, native_s)
        }
    }

    /// Divides `work_s`, the seconds of each window, among the functions, whose `instructions` are by window.
    pub fn new(
        windows: Vec<&'w Window>,
        instructions: Vec<HashMap<FunctionId, f64>>,
        work_s: Vec<f64>,
        native_s: &HashMap<FunctionId, f64>,
    ) -> Self {
        let groups = windows.len().min(GROUPS);
        let without = |left_out: usize| {
            // Neighbours go to different groups.
            let kept: Vec<usize> = (0..instructions.len()).filter(|i| i % GROUPS != left_out).collect();
            let (instructions, seconds): (Vec<_>, Vec<_>) =
                kept.iter().map(|&i| (instructions[i].clone(), work_s[i])).unzip();
            Replicate { kept, attributed: attribute(native_s, &instructions, &seconds) }
        };
        let replicates = if groups < 2 { Vec::new() } else { (0..groups).map(without).collect() };
        let attributed = attribute(native_s, &instructions, &work_s);
        TimingWindows { windows, attributed, replicates, speed_error: LEAST_SPEED_ERROR }
    }
}

/// The windows (each with its instructions by function) that counting alone slowed down, if they met nearly all that any window met,
/// by native time; else all.
fn undisturbed<'w>(
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

/// Instructions by function in a window.
fn instructions(window: &Window, executed: &ExecutedBlocks) -> HashMap<FunctionId, f64> {
    let executions = executions(window);
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

/// Executions of the blocks of a window.
pub fn executions(window: &Window) -> HashMap<(CodeRef, &[u8]), u64> {
    let mut executions: HashMap<(CodeRef, &[u8]), u64> = HashMap::new();
    for block in &window.blocks {
        *executions.entry((block.at, &block.code)).or_default() += block.executions.iter().map(|e| e.1).sum::<u64>();
    }
    executions
}
