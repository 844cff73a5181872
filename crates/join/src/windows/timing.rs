//! The windows from which the speed of the program is taken.

use std::collections::{HashMap, HashSet};

use super::attribute::{Attributed, attribute};
use super::jackknife::{GROUPS, group_of};
use super::strata::{Figures, StratumId};
use rprof_profile::evidence::windows::Window;

/// The relative error of the part of a window's time that its cold caches take: `xz` executed 15 % less there.
const COLD_CACHES_ERROR: f64 = 0.1;
/// The error of the price of counting, over the price.
const PRICE_ERROR: f64 = 1.0;
/// Windows at speed suffice if the functions in them have this share of the native time of all that any window met.
const NEARLY_ALL: f64 = 0.98;

/// Windows, and their time by stratum.
#[derive(Debug)]
pub struct TimingWindows<'w> {
    pub windows: Vec<&'w Window>,
    pub attributed: Attributed,
    /// The same without one group of windows at a time; empty if there is only one group.
    pub replicates: Vec<Replicate>,
    /// The figures of each group of windows, by stratum.
    pub figures: HashMap<StratumId, [Figures; GROUPS]>,
    /// How far the speed of the windows can be from the native one, relative.
    pub speed_error: f64,
    /// The same by stratum: counting slows each down differently.
    pub speed_errors: HashMap<StratumId, f64>,
}

/// All windows but one group.
#[derive(Debug)]
pub struct Replicate {
    /// Their indices.
    pub kept: Vec<usize>,
    pub attributed: Attributed,
}

impl<'w> TimingWindows<'w> {
    /// Selects them among all windows, each `met` with its figures. `native_s`: seconds outside of windows by stratum; `clock_hz`: at
    /// which the program ran.
    pub fn select(met: Vec<Met<'w>>, native_s: &HashMap<StratumId, f64>, clock_hz: f64) -> Self {
        let met = met.into_iter().filter(|(window, _)| !window.blocks.is_empty()).collect();
        let (windows, figures): (Vec<&Window>, Vec<_>) = undisturbed(met, native_s).into_iter().unzip();
        let work_s: Vec<f64> = windows.iter().map(|w| w.native_s(clock_hz)).collect();
        let haste = windows.iter().map(|w| w.haste()).sum::<f64>() / windows.len().max(1) as f64;
        let price = |native_s: f64, translated_s: f64| 1.0 - native_s / translated_s.max(1e-9);
        let of_all = price(work_s.iter().sum(), windows.iter().map(|w| w.work_s()).sum());
        let by_window: Vec<f64> =
            windows.iter().zip(&work_s).map(|(w, native_s)| price(*native_s, w.work_s())).collect();
        let error = |price: f64| haste + COLD_CACHES_ERROR + PRICE_ERROR * price;
        let of_strata = prices(&instructions(&figures), &by_window).into_iter();
        let speed_errors = of_strata.map(|(id, price)| (id, error(price))).collect();
        TimingWindows { speed_error: error(of_all), speed_errors, ..Self::new(windows, figures, work_s, native_s) }
    }

    /// Divides `work_s`, the seconds of each window, among the strata; `figures`: by window.
    pub fn new(
        windows: Vec<&'w Window>,
        figures: Vec<HashMap<StratumId, Figures>>,
        work_s: Vec<f64>,
        native_s: &HashMap<StratumId, f64>,
    ) -> Self {
        let instructions = instructions(&figures);
        let used = windows.len().min(GROUPS);
        let without = |left_out: usize| {
            let kept: Vec<usize> = (0..instructions.len()).filter(|i| group_of(*i) != left_out).collect();
            let (instructions, seconds): (Vec<_>, Vec<_>) =
                kept.iter().map(|&i| (instructions[i].clone(), work_s[i])).unzip();
            Replicate { kept, attributed: attribute(native_s, &instructions, &seconds) }
        };
        let replicates = if used < 2 { Vec::new() } else { (0..used).map(without).collect() };
        let attributed = attribute(native_s, &instructions, &work_s);
        let (speed_error, speed_errors) = (COLD_CACHES_ERROR, HashMap::new());
        TimingWindows { windows, attributed, replicates, figures: by_group(&figures), speed_error, speed_errors }
    }

    /// How far the speed of a stratum in windows can be from the native one, relative.
    pub fn speed_error_of(&self, id: StratumId) -> f64 {
        self.speed_errors.get(&id).copied().unwrap_or(self.speed_error)
    }
}

/// Share of the time of each stratum in windows that counting took: that `of_windows` with most of its instructions.
fn prices(instructions: &[HashMap<StratumId, f64>], of_windows: &[f64]) -> HashMap<StratumId, f64> {
    let mut sums: HashMap<StratumId, (f64, f64)> = HashMap::new();
    for (by_function, price) in instructions.iter().zip(of_windows) {
        for (id, n) in by_function {
            let (all, weighted) = sums.entry(*id).or_default();
            *all += n;
            *weighted += n * price;
        }
    }
    sums.into_iter().map(|(id, (all, weighted))| (id, weighted / all)).collect()
}

/// A window with its figures by stratum.
pub type Met<'w> = (&'w Window, HashMap<StratumId, Figures>);

/// The windows that counting alone slowed down, if they met nearly all that any window met, by native time; else all.
fn undisturbed<'w>(met: Vec<Met<'w>>, native_s: &HashMap<StratumId, f64>) -> Vec<Met<'w>> {
    let seconds = |of: &mut dyn Iterator<Item = &Met<'w>>| -> f64 {
        let strata: HashSet<StratumId> = of.flat_map(|(_, figures)| figures.keys().copied()).collect();
        strata.iter().filter_map(|id| native_s.get(id)).sum()
    };
    let at_speed = seconds(&mut met.iter().filter(|(window, _)| window.is_at_speed()));
    if at_speed < NEARLY_ALL * seconds(&mut met.iter()) {
        return met;
    }
    met.into_iter().filter(|(window, _)| window.is_at_speed()).collect()
}

/// The figures of each window, summed up by group.
fn by_group(figures: &[HashMap<StratumId, Figures>]) -> HashMap<StratumId, [Figures; GROUPS]> {
    let mut sums: HashMap<StratumId, [Figures; GROUPS]> = HashMap::new();
    for (window, of_window) in figures.iter().enumerate() {
        for (id, figures) in of_window {
            let sum = &mut sums.entry(*id).or_default()[group_of(window)];
            sum.iter_mut().zip(figures).for_each(|(sum, more)| *sum += more);
        }
    }
    sums
}

/// The instructions among `figures`.
fn instructions(figures: &[HashMap<StratumId, Figures>]) -> Vec<HashMap<StratumId, f64>> {
    figures.iter().map(|of_window| of_window.iter().map(|(id, figures)| (*id, figures[0])).collect()).collect()
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
