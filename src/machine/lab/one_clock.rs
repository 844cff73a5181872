//! Ceilings of the core at one clock.
//!
//! What a core does by itself takes so many cycles at any clock (`profile/clock.rs`). Where that jumped while they were measured, rungs of
//! one ladder would be at different clocks: all that follow it are given at the one that most of them had.

use crate::machine::bench::timing::{Rate, is_at_clock, usual_clock};
use crate::profile::clock;
use crate::profile::machine::Ceiling;

/// The rates of what cores do by themselves over some x, all at the usual clock.
pub fn at_one_clock(rates: Vec<(f64, Rate)>) -> Vec<(f64, f64)> {
    let Some(usual) = usual_clock(rates.iter().map(|(_, rate)| rate.clock_hz)) else { return Vec::new() };
    let known = rates.into_iter().filter(|(_, rate)| rate.clock_hz > 0.0);
    known.map(|(x, rate)| (x, rate.best * usual / rate.clock_hz)).collect()
}

/// Brings what follows the clock to the usual one of its thread count, as several cores at work may have another one, where it jumped away
/// from that. Slow cores and parameters of the core keep theirs, and so do all where wide vectors lower the clock: there another one need not be a jump.
pub fn bring(ceilings: &mut [Ceiling]) {
    let mut counts: Vec<u32> = ceilings.iter().map(|c| c.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    for threads in counts {
        let is_left = |c: &Ceiling| c.id.starts_with("slow.") || clock::is_parameter(&c.id);
        let of_these = |c: &Ceiling| c.threads == threads && !is_left(c) && clock::follows(&c.id);
        let clocks_of = |is_wanted: &dyn Fn(&Ceiling) -> bool| {
            let wanted = ceilings.iter().filter(|c| of_these(c) && c.value.is_some() && is_wanted(c));
            usual_clock(wanted.filter_map(Ceiling::looked_hz))
        };
        let Some(usual) = clocks_of(&|_| true) else { continue };
        let is_usual = |hz: f64| is_at_clock(hz, usual);
        let of_widths = WIDTHS.iter().filter_map(|width| clocks_of(&|c| c.id.ends_with(width)));
        if !of_widths.into_iter().all(is_usual) {
            continue;
        }
        for ceiling in ceilings.iter_mut().filter(|c| of_these(c)) {
            let Some(own) = ceiling.looked_hz().filter(|own| *own > 0.0 && !is_usual(*own)) else { continue };
            let factor = usual / own;
            ceiling.value = ceiling.value.map(|value| clock::scaled(&ceiling.unit, value, factor));
            ceiling.clock_hz = ceiling.clock_hz.map(|hz| hz * factor);
            ceiling.resting_hz = ceiling.resting_hz.map(|hz| hz * factor);
        }
    }
}

/// How ids end of which all have registers of one width.
const WIDTHS: [&str; 4] = [".scalar", ".128", ".256", ".512"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_a_sweep_are_at_one_clock() {
        let rate = |best, clock_hz| Rate { best, clock_hz, ..Rate::judge(&[], 1.0, 8) };
        let points = vec![(1.0, rate(5.0, 2.5e9)), (2.0, rate(12.0, 3e9)), (4.0, rate(20.0, 2.5e9))];
        assert_eq!(at_one_clock(points), [(1.0, 5.0), (2.0, 10.0), (4.0, 20.0)]);
        assert_eq!(at_one_clock(vec![(1.0, rate(0.0, 0.0))]), []);
    }

    #[test]
    fn rungs_of_a_ladder_are_at_one_clock() {
        let at = |id: &str, value: f64, unit: &str, hz: f64| Ceiling {
            clock_hz: Some(hz),
            ..Ceiling::settled(id, value, unit, 1)
        };
        let mut all = [
            at("dp.tlp", 3e9, "flop/s", 3e9),
            at("dp.ilp", 5e9, "flop/s", 2.5e9),
            at("lat.l2", 4e-9, "s", 3e9),
            at("dp.simd", 1e10, "flop/s", 2.51e9),
            at("overlap.window", 90.0, "op", 2.5e9),
            at("dram.read", 1e10, "byte/s", 3e9),
            at("slow.issue", 2e9, "instr/s", 1e9),
            // Wide vectors lower the clock, whatever that is.
            Ceiling { resting_hz: Some(3e9), ..at("dp.fma", 4.8e10, "flop/s", 2.4e9) },
            at("dp.peak", 5e10, "flop/s", 2.5e9),
        ];
        bring(&mut all);
        let found = all.clone().map(|c| c.value.expect("measured"));
        let usual = 2.51;
        let expected = [usual * 1e9, 5e9, 12e-9 / usual, 1e10, 90.0, 1e10, 2e9, 4.8e10 * usual / 3.0, 5e10];
        assert!(found.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-9), "{found:?}");
        let fma = &all[7];
        assert!((fma.lowering() - 0.8).abs() < 1e-9 && fma.looked_hz().is_some_and(|hz| (hz - 2.51e9).abs() < 1.0));
        let before = all.clone();
        bring(&mut all);
        assert_eq!(all, before, "once is enough");
    }

    #[test]
    fn where_wide_vectors_lower_the_clock_it_stays() {
        let at = |id: &str, hz: f64| Ceiling { clock_hz: Some(hz), ..Ceiling::settled(id, hz, "flop/s", 1) };
        let of = |wide_hz: f64| {
            let ids = ["dp.add.scalar", "dp.mul.scalar", "dp.fma.scalar", "dp.add.512", "dp.fma.512", "dp.peak"];
            let mut all = ids.map(|id| at(id, if id.ends_with(".512") { wide_hz } else { 3e9 }));
            all[0] = at(ids[0], 3.5e9);
            bring(&mut all);
            all.map(|c| c.value.expect("measured") / 1e9)
        };
        assert_eq!(of(3e9), [3.0; 6], "a jump");
        assert_eq!(of(2.4e9), [3.5, 3.0, 3.0, 2.4, 2.4, 3.0]);
    }
}
