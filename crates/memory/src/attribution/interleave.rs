//! Interleaves the batches of threads that ran at the same time in an order like the original one.
//!
//! An engine hands over a thread's accesses in batches of thousands. Two threads that write the same line in turn would
//! appear to take it from each other once a batch. Batches of different threads that wait at the same time are
//! therefore played in short turns.

use std::collections::VecDeque;
use std::ops::Range;

use crate::attribution::weights::weights;
use rprof_profile::evidence::memory::{Access, Phase};

/// Accesses of one turn.
const TURN: usize = 16;
/// Selected accesses of one turn if another thread's batch has all accesses: they represent many more.
const SELECTED_TURN: usize = 1;
/// Other threads do not wait any longer for a thread once this many batches are waiting in one queue.
const MAX_WAITING: usize = 8;
/// Maximum accesses that wait, all threads together.
const MOST_WAITING: usize = 1 << 19;
/// A thread counts as running while it delivers one batch in this many.
const RUNNING_WITHIN: u64 = 64;

/// A run of accesses of one thread.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The thread.
    pub thread: u32,
    /// Its process.
    pub process: u32,
    /// Only selected accesses were kept.
    pub selected: bool,
    /// The phase that they were collected in.
    pub phase: Phase,
    /// How many of the first ones only warm L1 up.
    pub warm_up: u64,
    /// The accesses, in program order.
    pub accesses: &'a [Access],
}

/// Batches that wait for those of other threads.
#[derive(Debug, Default)]
pub struct Interleaver {
    queues: Vec<Queue>,
    batches: u64,
    /// Accesses in batches that were not played to their end.
    waiting: usize,
}

#[derive(Debug)]
struct Queue {
    thread: u32,
    process: u32,
    waiting: VecDeque<Batch>,
    /// Number of the batch that came last.
    latest: u64,
    /// The thread has ended.
    ended: bool,
}

/// A batch with accesses that wait.
#[derive(Debug)]
struct Batch {
    selected: bool,
    phase: Phase,
    /// Warm-up accesses among those not played yet.
    warm_up: u64,
    accesses: Vec<Access>,
    /// Number of accesses played.
    played: usize,
}

impl Queue {
    /// Whether other threads need not wait for it: it has delivered nothing since batch `oldest`, or has ended.
    fn is_over(&self, oldest: u64) -> bool {
        self.ended || self.latest < oldest
    }
}

impl Interleaver {
    /// Takes a batch and plays all batches that need not wait.
    pub fn add(&mut self, batch: Part, mut play: impl FnMut(Part)) {
        self.batches += 1;
        let Part { thread, process, .. } = batch;
        let oldest = self.batches.saturating_sub(RUNNING_WITHIN);
        // Programs may start and end any number of threads.
        self.queues.retain(|q| q.thread == thread || !q.is_over(oldest) || !q.waiting.is_empty());
        let at = match self.queues.iter().position(|q| q.thread == thread) {
            Some(at) => at,
            None => {
                self.queues.push(Queue { thread, process, waiting: VecDeque::new(), latest: 0, ended: false });
                self.queues.len() - 1
            }
        };
        self.queues[at].latest = self.batches;
        self.queues[at].process = process;
        if self.plays_at_once(thread) {
            return play(batch);
        }
        self.waiting += batch.accesses.len();
        let Part { selected, phase, warm_up, .. } = batch;
        self.queues[at].waiting.push_back(Batch {
            selected,
            phase,
            warm_up,
            accesses: batch.accesses.to_vec(),
            played: 0,
        });
        while self.queues.iter().all(|q| q.is_over(oldest) || !q.waiting.is_empty())
            || self.queues.iter().any(|q| q.waiting.len() > MAX_WAITING)
            || self.waiting > MOST_WAITING
        {
            self.round(&mut play);
        }
    }

    /// Whether no thread has to take turns.
    pub fn is_alone(&self) -> bool {
        self.queues.len() < 2
    }

    /// Whether the batches of `thread` are played at once.
    pub fn plays_at_once(&self, thread: u32) -> bool {
        self.queues.iter().all(|q| q.thread == thread && q.waiting.is_empty())
    }

    /// Ends `thread`: no more batches will come from it.
    pub fn end(&mut self, thread: u32) {
        self.queues.iter_mut().filter(|q| q.thread == thread).for_each(|q| q.ended = true);
    }

    /// A thread begins: waiting batches of ended threads ran before it, and are played.
    pub fn begin(&mut self, mut play: impl FnMut(Part)) {
        while self.queues.iter().any(|q| q.ended && !q.waiting.is_empty()) {
            self.round(&mut play);
        }
    }

    /// Whether a waiting batch accesses these addresses of `process`.
    pub fn awaits(&self, process: u32, addresses: Range<u64>) -> bool {
        let within = |access: &Access| access.address < addresses.end && access.last_byte() >= addresses.start;
        let mut of_process = self.queues.iter().filter(|queue| queue.process == process);
        of_process.any(|queue| queue.waiting.iter().any(|batch| batch.accesses.iter().any(within)))
    }

    /// Plays all waiting batches.
    pub fn finish(&mut self, mut play: impl FnMut(Part)) {
        while self.queues.iter().any(|q| !q.waiting.is_empty()) {
            self.round(&mut play);
        }
    }

    /// Plays turns of all threads with waiting batches until one of them has played a batch to its end.
    fn round(&mut self, play: &mut impl FnMut(Part)) {
        let mut ended = false;
        while !ended {
            let mut any = false;
            let mixed = self.queues.iter().filter_map(|q| q.waiting.front()).any(|batch| !batch.selected);
            for queue in &mut self.queues {
                let Some(batch) = queue.waiting.front_mut() else { continue };
                any = true;
                let turn = if batch.selected && mixed { SELECTED_TURN } else { TURN };
                let end = (batch.played + turn).min(batch.accesses.len());
                let accesses = &batch.accesses[batch.played..end];
                let Batch { selected, phase, warm_up, .. } = *batch;
                play(Part { thread: queue.thread, process: queue.process, selected, phase, warm_up, accesses });
                batch.warm_up = warm_up.saturating_sub(weights(accesses, 1));
                batch.played = end;
                if end == batch.accesses.len() {
                    self.waiting -= end;
                    queue.waiting.pop_front();
                    ended = true;
                }
            }
            ended |= !any;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessKind;

    fn batch(from: u64, count: u64) -> Vec<Access> {
        (from..from + count).map(|address| Access { address, bytes: 8, site: 0, kind: AccessKind::Load }).collect()
    }

    fn part(thread: u32, accesses: &[Access]) -> Part<'_> {
        Part { thread, process: 1, selected: thread == 1, phase: Phase::Opening, warm_up: 20, accesses }
    }

    #[test]
    fn one_thread_is_played_at_once() {
        let (mut interleaver, mut played) = (Interleaver::default(), 0);
        interleaver.add(part(3, &batch(0, 100)), |p| played += p.accesses.len());
        assert_eq!(played, 100);
        assert!(!interleaver.awaits(1, 0..100));
    }

    #[test]
    fn what_waits_is_known_by_its_addresses() {
        let mut interleaver = Interleaver::default();
        [0, 2].into_iter().for_each(|thread| interleaver.add(part(thread, &batch(1000, 100)), |_| ()));
        assert!(interleaver.awaits(1, 0..1001) && interleaver.awaits(1, 1106..2000));
        assert!(
            !interleaver.awaits(2, 0..2000) && !interleaver.awaits(1, 0..1000) && !interleaver.awaits(1, 1107..2000)
        );
        interleaver.finish(|_| ());
        assert!(!interleaver.awaits(1, 0..2000));
    }

    #[test]
    fn two_threads_take_turns_and_nothing_is_lost() {
        let (mut interleaver, mut played) = (Interleaver::default(), Vec::new());
        let keep = |played: &mut Vec<_>, p: Part| played.push((p.thread, p.selected, p.accesses.to_vec()));
        for round in 0..10 {
            for thread in 0..2 {
                interleaver.add(part(thread, &batch(round * 1000, 1000)), |p| keep(&mut played, p));
            }
        }
        interleaver.finish(|p| keep(&mut played, p));
        assert!(played.iter().all(|(thread, selected, _)| *selected == (*thread == 1)));
        for thread in 0..2 {
            let own = played.iter().filter(|(t, ..)| *t == thread);
            let addresses: Vec<u64> = own.flat_map(|(.., p)| p.iter().map(|a| a.address)).collect();
            assert_eq!(addresses, (0..10_000).collect::<Vec<_>>());
        }
        let turns = played.windows(2).filter(|w| w[0].0 != w[1].0).count();
        assert!(turns > 1000, "{turns}");
    }

    #[test]
    fn threads_that_are_over_take_no_turns_with_those_that_begin_later() {
        let (mut interleaver, mut played) = (Interleaver::default(), Vec::new());
        // Pairs of threads, one after the other, while one more waits.
        interleaver.add(part(1, &batch(0, 100)), |_| ());
        for pair in 1..10 {
            interleaver.begin(|p| played.push(p.thread));
            let threads = [2 * pair, 2 * pair + 1];
            threads.iter().for_each(|&thread| interleaver.add(part(thread, &batch(0, 160)), |p| played.push(p.thread)));
            threads.iter().for_each(|&thread| interleaver.end(thread));
        }
        interleaver.finish(|p| played.push(p.thread));
        let pairs: Vec<u32> = played.iter().map(|thread| thread / 2).collect();
        assert!(pairs.is_sorted() && pairs.len() == 9 * 20, "{played:?}");
        let turns = played.windows(2).filter(|w| w[0] != w[1]).count();
        assert!(turns > 9 * 18, "those of one time take turns: {turns}");
    }

    #[test]
    fn a_thread_that_stopped_is_not_waited_for() {
        let (mut interleaver, mut played) = (Interleaver::default(), 0usize);
        interleaver.add(part(0, &batch(0, 10)), |p| played += p.accesses.len());
        for _ in 0..200 {
            interleaver.add(part(2, &batch(0, 10)), |p| played += p.accesses.len());
        }
        assert!(played > 1900, "{played}");
    }
}
