//! Builds the caches of a core when its first thread comes.

use super::burst::BurstL2;
use super::physical_index::{PhysicallyIndexedL2, PlacedLast};
use super::{Core, Hierarchy, Indexed, LastLevel, Scope};
use crate::caches::geometry::{LastLevelPolicy, Level};
use crate::caches::set_cache::SetCache;
use crate::caches::write_combining::WriteCombiner;
use crate::classify::fully_associative::PartialShadow;
use crate::classify::overwriting::Overwriting;

/// Maximum lines of a shadow; for larger caches a hash-selected part of the lines is shadowed.
const MAX_SHADOW_LINES: u64 = 1 << 12;
/// The same for L1, with a shadow used at every access, and for the simulated part of an L2, with a shadow used at every miss.
const MAX_L1_SHADOW_LINES: u64 = 1 << 7;
const MAX_L2_SHADOW_LINES: u64 = 1 << 7;
/// Maximum lines of L2 that bursts simulate, over all cores: 16 MB. L2 of further cores is estimated from the sample of lines alone.
const MAX_BURST_LINES: u64 = 1 << 19;

impl Hierarchy {
    /// Makes the caches of all cores up to `core`. To be called before the core's first access.
    pub fn add_core(&mut self, core: usize) {
        while self.cores.len() <= core {
            let last = self.cores.len() / self.geometry.last.shared_by.max(1) as usize;
            if self.last.len() <= last {
                let lines = self.last_level_lines();
                let mut cache = self.indexed(&self.geometry.last);
                if self.geometry.l2.is_some() && self.whereabouts.has_frames() {
                    cache.indexing = cache.indexing.of_frames();
                }
                let placed = self.places().then(|| {
                    let indexing = self.scope.indexing(&self.geometry.last);
                    let sliced = self.geometry.l2.is_some();
                    let indexing = if sliced { indexing.of_frames() } else { indexing };
                    PlacedLast::new(indexing, self.geometry.last.ways, self.scope.classes())
                });
                self.last.push(LastLevel { cache, shadow: PartialShadow::new(lines, MAX_SHADOW_LINES), placed });
            }
            let l2_lines = self.geometry.l2.map_or(0, |l2| l2.lines()) / self.scope.classes().count();
            let core_number = self.cores.len() as u64;
            let most_shadowed = if self.scope == Scope::Whole { MAX_SHADOW_LINES } else { MAX_L2_SHADOW_LINES };
            let core = Core {
                l1: SetCache::with_sets(self.l1_indexing.sets(), self.geometry.l1.ways),
                l1_shadow: (!matches!(self.scope, Scope::OneClass(_)))
                    .then(|| PartialShadow::new(self.geometry.l1.lines(), MAX_L1_SHADOW_LINES)),
                l2_shadow: PartialShadow::new(l2_lines, most_shadowed),
                l2: self.geometry.l2.as_ref().map(|l2| self.indexed(l2)),
                burst_l2: self
                    .beyond_scope
                    .as_ref()
                    .filter(|l2| l2.lines() * core_number < MAX_BURST_LINES)
                    .map(BurstL2::new),
                placed_l2: self
                    .geometry
                    .l2
                    .filter(|_| self.places())
                    .map(|l2| PhysicallyIndexedL2::new(self.scope.indexing(&l2), l2.ways)),
                combiner: WriteCombiner::default(),
                overwriting: (!matches!(self.scope, Scope::OneClass(_))).then(Overwriting::default),
                last,
            };
            self.cores.push(core);
        }
    }

    /// Lines that the modelled part of one last level holds, plus those of the levels above it if these hold other lines.
    pub fn last_level_lines(&self) -> u64 {
        (self.geometry.last.lines() + self.exclusive_lines()) / self.scope.classes().count()
    }

    /// Lines that private caches hold in addition to the last level's.
    fn exclusive_lines(&self) -> u64 {
        match (self.geometry.policy, self.geometry.l2) {
            (LastLevelPolicy::Victim, Some(l2)) => l2.lines(),
            _ => 0,
        }
    }

    fn indexed(&self, level: &Level) -> Indexed {
        let indexing = self.scope.indexing(level);
        Indexed { cache: SetCache::with_sets(indexing.sets(), level.ways), indexing }
    }
}
