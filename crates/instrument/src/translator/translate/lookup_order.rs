//! The order of the comparisons that an entry of a lookup table leads to: each jumps to the next on a mismatch, and the last to
//! rprof. The processor mispredicts a return to any but the first, so the hottest must be first: relayout writes hot blocks in
//! order of heat, and later comparisons go behind those of relaid-out blocks.
//!
//! ```text
//!  entry ─▶ placed first ─▶ placed later, or cold ─▶ what stood there before the blocks were placed ─▶ rprof
//! ```

use std::sync::atomic::Ordering;

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::translate::superblock::{PendingBucket, Superblock};
use crate::x86_64::emit::{is_in_one_line, reached, relative};
use rprof_tracee::address::CacheAddress;

/// How a lookup reaches code that is in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// By an entry of a table, at this offset.
    Entry(u64, CacheAddress),
    /// By this rel32 of another comparison.
    Behind(CacheAddress, CacheAddress),
}

impl CodeCache {
    /// Inserts a superblock's comparisons into the lookups; returns the links to set, in order, once the code is in place.
    pub(crate) fn chain_heads(&mut self, unit: &mut Superblock) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        for PendingBucket { arrival, at, head, other } in std::mem::take(&mut unit.heads) {
            let entry = Self::entry_of(unit.version, at, arrival);
            let (next, link) = self.head_link(entry, unit.places, head, &links, Some(unit));
            if unit.places > 0 && matches!(link, Link::Entry(..)) {
                self.lookups.bucket_heads.insert(entry, unit.places, other);
            }
            let on = unit.cold.reach(other, next);
            unit.set_word(other, on);
            match link {
                Link::Behind(way, head) if unit.word(way).is_some() => unit.set_word(way, relative(way, head)),
                link => links.push(link),
            }
        }
        links
    }

    /// The link to `head`, and the comparison that follows it, once `links` are set. Its block was placed in round `places` (0:
    /// in none). Code that is not in place yet is in the superblock.
    pub(crate) fn head_link(
        &self,
        entry: u64,
        places: u32,
        head: CacheAddress,
        links: &[Link],
        unit: Option<&Superblock>,
    ) -> (CacheAddress, Link) {
        let way = self.way_behind(entry, places, head, unit);
        let behind = way.and_then(|way| Some((self.leads_to(way, links, unit)?, Link::Behind(way, head))));
        behind.unwrap_or_else(|| (self.found_first(links, entry), Link::Entry(entry, head)))
    }

    /// The rel32 to link to `head` of a block that was placed in round `places` (0: in none).
    fn way_behind(
        &self,
        entry: u64,
        places: u32,
        head: CacheAddress,
        unit: Option<&Superblock>,
    ) -> Option<CacheAddress> {
        let way = self.lookups.bucket_heads.way(entry, places)?;
        let can_change = unit.is_some_and(|u| u.word(way).is_some()) || is_in_one_line(way);
        (can_change && way.get().abs_diff(head.get()) < 1 << 30).then_some(way)
    }

    /// The target of the rel32 at `way` once `links` are set.
    fn leads_to(&self, way: CacheAddress, links: &[Link], unit: Option<&Superblock>) -> Option<CacheAddress> {
        let pending = links.iter().rev().find_map(|link| match *link {
            Link::Behind(from, head) if from == way => Some(head),
            _ => None,
        });
        let in_place = || self.code_at(way).map(u32::from_le_bytes);
        let word = || unit.and_then(|u| u.word(way)).or_else(in_place);
        pending.or_else(|| Some(reached(way, word()?)))
    }

    /// The target of the entry at that offset once `links` are set.
    fn found_first(&self, links: &[Link], entry: u64) -> CacheAddress {
        let pending = links.iter().rev().find_map(|link| match *link {
            Link::Entry(at, head) if at == entry => Some(head),
            _ => None,
        });
        pending.unwrap_or_else(|| CacheAddress::new(self.tables.word(entry).load(Ordering::Relaxed)))
    }

    /// Sets links, so that lookups reach code that is in place.
    pub(crate) fn follow_links(&self, links: &[Link]) {
        for &link in links {
            match link {
                Link::Entry(entry, head) => self.tables.word(entry).store(head.get(), Ordering::Release),
                Link::Behind(way, head) => {
                    if let Some(arena) = self.arena_of(way) {
                        self.arenas[arena].patch(way, relative(way, head));
                    }
                }
            }
        }
    }
}
