//! From tallies to traffic: scales sampled events up and computes their error.

use rprof_profile::evidence::memory::Traffic;

use crate::attribution::tally::Tally;
use crate::caches::geometry::LINE_BYTES;
use crate::hierarchy::GROUPS;

/// The estimate near the core.
#[derive(Debug, Clone, Copy, Default)]
pub struct Near {
    /// Traffic of L1, and conflicts in L2 that bursts show.
    pub traffic: Traffic,
    /// Dirty L1 lines that went to other cores.
    pub handed_over: f64,
    /// Lines that entered L1 more than once in a burst: L2 holds them, except for conflicts.
    pub reused: f64,
    /// Dirty lines that conflicts pushed out of L2 during bursts.
    pub pushed_out: f64,
}

impl Near {
    /// The same with L1 misses limited to `lines`, the number of lines touched.
    pub fn at_most(mut self, lines: f64) -> Near {
        let traffic = &mut self.traffic;
        if traffic.l1_misses > lines {
            let write_backs = (traffic.l2_write / LINE_BYTES as f64).min(lines);
            traffic.l2_conflict = traffic.l2_conflict.min(lines);
            self = self.with(lines, write_backs);
        }
        self
    }

    /// Adds `more`.
    pub fn add(&mut self, more: &Near) {
        self.traffic.add(&more.traffic);
        self.handed_over += more.handed_over;
        self.reused += more.reused;
        self.pushed_out += more.pushed_out;
    }

    /// The same with this many `misses` of L1 and `write_backs` from it, not counting lines that other cores took.
    pub fn with_own(self, misses: f64, write_backs: f64) -> Near {
        let (coherence, handed_over) = (self.traffic.coherence, self.handed_over);
        let near = self.with(misses + coherence, write_backs + handed_over);
        Near { handed_over, ..near }
    }

    /// The same with this many `misses` of L1 and `write_backs` from it, with all their parts in proportion.
    pub fn with(mut self, misses: f64, write_backs: f64) -> Near {
        let traffic = &mut self.traffic;
        let left = traffic.l2_write / LINE_BYTES as f64;
        let times = |now: f64, before: f64| if before > 0.0 { now / before } else { 0.0 };
        let (times, times_left) = (times(misses, traffic.l1_misses), times(write_backs, left));
        let parts = [&mut traffic.unit_lines, &mut traffic.strided_lines, &mut traffic.random_lines];
        let kinds = [&mut traffic.gathered_lines, &mut traffic.l1_conflict];
        let all = [&mut traffic.l1_misses, &mut traffic.l2_read];
        parts.into_iter().chain(kinds).chain(all).for_each(|lines| *lines *= times);
        traffic.coherence = traffic.coherence.min(misses);
        traffic.l2_write = LINE_BYTES as f64 * write_backs;
        self.handed_over *= times_left;
        self.pushed_out *= times_left;
        self
    }
}

/// Two estimates of one quantity differ if their ratio exceeds this; smaller differences are sampling scatter.
const DIFFERENT: f64 = 1.25;

/// A burst that sees fewer than one in this many lines again is no evidence about the others.
const MOST_TIMES_REUSED: f64 = 4.0;

/// The excess of the estimate `one` over the `other`, or 0 if they do not differ.
fn more(one: f64, other: f64) -> f64 {
    if one > DIFFERENT * other { one - other } else { 0.0 }
}

/// Traffic near the core (executed bytes, L1 misses and write-backs, lines lost to other cores, dirty lines handed over, access patterns),
/// with each event scaled by `scale`.
pub fn near(tally: &Tally, scale: f64) -> Near {
    let near = |events: u64| events as f64 * scale;
    let line = LINE_BYTES as f64;
    let traffic = Traffic {
        l1_read: near(tally.read_bytes),
        l1_write: near(tally.write_bytes),
        l2_read: line * near(tally.l1_fills),
        l2_write: line * tally.left_l1() as f64 * scale,
        l1_misses: near(tally.l1_fills),
        l1_conflict: near(tally.l1_fills.saturating_sub(tally.coherence)) * tally.l1_shadowed.share(),
        l2_conflict: near(tally.burst_conflicts),
        coherence: near(tally.coherence),
        unit_lines: near(tally.unit),
        strided_lines: near(tally.strided),
        random_lines: near(tally.random),
        gathered_lines: near(tally.gathered),
        ..Traffic::default()
    };
    Near {
        traffic,
        handed_over: near(tally.handed_over),
        reused: near(tally.burst_reused),
        pushed_out: near(tally.burst_writebacks),
    }
}

/// Options for traffic beyond L1.
#[derive(Debug, Clone, Copy)]
pub struct Beyond {
    /// There is an L2 between L1 and the last level.
    pub has_l2: bool,
    /// Share of conflicts among all shadowed misses.
    pub conflict_share: f64,
    /// The simulated parts of the program have gaps between them: `hierarchy/writebacks.rs` estimates the writes to memory.
    pub windows: bool,
}

impl Beyond {
    /// Traffic beyond L1 in the terms of docs/conventions.md, Bytes, with each event scaled by `scale`. Without an L2 between L1 and the
    /// last level, "L2 from beyond" is traffic with memory. With sampling windows, the result lacks the dirty lines written to memory.
    ///
    /// Lines that another core took out of L1 are missing from the traffic into and out of L2: [`join`](Self::join) adds them.
    pub fn traffic(&self, beyond: &Tally, scale: f64) -> Traffic {
        let far = |events: u64| events as f64 * scale;
        let line = LINE_BYTES as f64;
        let (dram_read, dram_nt) = (line * far(beyond.last_fills), line * far(beyond.nt_lines));
        // A dirty line may leave the private caches in another window than it was written in, or between windows, with different weights.
        // So it is counted when it becomes dirty.
        let left = if self.has_l2 { beyond.left_l2() } else { beyond.left_l1() } as f64 * scale;
        let written = if self.windows { 0.0 } else { far(beyond.last_writebacks) };
        let dram_write = line * written + dram_nt;
        let (capacity, conflict) = beyond.capacity_and_conflict(self.conflict_share);
        let l2_fills = beyond.l2_fills.saturating_sub(beyond.coherence);
        Traffic {
            l3_read: if self.has_l2 { line * far(l2_fills) } else { dram_read },
            l3_write: match self.has_l2 {
                true => line * (left - far(beyond.handed_over)) + dram_nt,
                false => dram_write,
            },
            dram_read,
            dram_write,
            dram_fill: line * far(beyond.store_fills),
            dram_used_again: line * far(beyond.used_again),
            dram_nt,
            small_page_lines: far(beyond.on_small_pages),
            huge_page_lines: far(beyond.on_huge_pages),
            l2_misses: if self.has_l2 { far(l2_fills) } else { far(beyond.last_fills) },
            l2_conflict: far(l2_fills.saturating_sub(beyond.coherence_in_l2)) * beyond.l2_shadowed.share(),
            l3_misses: far(beyond.last_fills),
            compulsory: far(beyond.compulsory),
            capacity: capacity * scale,
            conflict: conflict * scale,
            coherence: far(beyond.coherence_in_l2),
            l3_stale_lines: far(beyond.stale_in_l2),
            l3_seen_lines: if self.has_l2 { beyond.seen_in_l3() } else { beyond.seen_in_memory() } as f64,
            stale_lines: far(beyond.stale),
            cold_lines: far(beyond.cold),
            seen_lines: beyond.seen_in_memory() as f64,
            ..Traffic::default()
        }
    }
}

impl Beyond {
    /// Joins the estimates `near` the core and `far` from it. Each comes from the sample that suits it best; quantities that depend on
    /// both follow from both.
    ///
    /// A line that another core took out of L1 is gone from L2, too. The L1 sample gives the frequency of that: threads compete for few
    /// lines, and a sample of one line in 32 may contain none of them, or scale one of them by 32. The same holds for dirty lines that
    /// they hand over. No more dirty lines leave L2 than leave L1. Every line that enters L2 enters L1, and every dirty one that leaves it
    /// has left L1.
    ///
    /// Bursts see lines that push each other out of a few sets of L2, because they know the physical pages: the sample of lines spreads
    /// such lines over more sets. A burst sees a conflict only if it meets the line again. Lines in L2 that were met only before the burst
    /// are assumed to have conflicts in the same proportion.
    pub fn join(&self, Near { traffic: near, handed_over, reused, pushed_out }: &Near, far: &Traffic) -> Traffic {
        let line = LINE_BYTES as f64;
        let mut all = *near;
        all.add(far);
        all.l2_write = all.l2_write.max(0.0);
        all.l2_conflict = far.l2_conflict;
        if self.has_l2 {
            let in_l2_but_for_conflicts = near.l1_misses - (far.l2_misses - far.l2_conflict);
            let times = (in_l2_but_for_conflicts / reused.max(1.0)).clamp(1.0, MOST_TIMES_REUSED);
            let conflicts = more(near.l2_conflict * times, far.l2_conflict);
            let conflicts = conflicts.min((near.l1_misses - far.l2_misses).max(0.0));
            all.l2_conflict += conflicts;
            all.l2_misses += near.coherence + conflicts;
            all.l3_read += line * (near.coherence + conflicts);
            let left = far.l3_write - far.dram_nt + line * handed_over;
            all.l3_write = left + more(line * pushed_out, left) - more(left, all.l2_write) + far.dram_nt;
            all.l2_write = all.l2_write.max(all.l3_write - all.dram_nt);
        } else {
            all.l3_write = far.l3_write;
        }
        all.l1_misses = all.l1_misses.max(all.l2_misses).max(all.coherence);
        all.l2_read = line * all.l1_misses;
        // Lines written to memory have left the last cache before it.
        let into_last = if self.has_l2 { all.l3_write } else { all.dram_write };
        all.dram_write = all.dram_write.min(into_last).max(all.dram_nt);
        all
    }
}

/// Relative standard error of a partly sampled total, from differences between the groups of the sample: `sqrt(G · s²) / Σ x` with s² the
/// variance of the groups' sums. `None` if nothing was counted.
pub fn relative_error(groups: &[u64; GROUPS]) -> Option<f64> {
    let total: u64 = groups.iter().sum();
    if total == 0 {
        return None;
    }
    let count = GROUPS as f64;
    let mean = total as f64 / count;
    let variance = groups.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((count * variance).sqrt() / total as f64)
}

/// Relative standard error of an extrapolation from windows of (accesses, events), from differences between their ratios: `sqrt(n / (n −
/// 1) · Σ (x − r·a)²) / Σ x` with r = Σ x / Σ a. `None` with fewer than two windows, or no events.
pub fn windows_error(windows: &[(u64, u64)]) -> Option<f64> {
    let (accesses, events) = windows.iter().fold((0, 0), |(a, x), w| (a + w.0, x + w.1));
    if windows.len() < 2 || accesses == 0 || events == 0 {
        return None;
    }
    let (count, ratio) = (windows.len() as f64, events as f64 / accesses as f64);
    let squares: f64 = windows.iter().map(|&(a, x)| (x as f64 - ratio * a as f64).powi(2)).sum();
    Some((count / (count - 1.0) * squares).sqrt() / events as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_groups_have_no_error_and_one_group_has_all() {
        assert_eq!(relative_error(&[0; GROUPS]), None);
        assert_eq!(relative_error(&[7; GROUPS]), Some(0.0));
        let mut one = [0; GROUPS];
        one[3] = 100;
        assert!((relative_error(&one).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn windows_that_differ_have_an_error() {
        assert_eq!(windows_error(&[(100, 7)]), None);
        assert_eq!(windows_error(&[(100, 0), (100, 0)]), None);
        assert_eq!(windows_error(&[(100, 10), (200, 20), (50, 5)]), Some(0.0));
        // Means of 0 and 20: 10 ± 10.
        assert!((windows_error(&[(100, 0), (100, 20)]).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_more_is_missed_than_touched_nor_written_to_memory_than_left_l2() {
        let traffic = Traffic { l1_misses: 110.0, l2_write: 64.0 * 50.0, unit_lines: 110.0, ..Traffic::default() };
        let near = Near { traffic: Traffic { l2_conflict: 105.0, ..traffic }, reused: 110.0, ..Near::default() };
        let capped = near.at_most(100.0);
        assert_eq!(
            (capped.traffic.l1_misses, capped.traffic.l2_conflict, capped.traffic.unit_lines),
            (100.0, 100.0, 100.0)
        );
        assert_eq!(near.at_most(200.0).traffic, near.traffic);
        let beyond = Beyond { has_l2: true, conflict_share: 0.0, windows: true };
        let far = Traffic { l3_write: 64.0 * 20.0, dram_write: 64.0 * 30.0, ..Traffic::default() };
        let all = beyond.join(&capped, &far);
        assert_eq!((all.l2_misses, all.dram_write), (100.0, all.l3_write), "{all:?}");
    }

    #[test]
    fn who_had_more_taken_over_than_it_wrote_gives_back_nothing_anywhere() {
        let traffic = Traffic { l1_misses: 30.0, l2_write: 64.0 * -24.0, ..Traffic::default() };
        let far = Traffic { l3_write: 64.0 * 20.0, ..Traffic::default() };
        let beyond = Beyond { has_l2: true, conflict_share: 0.0, windows: true };
        let all = beyond.join(&Near { traffic, ..Near::default() }, &far);
        assert_eq!((all.l2_write, all.l3_write, all.dram_write), (0.0, 0.0, 0.0));
    }

    #[test]
    fn lines_that_other_cores_took_are_as_many_as_they_were() {
        let traffic = Traffic {
            l1_misses: 100.0,
            coherence: 60.0,
            l2_write: 64.0 * 90.0,
            unit_lines: 50.0,
            ..Traffic::default()
        };
        let near = Near { traffic, handed_over: 60.0, ..Near::default() }.with_own(20.0, 10.0);
        let Traffic { l1_misses, coherence, l2_write, unit_lines, .. } = near.traffic;
        assert_eq!((l1_misses, coherence, l2_write, unit_lines), (80.0, 60.0, 64.0 * 70.0, 40.0));
        assert_eq!(near.handed_over, 60.0);
    }

    #[test]
    fn misses_are_divided_as_the_shadowed_ones_are() {
        let tally = Tally { last_fills: 110, compulsory: 10, capacity: 1, conflict: 3, ..Tally::default() };
        assert_eq!(tally.capacity_and_conflict(0.0), (25.0, 75.0));
        assert_eq!(Tally { capacity: 0, conflict: 0, ..tally }.capacity_and_conflict(0.4), (60.0, 40.0));
    }
}
