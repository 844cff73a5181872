//! The core that a thread runs on: the one that a scheduler would have chosen, as far as accesses show which threads run.
//!
//! A thread stays on its core. A new one gets a core that no living thread has, or the one that was quiet longest. Programs have more
//! threads than cores, most of which sleep: a thread that shares its core with a busy one moves to a core with less load.

use std::collections::HashMap;

/// The load of a thread on its core halves after this many batches.
const HALF_LIFE: f64 = 16.0;
/// A thread moves if the other core's load, with its own added, is below this share of its present core's load.
const WORTH_MOVING: f64 = 0.75;

/// The cores, and the threads on them.
#[derive(Debug)]
pub struct Cores {
    cores: Vec<Core>,
    threads: HashMap<u32, Running>,
    /// Batches so far.
    now: u64,
}

#[derive(Debug, Clone, Default)]
struct Core {
    /// Living threads.
    threads: usize,
    work: Work,
}

/// A thread.
#[derive(Debug, Clone, Copy)]
struct Running {
    core: usize,
    work: Work,
    ended: bool,
}

/// Accesses, weighted less the longer ago they were.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    amount: f64,
    /// Time of the last update.
    at: u64,
}

impl Work {
    fn by(self, now: u64, half_life: f64) -> f64 {
        self.amount * (-((now - self.at) as f64) / half_life).exp2()
    }

    fn add(&mut self, more: f64, now: u64, half_life: f64) {
        *self = Work { amount: (self.by(now, half_life) + more).max(0.0), at: now };
    }
}

impl Cores {
    /// `count` cores, at least one, without threads.
    pub fn new(count: u32) -> Self {
        Cores { cores: vec![Core::default(); count.max(1) as usize], threads: HashMap::new(), now: 0 }
    }

    /// The core of `thread`.
    pub fn of(&mut self, thread: u32) -> usize {
        match self.threads.get(&thread) {
            Some(running) => running.core,
            None => self.begin(thread),
        }
    }

    /// Notes `accesses` of `thread`, which may move it to another core.
    pub fn work(&mut self, thread: u32, accesses: u64) {
        self.now += 1;
        if self.threads.get(&thread).is_none_or(|running| running.ended) {
            self.begin(thread);
        }
        let (now, half_life) = (self.now, self.half_life());
        let Some(running) = self.threads.get_mut(&thread) else { return };
        running.work.add(accesses as f64, now, half_life);
        self.cores[running.core].work.add(accesses as f64, now, half_life);
        let (here, own) = (running.core, running.work.by(now, half_life));
        if self.cores[here].threads < 2 {
            return;
        }
        let load = |core: &Core| core.work.by(now, half_life);
        let quietest = (0..self.cores.len()).min_by(|&a, &b| load(&self.cores[a]).total_cmp(&load(&self.cores[b])));
        let Some(there) = quietest.filter(|&there| there != here) else { return };
        if load(&self.cores[there]) + own < WORTH_MOVING * load(&self.cores[here]) {
            running.core = there;
            for (core, more) in [(here, -own), (there, own)] {
                self.cores[core].work.add(more, now, half_life);
            }
            self.cores[here].threads -= 1;
            self.cores[there].threads += 1;
        }
    }

    /// Ends `thread`.
    pub fn end(&mut self, thread: u32) {
        let half_life = self.half_life();
        let Some(running) = self.threads.get_mut(&thread).filter(|running| !running.ended) else { return };
        running.ended = true;
        let core = &mut self.cores[running.core];
        core.threads -= 1;
        core.work.add(-running.work.by(self.now, half_life), self.now, half_life);
    }

    fn half_life(&self) -> f64 {
        HALF_LIFE * self.cores.len() as f64
    }

    /// Puts a new thread on a core.
    fn begin(&mut self, thread: u32) -> usize {
        let all = self.cores.iter().enumerate();
        let core = all.min_by_key(|(_, core)| (core.threads > 0).then_some(core.work.at)).map_or(0, |(at, _)| at);
        self.cores[core].threads += 1;
        self.threads.insert(thread, Running { core, work: Work { amount: 0.0, at: self.now }, ended: false });
        core
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cores of threads after `rounds` in which each of them has made a batch with its number of accesses.
    fn rounds(cores: &mut Cores, rounds: usize, threads: &[(u32, u64)]) -> Vec<usize> {
        for _ in 0..rounds {
            threads.iter().filter(|(_, n)| *n > 0).for_each(|&(thread, accesses)| cores.work(thread, accesses));
        }
        threads.iter().map(|(thread, _)| cores.of(*thread)).collect()
    }

    #[test]
    fn as_many_threads_as_cores_have_one_each_and_stay() {
        let mut cores = Cores::new(4);
        let threads = [(7, 4000), (3, 4000), (5, 10), (4, 400)];
        assert_eq!(rounds(&mut cores, 1, &threads), [0, 1, 2, 3]);
        assert_eq!(rounds(&mut cores, 1000, &threads), [0, 1, 2, 3]);
        // One works alone for a while.
        rounds(&mut cores, 1000, &threads[..1]);
        assert_eq!(rounds(&mut cores, 1000, &threads), [0, 1, 2, 3]);
    }

    #[test]
    fn who_sleeps_takes_no_core_from_those_that_work() {
        let mut cores = Cores::new(2);
        // The main thread, a worker, a helper, a worker: these would share a core.
        let threads = [(1, 4000), (2, 4000), (3, 4), (4, 4000)];
        rounds(&mut cores, 1, &threads);
        let at = rounds(&mut cores, 60, &[(1, 0), (2, 4000), (3, 0), (4, 4000)]);
        assert_ne!(at[1], at[3], "{at:?}");
        // Both stay on their cores, even beside a helper that wakes up now and then.
        let working = [(2, 4000), (3, 10), (4, 4000)];
        for _ in 0..200 {
            assert_eq!(rounds(&mut cores, 1, &working)[..1], at[1..2]);
            assert_eq!(cores.of(4), at[3]);
        }
    }

    #[test]
    fn threads_one_after_another_use_one_core() {
        let mut cores = Cores::new(2);
        cores.work(0, 5000);
        for thread in 1..100 {
            cores.work(thread, 1000);
            assert_eq!(cores.of(thread), 1);
            cores.end(thread);
            cores.work(0, 10);
        }
        assert_eq!(cores.of(0), 0);
        // A reused number is another thread.
        cores.work(1, 1000);
        assert_eq!(cores.of(1), 1);
        assert_eq!(cores.cores.iter().map(|core| core.threads).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn more_threads_than_cores_do_not_move_to_and_fro() {
        let mut cores = Cores::new(2);
        let threads = [(1, 4000), (2, 4000), (3, 4000)];
        let at = rounds(&mut cores, 100, &threads);
        for _ in 0..500 {
            assert_eq!(rounds(&mut cores, 1, &threads), at);
        }
    }
}
