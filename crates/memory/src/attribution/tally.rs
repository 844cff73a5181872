//! Events of one instruction in one thread, in lines and bytes.

/// Events of one (instruction, thread). All counts are lines unless their name says bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Accesses seen.
    pub accesses: u64,
    /// Simulated lines that they touched.
    pub admitted: u64,
    /// The same without immediate repetition: a burst counts as many as a collection that leaves out lines noted a short while ago.
    pub visited: u64,
    /// Bytes loaded, as executed.
    pub read_bytes: u64,
    /// Bytes stored, as executed.
    pub write_bytes: u64,
    /// L1 misses: lines that came into L1.
    pub l1_fills: u64,
    /// Dirty lines that left L1.
    pub l1_writebacks: u64,
    /// Lines that became dirty in L1, and dirty lines there that others wrote later: the difference leaves L1 as its own, sooner or later.
    pub l1_dirtied: u64,
    pub l1_taken_over: u64,
    /// L1 misses with a shadow (without lines that another core took away), and those among them that hit in a fully associative L1.
    pub l1_shadowed: Conflicts,
    /// L2 misses: lines that came into L2.
    pub l2_fills: u64,
    /// The same for L2.
    pub l2_shadowed: Conflicts,
    /// If only bursts are simulated: lines that entered L1 again in a burst, those among them that conflicts had removed from L2, and
    /// dirty lines that conflicts push out of it.
    pub burst_reused: u64,
    pub burst_conflicts: u64,
    pub burst_writebacks: u64,
    /// Dirty lines that left L2.
    pub l2_writebacks: u64,
    /// The same for L2.
    pub l2_dirtied: u64,
    pub l2_taken_over: u64,
    /// If the sample of lines has a second L2, indexed by the frames of pages (`hierarchy/physical_index.rs`): its misses, lines that
    /// became dirty there, and those that others wrote later.
    pub placed_fills: u64,
    pub placed_dirtied: u64,
    pub placed_taken_over: u64,
    /// The same for a part of the last level: requests to it, its misses, and those of the last level by classes among the same lines.
    pub placed_last_asked: u64,
    pub placed_last_fills: u64,
    pub beside_placed: u64,
    /// Last-level misses: lines that came from memory.
    pub last_fills: u64,
    /// Those of them for stores.
    pub store_fills: u64,
    /// Lines that were only written before they left L1, and were used again before they left the last level.
    pub used_again: u64,
    /// If all accesses are simulated: lines brought by stores and observed until their fate was known, and those of them
    /// that were overwritten whole (`classify/overwriting.rs`).
    pub told_fills: u64,
    pub overwritten: u64,
    /// Dirty lines that the last level wrote to memory.
    pub last_writebacks: u64,
    /// Non-temporal lines, complete or not, that went to memory.
    pub nt_lines: u64,
    /// Lines from memory or past the caches that lie on a small page, and on a huge one.
    pub on_small_pages: u64,
    pub on_huge_pages: u64,
    /// Last-level misses of lines never fetched before.
    pub compulsory: u64,
    /// Shadowed, not compulsory last-level misses that a fully associative cache also has.
    pub capacity: u64,
    /// Those that hit in the fully associative cache.
    pub conflict: u64,
    /// Lines found in L2 or the last level that were not used since an interval that was not simulated.
    pub stale: u64,
    /// Those of them found in L2.
    pub stale_in_l2: u64,
    /// Last-level misses of lines that were met first in a window with a warm-up that did not fill the last level, and are
    /// not new.
    pub cold: u64,
    /// L1 misses because another core wrote the line.
    pub coherence: u64,
    /// Dirty lines in L1 that another core took.
    pub handed_over: u64,
    /// Other misses of private caches for that reason: of lines that were in L2 alone.
    pub coherence_in_l2: u64,
    /// L1 misses next to a line that missed shortly before.
    pub unit: u64,
    /// Other L1 misses of instructions with a constant stride.
    pub strided: u64,
    /// L1 misses in no such order.
    pub random: u64,
    /// L1 misses of gathers and scatters.
    pub gathered: u64,
}

/// Misses of a private cache that its shadow covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conflicts {
    /// All of them.
    pub misses: u64,
    /// Those that hit in a fully associative cache of the same size.
    pub conflicts: u64,
}

impl Conflicts {
    /// Notes a miss of a line that the shadow still had (`kept`), or not.
    pub fn note(&mut self, kept: bool) {
        self.misses += 1;
        self.conflicts += u64::from(kept);
    }

    /// The share of conflicts in the misses; 0 if none was shadowed.
    pub fn share(&self) -> f64 {
        if self.misses == 0 { 0.0 } else { self.conflicts as f64 / self.misses as f64 }
    }

    fn weighted(self, weight: f64) -> Self {
        let each = |events: u64| (events as f64 * weight).round() as u64;
        Conflicts { misses: each(self.misses), conflicts: each(self.conflicts) }
    }

    fn add(&mut self, more: Conflicts) {
        self.misses += more.misses;
        self.conflicts += more.conflicts;
    }
}

/// If more than this share of L2's misses are conflicts, lines lie in few positions of their pages.
const MOST_CONFLICTS: f64 = 0.1;

impl Tally {
    /// The same with each event counted `weight` times.
    pub fn weighted(&self, weight: f64) -> Tally {
        let each = |events: u64| (events as f64 * weight).round() as u64;
        Tally {
            accesses: each(self.accesses),
            admitted: each(self.admitted),
            visited: each(self.visited),
            read_bytes: each(self.read_bytes),
            write_bytes: each(self.write_bytes),
            l1_fills: each(self.l1_fills),
            l1_writebacks: each(self.l1_writebacks),
            l1_dirtied: each(self.l1_dirtied),
            l1_taken_over: each(self.l1_taken_over),
            l1_shadowed: self.l1_shadowed.weighted(weight),
            l2_fills: each(self.l2_fills),
            l2_shadowed: self.l2_shadowed.weighted(weight),
            burst_reused: each(self.burst_reused),
            burst_conflicts: each(self.burst_conflicts),
            burst_writebacks: each(self.burst_writebacks),
            l2_writebacks: each(self.l2_writebacks),
            l2_dirtied: each(self.l2_dirtied),
            l2_taken_over: each(self.l2_taken_over),
            placed_fills: each(self.placed_fills),
            placed_dirtied: each(self.placed_dirtied),
            placed_taken_over: each(self.placed_taken_over),
            placed_last_asked: each(self.placed_last_asked),
            placed_last_fills: each(self.placed_last_fills),
            beside_placed: each(self.beside_placed),
            last_fills: each(self.last_fills),
            store_fills: each(self.store_fills),
            used_again: each(self.used_again),
            told_fills: each(self.told_fills),
            overwritten: each(self.overwritten),
            last_writebacks: each(self.last_writebacks),
            nt_lines: each(self.nt_lines),
            on_small_pages: each(self.on_small_pages),
            on_huge_pages: each(self.on_huge_pages),
            compulsory: each(self.compulsory),
            capacity: each(self.capacity),
            conflict: each(self.conflict),
            stale: each(self.stale),
            stale_in_l2: each(self.stale_in_l2),
            cold: each(self.cold),
            coherence: each(self.coherence),
            handed_over: each(self.handed_over),
            coherence_in_l2: each(self.coherence_in_l2),
            unit: each(self.unit),
            strided: each(self.strided),
            random: each(self.random),
            gathered: each(self.gathered),
        }
    }

    /// Adds `more`, field by field.
    pub fn add(&mut self, more: &Tally) {
        self.accesses += more.accesses;
        self.admitted += more.admitted;
        self.visited += more.visited;
        self.read_bytes += more.read_bytes;
        self.write_bytes += more.write_bytes;
        self.l1_fills += more.l1_fills;
        self.l1_writebacks += more.l1_writebacks;
        self.l1_dirtied += more.l1_dirtied;
        self.l1_taken_over += more.l1_taken_over;
        self.l1_shadowed.add(more.l1_shadowed);
        self.l2_fills += more.l2_fills;
        self.l2_shadowed.add(more.l2_shadowed);
        self.burst_reused += more.burst_reused;
        self.burst_conflicts += more.burst_conflicts;
        self.burst_writebacks += more.burst_writebacks;
        self.l2_writebacks += more.l2_writebacks;
        self.l2_dirtied += more.l2_dirtied;
        self.l2_taken_over += more.l2_taken_over;
        self.placed_fills += more.placed_fills;
        self.placed_dirtied += more.placed_dirtied;
        self.placed_taken_over += more.placed_taken_over;
        self.placed_last_asked += more.placed_last_asked;
        self.placed_last_fills += more.placed_last_fills;
        self.beside_placed += more.beside_placed;
        self.last_fills += more.last_fills;
        self.store_fills += more.store_fills;
        self.used_again += more.used_again;
        self.told_fills += more.told_fills;
        self.overwritten += more.overwritten;
        self.last_writebacks += more.last_writebacks;
        self.nt_lines += more.nt_lines;
        self.on_small_pages += more.on_small_pages;
        self.on_huge_pages += more.on_huge_pages;
        self.compulsory += more.compulsory;
        self.capacity += more.capacity;
        self.conflict += more.conflict;
        self.stale += more.stale;
        self.stale_in_l2 += more.stale_in_l2;
        self.cold += more.cold;
        self.coherence += more.coherence;
        self.handed_over += more.handed_over;
        self.coherence_in_l2 += more.coherence_in_l2;
        self.unit += more.unit;
        self.strided += more.strided;
        self.random += more.random;
        self.gathered += more.gathered;
    }

    /// Lines that left L1 dirty, or will, counted when they became dirty. Negative if others took more over than were written.
    pub fn left_l1(&self) -> i64 {
        self.l1_dirtied as i64 - self.l1_taken_over as i64
    }

    /// Misses of L1, and lines that left it dirty, without those that other cores took.
    pub fn own_events(&self) -> [i64; 2] {
        [self.l1_fills as i64 - self.coherence as i64, self.left_l1() - self.handed_over as i64]
    }

    /// The same for L2.
    pub fn left_l2(&self) -> i64 {
        self.l2_dirtied as i64 - self.l2_taken_over as i64
    }

    /// The same with L2 indexed by the frames of pages.
    ///
    /// For pages that are used whole, L2 by frames is the better model of the room for their lines. It spreads lines a page apart over
    /// positions in the page, although they really share few sets. If L2 by classes misses more, because of conflicts, the lines are a page
    /// apart, and L2 by classes is right.
    pub fn with_placed_l2(&self) -> Tally {
        let share = self.l2_shadowed.share();
        if self.placed_fills < self.l2_fills && share > MOST_CONFLICTS {
            return *self;
        }
        let of_own = |fills: u64| fills.saturating_sub(self.coherence + self.coherence_in_l2);
        let conflicts = (of_own(self.l2_fills) as f64 * share).round() as u64;
        let (more, misses) = (self.placed_fills.saturating_sub(self.l2_fills), of_own(self.placed_fills));
        Tally {
            l2_fills: self.placed_fills,
            l2_dirtied: self.placed_dirtied,
            l2_taken_over: self.placed_taken_over,
            l2_shadowed: Conflicts { misses, conflicts: (conflicts + more).min(misses) },
            ..*self
        }
    }

    /// Share of the lines brought by its stores that are overwritten whole; 0 if no outcome was seen.
    pub fn overwritten_share(&self) -> f64 {
        if self.told_fills == 0 { 0.0 } else { self.overwritten as f64 / self.told_fills as f64 }
    }

    /// The same with the last level indexed by the frames of pages: its additional misses are conflicts in some colours of pages. If it
    /// misses less, lines lie in few positions of their pages, and it is wrong; if it is not simulated it misses nothing.
    pub fn with_placed_last(&self) -> Tally {
        let more = self.placed_last_fills.saturating_sub(self.beside_placed);
        if more == 0 {
            return *self;
        }
        // Without an L2, L1 sends the requests.
        let asked = if self.l2_fills > 0 { self.l2_fills } else { self.l1_fills };
        let more = (more as f64 / self.placed_last_asked.max(1) as f64 * asked as f64).round() as u64;
        let (capacity, conflict) = self.capacity_and_conflict(0.0);
        let known = (self.on_small_pages + self.on_huge_pages).max(1);
        let on = |pages: u64| pages + (more as f64 * pages as f64 / known as f64).round() as u64;
        let stores = self.store_fills as f64 / self.last_fills.max(1) as f64;
        Tally {
            last_fills: self.last_fills + more,
            store_fills: self.store_fills + (stores * more as f64).round() as u64,
            on_small_pages: on(self.on_small_pages),
            on_huge_pages: on(self.on_huge_pages),
            capacity: capacity as u64,
            conflict: conflict as u64 + more,
            ..*self
        }
    }

    /// Lines that were seen on their way between L2 and the last level, and past them.
    pub fn seen_in_l3(&self) -> u64 {
        self.l2_fills + self.l2_writebacks + self.nt_lines
    }

    /// Lines that were seen on their way between the caches and memory.
    pub fn seen_in_memory(&self) -> u64 {
        self.last_fills + self.last_writebacks + self.nt_lines
    }

    /// Last-level misses that are not compulsory, divided into (capacity, conflict) in proportion to the shadowed ones among them; by
    /// `overall`, the share of conflicts in the whole program, if none was shadowed.
    pub fn capacity_and_conflict(&self, overall: f64) -> (f64, f64) {
        let repeated = (self.last_fills - self.compulsory) as f64;
        let shadowed = self.capacity + self.conflict;
        let conflicts = if shadowed == 0 { overall } else { self.conflict as f64 / shadowed as f64 };
        let conflict = (repeated * conflicts).round();
        (repeated - conflict, conflict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_level_by_frames_adds_conflicts_and_takes_nothing_away() {
        let own = |placed_last_fills| Tally {
            l2_fills: 1000,
            last_fills: 110,
            store_fills: 55,
            compulsory: 10,
            capacity: 3,
            conflict: 1,
            placed_last_asked: 250,
            placed_last_fills,
            beside_placed: 20,
            ..Tally::default()
        };
        let placed = |tally: Tally| {
            let placed = tally.with_placed_last();
            let (capacity, conflict) = placed.capacity_and_conflict(0.0);
            (placed.last_fills, placed.store_fills, capacity, conflict)
        };
        assert_eq!(placed(own(0)), (110, 55, 75.0, 25.0));
        assert_eq!(placed(own(20)), (110, 55, 75.0, 25.0));
        assert_eq!(placed(own(25)), (130, 65, 75.0, 45.0));
    }

    #[test]
    fn l2_by_frames_adds_misses_and_takes_none_away_that_are_for_want_of_ways() {
        let own = |l2_fills, conflicts, placed_fills| Tally {
            l2_fills,
            l2_dirtied: 50,
            l2_shadowed: Conflicts { misses: 10, conflicts },
            placed_fills,
            placed_dirtied: 90,
            ..Tally::default()
        };
        let placed = |tally: Tally| {
            let placed = tally.with_placed_l2();
            (placed.l2_fills, (placed.l2_shadowed.share() * placed.l2_fills as f64).round(), placed.l2_dirtied)
        };
        // A working set that would just fit: all misses are conflicts.
        assert_eq!(placed(own(0, 0, 300)), (300, 300.0, 90));
        assert_eq!(placed(own(100, 5, 300)), (300, 250.0, 90));
        // A larger working set, some colours of which fit.
        assert_eq!(placed(own(400, 0, 300)), (300, 0.0, 90));
        // Lines a page apart in a few sets.
        assert_eq!(placed(own(400, 10, 30)), (400, 400.0, 50));
        assert_eq!(placed(own(400, 5, 0)), (400, 200.0, 50));
    }
}
