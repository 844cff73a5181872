//! Divides the time of windows among the functions that were executed in them.

use std::collections::HashMap;

use super::strata::StratumId;

/// Rounds of the iteration. Few, since the durations of windows are noisy: further rounds would only change noise.
const ROUNDS: usize = 10;

/// No thread executes more instructions a second: a function with windows that seem shorter was met while its thread
/// waited.
const FASTEST: f64 = 4e10;

/// Rounding may leave a limited rate below its limit.
const NEARLY: f64 = 0.999;

/// The work of all windows by stratum.
#[derive(Debug, Clone, Default)]
pub struct Attributed {
    /// Instructions.
    pub instructions: HashMap<StratumId, f64>,
    /// Seconds.
    pub window_s: HashMap<StratumId, f64>,
    /// Native seconds.
    pub native_s: HashMap<StratumId, f64>,
    /// Native seconds for each second in windows, over the whole program.
    pub expansion: f64,
}

impl Attributed {
    /// Instructions a second of a stratum.
    pub fn rate(&self, id: StratumId) -> f64 {
        let of = |map: &HashMap<StratumId, f64>| map.get(&id).copied().unwrap_or(0.0);
        let seconds = of(&self.window_s);
        if seconds > 0.0 { of(&self.instructions) / seconds } else { 0.0 }
    }

    /// Whether the rate of a stratum is the largest possible one: windows say nothing of its time.
    pub fn is_limited(&self, id: StratumId) -> bool {
        self.rate(id) >= NEARLY * FASTEST
    }

    /// By what the counts of all windows, which have `instructions`, are multiplied for the whole run. A function without a sample of its own
    /// has the program's factor.
    pub fn factor(&self, id: StratumId, instructions: f64) -> f64 {
        let native_s = self.native_s.get(&id).copied().unwrap_or(0.0);
        match self.rate(id) * native_s {
            native if native > 0.0 && instructions > 0.0 => 1.0 + native / instructions,
            _ => 1.0 + self.expansion,
        }
    }
}

/// Attributes `work_s`, the seconds of each window, to functions: their parts explain the windows' durations, as near as
/// possible to the shares of native time (expectation maximisation for a mixture; if all windows are alike, the native
/// shares stay as they are).
///
/// `native_s`: native seconds by function; `instructions`: by window and function.
pub fn attribute(
    native_s: &HashMap<StratumId, f64>,
    instructions: &[HashMap<StratumId, f64>],
    work_s: &[f64],
) -> Attributed {
    let mut sums: HashMap<StratumId, f64> = HashMap::new();
    instructions.iter().flatten().for_each(|(id, n)| *sums.entry(*id).or_default() += n);
    let all_s: f64 = work_s.iter().sum();
    let known_s: f64 = sums.keys().filter_map(|id| native_s.get(id)).sum();
    let native_all: f64 = native_s.values().sum();
    let expansion = if all_s > 0.0 { native_all / all_s } else { 0.0 };
    if known_s <= 0.0 || all_s <= 0.0 {
        let native_s = native_s.clone();
        return Attributed { window_s: HashMap::new(), instructions: sums, native_s, expansion };
    }
    // Time in functions without counts (the kernel) is in the windows, too, at its native share.
    let counted_s = all_s * (known_s / native_all);
    let shrink = counted_s / all_s;
    // Strata without a sample (threads wait more in windows than natively) begin with the time of as many instructions of the
    // rest.
    let known_n: f64 = sums.iter().filter(|(id, _)| native_s.get(id).is_some_and(|s| *s > 0.0)).map(|(_, n)| n).sum();
    let expected_s = |id: &StratumId, n: f64| match native_s.get(id) {
        Some(seconds) if *seconds > 0.0 => *seconds,
        _ => known_s * n / known_n,
    };
    let all_expected_s: f64 = sums.iter().map(|(id, n)| expected_s(id, *n)).sum();
    let mut window_s: HashMap<StratumId, f64> =
        sums.iter().map(|(id, n)| (*id, expected_s(id, *n) * counted_s / all_expected_s)).collect();
    for _ in 0..ROUNDS {
        let ratio: Vec<f64> = instructions
            .iter()
            .zip(work_s)
            .map(|(group, work)| {
                let expected: f64 =
                    group.iter().map(|(id, n)| window_s.get(id).map_or(0.0, |s| s * n / sums[id])).sum();
                if expected > 0.0 { shrink * work / expected } else { 1.0 }
            })
            .collect();
        for (id, seconds) in &mut window_s {
            let of_group =
                instructions.iter().zip(&ratio).map(|(group, ratio)| group.get(id).map_or(0.0, |n| n * ratio));
            *seconds *= of_group.sum::<f64>() / sums[id];
        }
    }
    for (id, seconds) in &mut window_s {
        *seconds = seconds.max(sums[id] / FASTEST);
    }
    Attributed { instructions: sums, window_s, native_s: native_s.clone(), expansion }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(StratumId, f64)]) -> HashMap<StratumId, f64> {
        entries.iter().copied().collect()
    }

    #[test]
    fn where_all_windows_are_alike_the_native_shares_stay() {
        let native = map(&[(0, 9.0), (1, 1.0)]);
        let window = map(&[(0, 100.0), (1, 50.0)]);
        let attributed = attribute(&native, &[window.clone(), window], &[0.5, 0.5]);
        assert!((attributed.window_s[&0] - 0.9).abs() < 1e-9);
        assert!((attributed.factor(0, 200.0) - 11.0).abs() < 1e-9 && (attributed.factor(1, 100.0) - 11.0).abs() < 1e-9);
    }

    #[test]
    fn phases_of_which_windows_met_another_share_are_told_apart() {
        // Half of the time each, but three windows of four fell into the first.
        let native = map(&[(0, 5.0), (1, 5.0)]);
        let (first, second) = (map(&[(0, 100.0)]), map(&[(1, 40.0)]));
        let groups = [first.clone(), first.clone(), first, second];
        let attributed = attribute(&native, &groups, &[0.1; 4]);
        assert!((attributed.window_s[&0] - 0.3).abs() < 1e-6, "{:?}", attributed.window_s);
        assert!((attributed.window_s[&1] - 0.1).abs() < 1e-6, "{:?}", attributed.window_s);
        let total = |id| attributed.factor(id, attributed.instructions[&id]) * attributed.instructions[&id];
        assert!((total(0) - 5.3 * 1000.0).abs() < 0.1 && (total(1) - 5.1 * 400.0).abs() < 0.1);
    }

    #[test]
    fn the_kernel_has_its_share_of_the_windows() {
        let native = map(&[(0, 8.0), (7, 2.0)]);
        let attributed = attribute(&native, &[map(&[(0, 100.0)])], &[0.1]);
        assert!((attributed.window_s[&0] - 0.08).abs() < 1e-9);
    }

    #[test]
    fn a_window_of_waiting_makes_nobody_faster_than_a_processor() {
        let native = map(&[(0, 5.0), (1, 5.0)]);
        let attributed = attribute(&native, &[map(&[(0, 1e9)]), map(&[(1, 1e9)])], &[0.1, 0.0]);
        assert!(attributed.rate(1) <= FASTEST, "{}", attributed.rate(1));
    }

    #[test]
    fn a_function_without_a_sample_has_the_programs_factor() {
        let native = map(&[(0, 10.0)]);
        let attributed = attribute(&native, &[map(&[(0, 100.0), (1, 3.0)])], &[0.5]);
        assert_eq!(attributed.factor(1, 3.0), 21.0);
    }
}
