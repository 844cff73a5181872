//! Who is who: threads, the cores that they run on, address spaces, and the (instruction, thread) pairs that traffic is
//! booked on.

use std::collections::HashMap;

use super::line::Owner;
use super::order::{RecentMisses, Steps};

/// Owners at most (140 MB of tallies): programs with more (instruction, thread) pairs share an instruction's owner among
/// threads.
const MAX_OWNERS: usize = 150_000;

/// All threads seen so far and their owners.
#[derive(Debug)]
pub struct Owners {
    cores: usize,
    threads: Vec<Option<Thread>>,
    threads_seen: usize,
    spaces: HashMap<u32, u32>,
    /// (site, thread) by owner.
    pairs: Vec<(u32, u32)>,
    /// The last accesses of each owner.
    steps: Vec<Steps>,
}

/// What is kept of a thread.
#[derive(Debug)]
struct Thread {
    core: usize,
    /// Owner number + 1 by site; 0 = none yet.
    owners: Vec<u32>,
    recent: RecentMisses,
}

/// Where a batch of accesses takes place.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Index of the thread.
    pub thread: u32,
    /// Core that it runs on.
    pub core: usize,
    /// Number of its address space.
    pub space: u32,
}

impl Owners {
    /// Nobody yet, on `cores` cores.
    pub fn new(cores: u32) -> Self {
        Owners {
            cores: cores.max(1) as usize,
            threads: Vec::new(),
            threads_seen: 0,
            spaces: HashMap::new(),
            pairs: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Where `thread` of `process` runs: a new thread is put on the next core, round robin.
    pub fn place(&mut self, thread: u32, process: u32) -> Place {
        let fresh = self.spaces.len() as u32;
        let space = *self.spaces.entry(process).or_insert(fresh);
        let index = thread as usize;
        if self.threads.len() <= index {
            self.threads.resize_with(index + 1, || None);
        }
        let state = self.threads[index].get_or_insert_with(|| {
            let core = self.threads_seen % self.cores;
            self.threads_seen += 1;
            Thread { core, owners: Vec::new(), recent: RecentMisses::new() }
        });
        Place { thread, core: state.core, space }
    }

    /// The owner for `site` in a thread that was placed; true if it is new.
    #[inline]
    pub fn owner(&mut self, thread: u32, site: u32) -> (Owner, bool) {
        match self.known(thread, site) {
            Some(owner) => (owner, false),
            None => self.add(thread, site, MAX_OWNERS),
        }
    }

    #[inline]
    fn known(&self, thread: u32, site: u32) -> Option<Owner> {
        let state = self.threads.get(thread as usize)?.as_ref()?;
        state.owners.get(site as usize)?.checked_sub(1).map(Owner)
    }

    #[cold]
    fn add(&mut self, thread: u32, site: u32, limit: usize) -> (Owner, bool) {
        let shared = if self.pairs.len() < limit {
            None
        } else {
            (0..self.threads.len() as u32).find_map(|other| self.known(other, site))
        };
        let owner = shared.unwrap_or(Owner(self.pairs.len() as u32));
        if shared.is_none() {
            self.pairs.push((site, thread));
            self.steps.push(Steps::default());
        }
        if let Some(Some(state)) = self.threads.get_mut(thread as usize) {
            if state.owners.len() <= site as usize {
                state.owners.resize(site as usize + 1, 0);
            }
            state.owners[site as usize] = owner.0 + 1;
        }
        (owner, shared.is_none())
    }

    /// (site, thread) of all owners, in order.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// The steps of `owner`'s accesses.
    #[inline]
    pub fn steps(&mut self, owner: Owner) -> &mut Steps {
        &mut self.steps[owner.0 as usize]
    }

    /// The steps of `owner`'s accesses with the recent misses of `thread`, which was placed.
    pub fn order(&mut self, thread: u32, owner: Owner) -> Option<(&Steps, &mut RecentMisses)> {
        let recent = &mut self.threads.get_mut(thread as usize)?.as_mut()?.recent;
        Some((&self.steps[owner.0 as usize], recent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_put_on_cores_in_turn() {
        let mut owners = Owners::new(2);
        let cores: Vec<usize> = [5, 1, 9, 5].map(|thread| owners.place(thread, 77).core).to_vec();
        assert_eq!(cores, [0, 1, 0, 0]);
        assert_ne!(owners.place(1, 77).space, owners.place(1, 78).space);
    }

    #[test]
    fn beyond_the_limit_threads_share_an_instructions_owner() {
        let mut owners = Owners::new(2);
        for thread in 0..3 {
            owners.place(thread, 1);
        }
        assert_eq!(owners.owner(0, 4), (Owner(0), true));
        assert_eq!(owners.owner(0, 4), (Owner(0), false));
        assert_eq!(owners.add(1, 4, 2), (Owner(1), true));
        assert_eq!(owners.add(2, 4, 2), (Owner(0), false));
        assert_eq!(owners.known(2, 4), Some(Owner(0)));
        assert_eq!(owners.add(2, 5, 2), (Owner(2), true));
        assert_eq!(owners.pairs(), [(4, 0), (4, 1), (5, 2)]);
    }
}
