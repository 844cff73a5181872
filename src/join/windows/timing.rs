//! The windows from which the speed of the program is taken.

use std::collections::{HashMap, HashSet};

use super::attribute::{Attributed, attribute};
use super::jackknife::{GROUPS, group_of, groups_with};
use crate::join::blocks::{ExecutedBlocks, Span};
use crate::join::code_map::FunctionId;
use crate::profile::code::CodeRef;
use crate::profile::evidence::windows::Window;

/// The relative error of the part of a window's time that its cold caches take: `xz` executed 15 % less there.
const COLD_CACHES_ERROR: f64 = 0.1;
/// The error of the price of counting, over the price.
const PRICE_ERROR: f64 = 1.0;
/// Windows at speed suffice if the functions in them have this share of the native time of all that any window met.
const NEARLY_ALL: f64 = 0.98;

/// Windows, and their time by function.
#[derive(Debug)]
pub struct TimingWindows<'w> {
    pub windows: Vec<&'w Window>,
    pub attributed: Attributed,
    /// The same without one group of windows at a time; empty if there is only one group.
    pub replicates: Vec<Replicate>,
    /// In how many groups the windows' instructions of a function are.
    pub groups: HashMap<FunctionId, usize>,
    /// How far the speed of the windows can be from the native one, relative.
    pub speed_error: f64,
    /// The same by function: counting slows each down differently.
    pub speed_errors: HashMap<FunctionId, f64>,
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
        let haste = windows.iter().map(|w| w.haste()).sum::<f64>() / windows.len().max(1) as f64;
        let price = |native_s: f64, translated_s: f64| 1.0 - native_s / translated_s.max(1e-9);
        let of_all = price(work_s.iter().sum(), windows.iter().map(|w| w.work_s()).sum());
        let by_window: Vec<f64> =
            windows.iter().zip(&work_s).map(|(w, native_s)| price(*native_s, w.work_s())).collect();
        let error = |price: f64| haste + COLD_CACHES_ERROR + PRICE_ERROR * price;
        let of_functions = prices(&instructions, &by_window).into_iter();
        let speed_errors = of_functions.map(|(id, price)| (id, error(price))).collect();
        TimingWindows { speed_error: error(of_all), speed_errors, ..Self::new(windows, instructions, work_s, native_s) }
    }

    /// Divides `work_s`, the seconds of each window, among the functions, whose `instructions` are by window.
    pub fn new(
        windows: Vec<&'w Window>,
        instructions: Vec<HashMap<FunctionId, f64>>,
        work_s: Vec<f64>,
        native_s: &HashMap<FunctionId, f64>,
    ) -> Self {
        let used = windows.len().min(GROUPS);
        let without = |left_out: usize| {
            let kept: Vec<usize> = (0..instructions.len()).filter(|i| group_of(*i) != left_out).collect();
            let (instructions, seconds): (Vec<_>, Vec<_>) =
                kept.iter().map(|&i| (instructions[i].clone(), work_s[i])).unzip();
            Replicate { kept, attributed: attribute(native_s, &instructions, &seconds) }
        };
        let replicates = if used < 2 { Vec::new() } else { (0..used).map(without).collect() };
        let attributed = attribute(native_s, &instructions, &work_s);
        let of = |id: &FunctionId| groups_with(instructions.iter().map(|w| w.get(id).copied().unwrap_or(0.0)));
        let groups = attributed.window_s.keys().map(|id| (*id, of(id))).collect();
        let (speed_error, speed_errors) = (COLD_CACHES_ERROR, HashMap::new());
        TimingWindows { windows, attributed, replicates, groups, speed_error, speed_errors }
    }

    /// How far the speed of a function in windows can be from the native one, relative.
    pub fn speed_error_of(&self, id: FunctionId) -> f64 {
        self.speed_errors.get(&id).copied().unwrap_or(self.speed_error)
    }
}

/// Share of the time of each function in windows that counting took: that `of_windows`, where most of its instructions were.
fn prices(instructions: &[HashMap<FunctionId, f64>], of_windows: &[f64]) -> HashMap<FunctionId, f64> {
    let mut sums: HashMap<FunctionId, (f64, f64)> = HashMap::new();
    for (by_function, price) in instructions.iter().zip(of_windows) {
        for (id, n) in by_function {
            let (all, weighted) = sums.entry(*id).or_default();
            *all += n;
            *weighted += n * price;
        }
    }
    sums.into_iter().map(|(id, (all, weighted))| (id, weighted / all)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_costs_a_function_what_it_costs_where_the_function_was() {
        let instructions = [HashMap::from([(1, 100.0)]), HashMap::from([(1, 100.0), (2, 300.0)])];
        let prices = prices(&instructions, &[0.5, 0.1]);
        assert!((prices[&1] - 0.3).abs() < 1e-9 && (prices[&2] - 0.1).abs() < 1e-9, "{prices:?}");
    }
}
