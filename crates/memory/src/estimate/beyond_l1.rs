//! Estimates beyond L1 for one instruction: the events of each stratum, scaled up to lines of the whole program.

use rprof_profile::evidence::memory::Traffic;

use crate::attribution::tallies::{Stratum, Tallies};
use crate::attribution::tally::Tally;
use crate::caches::geometry::LINE_BYTES;
use crate::caches::line::Owner;
use crate::estimate::scaling::{Beyond, Near, near};
use crate::estimate::window_weights::ENOUGH;
use crate::hierarchy::writebacks::Written;
use crate::sampling::executions::Factors;

/// One instruction of one thread beyond L1, if the model simulates a sample of the lines.
#[derive(Debug, Clone, Copy)]
pub struct BeyondL1 {
    /// The opening, windows, and warm-ups of windows.
    strata: [Scaled; 3],
    /// How many misses of L2 and of the last level page coloring adds or removes.
    pub of_placement: [f64; 2],
    /// Lines left in the caches at the end of the program, which are not scaled up in time.
    end: Tally,
    lines: f64,
    has_l2: bool,
}

/// A stratum and its scale factors.
#[derive(Debug, Clone, Copy)]
struct Scaled {
    tally: Tally,
    /// Events in the tally per event seen: events that were put away are weighted.
    weight: f64,
    /// Events of the program per event in the tally.
    scale: f64,
    /// Last-level misses with page coloring per miss seen.
    placed: f64,
}

impl Scaled {
    /// Number of events seen, or 0 if the stratum is not scaled up.
    fn seen(&self, events: impl Fn(&Tally) -> u64) -> f64 {
        if self.scale > 0.0 { events(&self.tally) as f64 / self.weight } else { 0.0 }
    }

    /// Factor from stays in the caches to stays of the whole program.
    fn stays(&self) -> f64 {
        self.scale * self.placed
    }
}

impl BeyondL1 {
    /// The strata of `owner` in `tallies`, after all events were brought back, scaled by the mean `factors` of its events. `mean_weight` is
    /// used if the tallies have no mean weight of windows.
    pub fn of(tallies: &Tallies, owner: Owner, factors: &Factors, mean_weight: f64, lines: f64, has_l2: bool) -> Self {
        let strata = [*tallies.plain_of(owner), tallies.sample(owner), tallies.warming(owner)];
        // Weights only divide the executions among windows: their mean is 1.
        let weights = [1.0, tallies.mean_weight(owner).unwrap_or(mean_weight), 1.0];
        let factors = factors.each();
        let scaled: [Scaled; 3] = std::array::from_fn(|i| {
            let tally = tallies.as_placed(&strata[i]);
            let placed = tally.last_fills.max(1) as f64 / strata[i].last_fills.max(1) as f64;
            Scaled { tally, weight: weights[i], scale: lines * factors[i] / weights[i], placed }
        });
        let of_placement = [|tally: &Tally| tally.l2_fills, |tally: &Tally| tally.last_fills].map(|fills| {
            let both = scaled.iter().zip(&strata);
            both.map(|(s, seen)| (fills(&s.tally) as f64 - fills(seen) as f64) * s.scale).sum::<f64>().abs()
        });
        BeyondL1 { strata: scaled, of_placement, end: tallies.end(owner), lines, has_l2 }
    }

    /// Whether the model simulated any access of it before the end of the program.
    pub fn saw_any(&self) -> bool {
        self.strata.iter().any(|stratum| stratum.tally.accesses > 0)
    }

    /// Number of observed events that the estimate is based on.
    pub fn seen(&self, events: impl Fn(&Tally) -> u64) -> f64 {
        self.strata.iter().map(|stratum| stratum.seen(&events)).sum()
    }

    /// Estimated number of such events in the whole program.
    pub fn events(&self, of: impl Fn(&Tally) -> u64) -> f64 {
        self.strata.iter().map(|stratum| of(&stratum.tally) as f64 * stratum.scale).sum()
    }

    /// Relative change of the events per execution between the opening and windows, at most 1. Warm-ups replace the opening if it saw too
    /// few executions. `executed` has the executions by phase. `None` if too few executions were seen.
    pub fn changed(&self, executed: [u64; 4], events: impl Fn(&Tally) -> u64) -> Option<f64> {
        let [opening, _, warming, measured] = executed;
        let rate = |stratum: usize, executed: u64| {
            let Scaled { tally, weight, .. } = &self.strata[stratum];
            (executed as f64 >= ENOUGH).then(|| events(tally) as f64 / weight / executed as f64)
        };
        let (now, before) = (rate(1, measured)?, rate(0, opening).or(rate(2, warming))?);
        Some(if before == now { 0.0 } else { (before / now - 1.0).abs().min(1.0) })
    }

    /// How many events the program may have had if only warm-ups saw some and windows saw none; `executed` has the executions by phase.
    pub fn only_in_warm_ups(&self, executed: [u64; 4], events: impl Fn(&Tally) -> u64) -> f64 {
        let [_, pauses, warming, measured] = executed.map(|n| n as f64);
        let [_, in_windows, in_warm_ups] = self.strata.map(|stratum| events(&stratum.tally) as f64);
        if in_windows > 0.0 || measured < ENOUGH || warming < ENOUGH {
            return 0.0;
        }
        self.lines * in_warm_ups * (pauses + warming + measured) / (warming + measured)
    }

    /// The estimate of L1 events from these lines.
    pub fn near(&self) -> Near {
        let mut all = Near::default();
        self.strata.iter().for_each(|stratum| all.add(&near(&stratum.tally, stratum.scale)));
        all
    }

    /// How many stays of lines in the caches a stay that began in `stratum` represents.
    pub fn stands_for(&self, stratum: Stratum) -> f64 {
        match stratum {
            Stratum::Plain => self.strata[0].stays(),
            Stratum::Sample => self.strata[1].stays(),
            Stratum::Warming => self.strata[2].stays(),
            Stratum::End => self.lines,
            Stratum::Nothing => 0.0,
        }
    }

    /// The traffic of the levels beyond L1; with sampling windows, `written` gives the lines written to memory.
    pub fn traffic(&self, beyond: &Beyond, written: Written) -> Traffic {
        let mut all = beyond.traffic(&self.end, self.lines);
        for stratum in &self.strata {
            let mut traffic = beyond.traffic(&stratum.tally, stratum.scale);
            traffic.seen_lines = stratum.seen(Tally::seen_in_memory);
            traffic.l3_seen_lines = stratum.seen(if self.has_l2 { Tally::seen_in_l3 } else { Tally::seen_in_memory });
            all.add(&traffic);
        }
        if beyond.windows {
            // Lines dirty at the end are written, even if they were filled outside windows.
            let lines = written.lines.max(self.lines * self.end.last_writebacks as f64);
            all.dram_write += LINE_BYTES as f64 * lines;
            all.l3_write += if self.has_l2 { 0.0 } else { LINE_BYTES as f64 * lines };
            all.dram_write_scatter = written.scatter;
        }
        // Lines that other instructions took over may have been written in a window with a lower weight.
        all.l3_write = all.l3_write.max(all.dram_nt);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const LINES: f64 = 32.0;
    const WINDOWS: Beyond = Beyond { has_l2: true, conflict_share: 0.0, windows: true };

    /// One owner with these tallies, in windows with a factor of 10.
    fn behind(strata: impl IntoIterator<Item = (Stratum, Tally)>) -> BeyondL1 {
        let mut tallies = Tallies::default();
        let owner = tallies.add();
        for (stratum, tally) in strata {
            tallies.open(stratum);
            *tallies.of(owner) = tally;
        }
        let factors = Factors { plain: 1.0, sample: 10.0, warming: 0.0 };
        BeyondL1::of(&tallies, owner, &factors, 1.0, LINES, true)
    }

    fn fills(lines: u64) -> Tally {
        Tally { accesses: 8 * lines, l1_fills: lines, l2_fills: lines, last_fills: lines, ..Tally::default() }
    }

    #[test]
    fn warm_ups_that_stand_for_nothing_are_no_lines_that_were_seen() {
        let it = behind([(Stratum::Plain, fills(5)), (Stratum::Sample, fills(40)), (Stratum::Warming, fills(1000))]);
        let traffic = it.traffic(&WINDOWS, Written::default());
        assert_eq!((traffic.seen_lines, traffic.l3_seen_lines, it.seen(|t| t.l1_fills)), (45.0, 45.0, 45.0));
        assert_eq!((traffic.l3_misses, it.near().traffic.l1_misses), (LINES * 405.0, LINES * 405.0));
        assert!(it.saw_any() && !behind([]).saw_any());
    }

    #[test]
    fn windows_that_are_as_what_came_before_have_not_changed() {
        let changed = |opening, windows, executed| {
            behind([(Stratum::Plain, fills(opening)), (Stratum::Sample, fills(windows))])
                .changed(executed, |t| t.last_fills)
        };
        assert_eq!(changed(100, 200, [10_000, 7, 7, 20_000]), Some(0.0));
        assert_eq!(changed(150, 200, [10_000, 7, 7, 20_000]), Some(0.5));
        assert_eq!(changed(1000, 200, [10_000, 7, 7, 20_000]), Some(1.0), "at most all of it");
        assert_eq!(
            (changed(1, 0, [10_000, 7, 7, 20_000]), changed(0, 0, [10_000, 0, 0, 20_000])),
            (Some(1.0), Some(0.0))
        );
        assert_eq!((changed(100, 200, [100, 7, 7, 20_000]), changed(100, 200, [10_000, 7, 7, 20])), (None, None));
        let late = behind([(Stratum::Sample, fills(200)), (Stratum::Warming, fills(80))]);
        let changed = late.changed([0, 7, 10_000, 20_000], |t| t.l2_fills).unwrap();
        assert!((changed - 0.2).abs() < 1e-9);
    }

    #[test]
    fn what_only_warm_ups_saw_may_be_in_pauses_too() {
        let executed = [7, 80_000, 10_000, 10_000];
        let only = |measured| behind([(Stratum::Sample, fills(measured)), (Stratum::Warming, fills(30))]);
        assert_eq!(only(0).only_in_warm_ups(executed, |t| t.last_fills), LINES * 30.0 * 5.0);
        assert_eq!(only(1).only_in_warm_ups(executed, |t| t.last_fills), 0.0, "windows tell that");
        assert_eq!(only(0).only_in_warm_ups([7, 80_000, 10_000, 10], |t| t.last_fills), 0.0, "hardly any was measured");
    }

    #[test]
    fn what_is_dirty_at_the_end_is_written_at_least() {
        let end = Tally { l2_writebacks: 20, last_writebacks: 20, ..Tally::default() };
        let it = behind([(Stratum::Sample, fills(40)), (Stratum::End, end)]);
        let written = |lines| it.traffic(&WINDOWS, Written { lines, scatter: 3.0 }).dram_write;
        assert_eq!((written(0.0), written(LINES * 90.0)), (64.0 * LINES * 20.0, 64.0 * LINES * 90.0));
        assert_eq!(
            [Stratum::Plain, Stratum::Sample, Stratum::Warming].map(|stratum| it.stands_for(stratum)),
            [LINES, 10.0 * LINES, 0.0]
        );
    }
}
