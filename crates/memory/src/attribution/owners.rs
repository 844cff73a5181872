//! Threads, the cores that they run on, address spaces, and the (instruction, thread) pairs that traffic is charged to.
//!
//! Programs may have any number of threads and instructions; the tables have limits. Beyond them, threads use the pairs of an earlier
//! thread, and instructions a pair without a place; the report says so in both cases. The last quarter of the pairs is for instructions that
//! access memory often: a compiler that runs first must not leave a kernel without one.

use std::collections::HashMap;

use crate::attribution::cores::Cores;
use crate::caches::line::Owner;
use crate::classify::access_pattern::{RecentMisses, Steps};
use rprof_profile::run::Warning;

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
/// Pairs are given freely until the free ones have been halved this often.
const FREELY: u32 = 2;
/// From then on an instruction gets one after this many accesses; after four times as many whenever half of the rest is taken.
const OFTEN: u64 = 64;
/// Largest number of instructions without a pair to count accesses of: with more, all begin anew.
const MOST_WAITING: usize = 1 << 17;
/// The site of accesses of an instruction without room in the tables.
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
    /// Accesses of instructions without a pair, by book and site.
    waiting: HashMap<(usize, u32), u64>,
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
            waiting: HashMap::new(),
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

    /// The owner for an access of `site` in a thread with this book; true if it is new.
    #[inline]
    pub fn owner(&mut self, thread: u32, book: usize, site: u32) -> (Owner, bool) {
        self.owner_of(thread, book, site, 1)
    }

    /// The owner for `accesses` of `site` in a thread with this book; true if it is new.
    #[inline]
    pub fn owner_of(&mut self, thread: u32, book: usize, site: u32, accesses: u64) -> (Owner, bool) {
        match self.known(book, site) {
            Some(owner) => (owner, false),
            None => self.add(thread, book, site, accesses),
        }
    }

    #[inline]
    fn known(&self, book: usize, site: u32) -> Option<Owner> {
        self.books.get(book)?.owners.get(site as usize)?.checked_sub(1).map(Owner)
    }

    #[cold]
    fn add(&mut self, thread: u32, book: usize, site: u32, accesses: u64) -> (Owner, bool) {
        let at = site as usize;
        let length = self.books[book].owners.len();
        let grown = (at / GROWTH + 1) * GROWTH;
        if at >= length && book != 0 && self.places + grown - length > self.limits.places {
            // No room for this thread's table any more: it uses the first one's.
            self.shared = true;
            self.threads.values_mut().filter(|known| **known == book).for_each(|known| *known = 0);
            return self.owner_of(thread, 0, site, accesses);
        }
        if !self.has_often(book, site, accesses) {
            return self.without_place(thread);
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

    /// Whether `site` has accessed memory often enough for a pair, with these `accesses`.
    fn has_often(&mut self, book: usize, site: u32, accesses: u64) -> bool {
        let room = self.limits.owners.saturating_sub(self.pairs.len());
        let halvings = self.limits.owners.checked_div(room).map_or(0, usize::ilog2);
        let Some(scarcity) = halvings.checked_sub(FREELY) else {
            // There is room enough. Or there is none: it shares what there is, for good.
            return true;
        };
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.clear();
        }
        let so_far = self.waiting.entry((book, site)).or_default();
        *so_far += accesses;
        let often = *so_far >= OFTEN << (2 * scarcity);
        if often {
            self.waiting.remove(&(book, site));
        }
        often
    }

    /// A new owner; beyond the limit another thread's of the same instruction, or that of nowhere.
    fn make(&mut self, thread: u32, site: u32) -> (Owner, bool) {
        if self.pairs.len() < self.limits.owners {
            return (self.push(site, thread), true);
        }
        match (0..self.books.len()).find_map(|book| self.known(book, site)) {
            Some(owner) => {
                self.shared |= Some(owner) != self.nowhere;
                (owner, false)
            }
            None => self.without_place(thread),
        }
    }

    /// The owner of nowhere; true if it is new.
    fn without_place(&mut self, thread: u32) -> (Owner, bool) {
        if let Some(owner) = self.nowhere {
            return (owner, false);
        }
        let owner = self.push(NOWHERE, thread);
        self.nowhere = Some(owner);
        (owner, true)
    }

    fn push(&mut self, site: u32, thread: u32) -> Owner {
        let owner = Owner(self.pairs.len() as u32);
        self.pairs.push((site, thread));
        self.steps.push(Steps::default());
        owner
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
    fn a_kernel_that_comes_late_has_a_pair() {
        let mut owners = Owners::with_limits(1, Limits { owners: 16, threads: 8, places: 1 << 20 });
        let book = owners.book(0);
        let sites: Vec<Owner> = (0..100).map(|site| owners.owner(0, book, site).0).collect();
        assert_eq!(sites[11], Owner(11));
        assert!(sites[12..].iter().all(|owner| Some(*owner) == owners.nowhere()), "a quarter of the pairs is kept");
        let kernel = (0..64).map(|_| owners.owner(0, book, 200).0).last().unwrap();
        assert_ne!(Some(kernel), owners.nowhere());
        assert_eq!(owners.pairs()[kernel.0 as usize], (200, 0));
        for (accesses, site, has_one) in [(255, 201, false), (256, 202, true), (1, 201, false), (1000, 203, false)] {
            let (owner, fresh) = owners.owner_of(0, book, site, accesses);
            assert_eq!((Some(owner) != owners.nowhere(), fresh), (has_one, has_one), "{site}");
        }
        for site in 300..400 {
            owners.owner_of(0, book, site, 1 << 40);
        }
        assert_eq!(owners.pairs().len(), 16, "and no more than the limit");
        assert_eq!(Some(owners.owner_of(0, book, 500, 1 << 60).0), owners.nowhere());
    }

    #[test]
    fn beyond_the_limit_pairs_are_shared_or_nowhere() {
        let mut owners = Owners::with_limits(2, Limits { owners: 2, threads: 8, places: 1 << 20 });
        let books: Vec<usize> = (0..3).map(|thread| owners.book(thread)).collect();
        assert_eq!(books, [0, 1, 2]);
        assert_eq!(owners.owner(0, 0, 4), (Owner(0), true));
        assert_eq!(owners.owner(0, 0, 4), (Owner(0), false));
        assert_eq!(owners.owner_of(1, 1, 4, OFTEN), (Owner(1), true));
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
