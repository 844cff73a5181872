//! Threads, the cores that they run on, address spaces, and the (instruction, thread) pairs that traffic is charged to.
//!
//! Programs may have any number of threads and instructions; the tables have limits. Beyond them, threads use the pairs of an earlier
//! thread, and instructions a pair without a place; the report says so in both cases.

use std::collections::HashMap;

use crate::memory::attribution::cores::Cores;
use crate::memory::caches::line::Owner;
use crate::memory::classify::access_pattern::{RecentMisses, Steps};
use crate::profile::run::Warning;

/// Sizes of the tables.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// (instruction, thread) pairs: 1.3 KB each, in tallies.
    owners: usize,
    /// Threads with pairs of their own: 8 KB each.
    threads: usize,
    /// Places in their tables: 4 bytes each.
    places: usize,
}

const LIMITS: Limits = Limits { owners: 1 << 16, threads: 256, places: 4 << 20 };
/// Tables grow by this many places.
const GROWTH: usize = 1 << 10;
/// rprof warns if more than this share of the accessed bytes is attributed to another thread.
const ELSEWHERE: f64 = 0.01;
/// The site of accesses whose instruction had no room in the tables.
const NOWHERE: u32 = u32::MAX;

/// All threads seen so far and their owners.
#[derive(Debug)]
pub struct Owners {
    limits: Limits,
    cores: Cores,
    /// The book of a thread's traffic.
    threads: HashMap<u32, usize>,
    spaces: HashMap<u32, u32>,
    books: Vec<ThreadBook>,
    /// Places in all of them.
    places: usize,
    /// (site, thread) by owner.
    pairs: Vec<(u32, u32)>,
    /// The last accesses of each owner.
    steps: Vec<Steps>,
    nowhere: Option<Owner>,
    /// Whether threads share a book.
    shared: bool,
}

/// The owners of one thread, or of several.
#[derive(Debug)]
struct ThreadBook {
    /// Owner number + 1 by site; 0 = none yet.
    owners: Vec<u32>,
    recent: RecentMisses,
}

/// The place of a batch of accesses.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The thread.
    pub thread: u32,
    /// The core that it runs on.
    pub core: usize,
    /// Number of its address space.
    pub space: u32,
    /// The book of its traffic.
    pub book: usize,
    /// Whether other threads' traffic is in it, too.
    pub shares_book: bool,
}

impl Owners {
    /// No threads yet, on `cores` cores.
    pub fn new(cores: u32) -> Self {
        Self::with_limits(cores, LIMITS)
    }

    fn with_limits(cores: u32, limits: Limits) -> Self {
        Owners {
            limits,
            cores: Cores::new(cores),
            threads: HashMap::new(),
            spaces: HashMap::new(),
            books: Vec::new(),
            places: 0,
            pairs: Vec::new(),
            steps: Vec::new(),
            nowhere: None,
            shared: false,
        }
    }

    /// The place of `thread` of `process`.
    pub fn place(&mut self, thread: u32, process: u32) -> Place {
        let fresh = self.spaces.len() as u32;
        let space = *self.spaces.entry(process).or_insert(fresh);
        let (core, book) = (self.cores.of(thread), self.book(thread));
        Place { thread, core, space, book, shares_book: self.shared }
    }

    /// Notes `accesses` of `thread`, which may move it to another core.
    pub fn work(&mut self, thread: u32, accesses: u64) {
        self.cores.work(thread, accesses);
    }

    /// Ends `thread` and frees its core.
    pub fn end(&mut self, thread: u32) {
        self.cores.end(thread);
    }

    /// Threads that were seen.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The address space of `process`, if it was seen.
    pub fn space(&self, process: u32) -> Option<u32> {
        self.spaces.get(&process).copied()
    }

    /// All processes seen so far.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.spaces.keys().copied()
    }

    /// The book of `thread`'s traffic.
    pub fn book(&mut self, thread: u32) -> usize {
        if let Some(known) = self.threads.get(&thread) {
            return *known;
        }
        let index = self.threads.len();
        let room = self.books.len() < self.limits.threads && self.places < self.limits.places;
        let book = if room || self.books.is_empty() {
            self.books.push(ThreadBook { owners: Vec::new(), recent: RecentMisses::new() });
            self.books.len() - 1
        } else {
            self.shared = true;
            index % self.books.len()
        };
        self.threads.insert(thread, book);
        book
    }

    /// The owner for `site` in a thread with this book; true if it is new.
    #[inline]
    pub fn owner(&mut self, thread: u32, book: usize, site: u32) -> (Owner, bool) {
        match self.known(book, site) {
            Some(owner) => (owner, false),
            None => self.add(thread, book, site),
        }
    }

    #[inline]
    fn known(&self, book: usize, site: u32) -> Option<Owner> {
        self.books.get(book)?.owners.get(site as usize)?.checked_sub(1).map(Owner)
    }

    #[cold]
    fn add(&mut self, thread: u32, book: usize, site: u32) -> (Owner, bool) {
        let at = site as usize;
        let length = self.books[book].owners.len();
        let grown = (at / GROWTH + 1) * GROWTH;
        if at >= length && book != 0 && self.places + grown - length > self.limits.places {
            // No room for this thread's table any more: it uses the first one's.
            self.shared = true;
            self.threads.values_mut().filter(|known| **known == book).for_each(|known| *known = 0);
            return self.owner(thread, 0, site);
        }
        if at >= length {
            self.books[book].owners.reserve_exact(grown - length);
            self.books[book].owners.resize(grown, 0);
            self.places += grown - length;
        }
        let (owner, fresh) = self.make(thread, site);
        self.books[book].owners[at] = owner.0 + 1;
        (owner, fresh)
    }

    /// A new owner; beyond the limit another thread's of the same instruction, or that of nowhere.
    fn make(&mut self, thread: u32, site: u32) -> (Owner, bool) {
        let full = self.pairs.len() >= self.limits.owners;
        let known = full.then(|| (0..self.books.len()).find_map(|book| self.known(book, site)).or(self.nowhere));
        if let Some(Some(owner)) = known {
            self.shared |= Some(owner) != self.nowhere;
            return (owner, false);
        }
        let owner = Owner(self.pairs.len() as u32);
        if full {
            self.nowhere = Some(owner);
        }
        self.pairs.push((if full { NOWHERE } else { site }, thread));
        self.steps.push(Steps::default());
        (owner, true)
    }

    /// (site, thread) of all owners, in order.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// The owner of instructions without room in the tables.
    pub fn nowhere(&self) -> Option<Owner> {
        self.nowhere
    }

    /// The steps of `owner`'s accesses.
    #[inline]
    pub fn steps(&mut self, owner: Owner) -> &mut Steps {
        &mut self.steps[owner.0 as usize]
    }

    /// The steps of `owner`'s accesses with the recent misses of a thread with this `book`.
    pub fn order(&mut self, book: usize, owner: Owner) -> Option<(&Steps, &mut RecentMisses)> {
        let recent = &mut self.books.get_mut(book)?.recent;
        Some((&self.steps[owner.0 as usize], recent))
    }

    /// Whether the traffic that `owner` has is another thread's than `thread`'s.
    pub fn is_of_another(&self, owner: Owner, thread: u32) -> bool {
        self.pairs.get(owner.0 as usize).is_some_and(|&(site, of)| site != NOWHERE && of != thread)
    }

    /// A warning if this `share` of the accessed bytes, attributed to another thread than theirs, is too large.
    pub fn warning(&self, share: f64) -> Option<Warning> {
        (share > ELSEWHERE).then(|| {
            Warning::new(
                "memory-threads",
                format!(
                    "the memory model cannot separate all instructions of {} threads: {:.0} % of the accessed bytes are \
                     attributed to another thread",
                    self.threads.len(),
                    100.0 * share
                ),
                "figures of memory by thread are wrong by that much; sums over threads are right",
                "run it with fewer threads for figures by thread",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_address_spaces_of_their_own() {
        let mut owners = Owners::new(2);
        assert_eq!([5, 1, 5].map(|thread| owners.place(thread, 77).core), [0, 1, 0]);
        assert_ne!(owners.place(1, 77).space, owners.place(1, 78).space);
    }

    #[test]
    fn beyond_the_limit_pairs_are_shared_or_nowhere() {
        let mut owners = Owners::with_limits(2, Limits { owners: 2, threads: 8, places: 1 << 20 });
        let books: Vec<usize> = (0..3).map(|thread| owners.book(thread)).collect();
        assert_eq!(books, [0, 1, 2]);
        assert_eq!(owners.owner(0, 0, 4), (Owner(0), true));
        assert_eq!(owners.owner(0, 0, 4), (Owner(0), false));
        assert_eq!(owners.owner(1, 1, 4), (Owner(1), true));
        assert_eq!(owners.owner(2, 2, 4), (Owner(0), false));
        assert_eq!([0, 2].map(|thread| owners.is_of_another(Owner(0), thread)), [false, true]);
        assert_eq!(owners.owner(2, 2, 5), (Owner(2), true));
        assert_eq!(owners.owner(1, 1, 6), (Owner(2), false));
        assert_eq!(owners.pairs(), [(4, 0), (4, 1), (NOWHERE, 2)]);
        assert_eq!(owners.nowhere(), Some(Owner(2)));
        assert!(!owners.is_of_another(Owner(2), 1), "it is nobody's");
        assert_eq!([0.0, 0.009, 0.02].map(|share| owners.warning(share).is_some()), [false, false, true]);
    }

    #[test]
    fn threads_without_room_book_on_earlier_ones() {
        let mut owners = Owners::with_limits(2, Limits { owners: 100, threads: 2, places: GROWTH });
        assert_eq!([0, 1, 2, 3].map(|thread| owners.book(thread)), [0, 1, 0, 1]);
        assert_eq!(owners.owner(0, 0, 7), (Owner(0), true));
        // The table of the second would be too much.
        assert_eq!(owners.owner(1, 1, 7), (Owner(0), false));
        assert_eq!([0, 1, 2, 3].map(|thread| owners.book(thread)), [0, 0, 0, 0]);
    }
}
