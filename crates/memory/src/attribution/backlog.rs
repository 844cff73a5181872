//! Accesses that were received and are not simulated yet: their threads continue, and the model catches up while nothing is collected.

use std::collections::VecDeque;

use crate::attribution::interleave::Part;
use crate::attribution::weights::weights;
use rprof_profile::evidence::memory::{Access, Phase};

/// Accesses simulated at a time if one thread runs alone: its requests wait for less than 0.3 ms meanwhile, except for strings.
const PIECE: usize = 1 << 7;
/// Maximum batches that wait, however small.
const MOST_BATCHES: usize = 1 << 14;

/// A batch with accesses that wait.
#[derive(Debug)]
pub struct Batch {
    thread: u32,
    process: u32,
    selected: bool,
    phase: Phase,
    /// Number of accesses left that only warm L1 up.
    warm_up: u64,
    accesses: Box<[Access]>,
    /// Number of accesses already simulated.
    done: usize,
    /// Weight of the accesses left, each of which represents accesses to `one_in` lines.
    left: u64,
    one_in: u64,
    /// Pages that had arrived in the window when the batch was received, if they were counted then.
    arrived: Option<u64>,
}

impl Batch {
    /// The thread of the batch.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// Takes the next part of the batch: a piece if its thread `is_alone`, else all.
    pub fn next(&mut self, is_alone: bool) -> Part<'_> {
        let Batch { thread, process, selected, phase, warm_up, .. } = *self;
        let left = &self.accesses[self.done..];
        let accesses = if is_alone { &left[..PIECE.min(left.len())] } else { left };
        let weight = weights(accesses, self.one_in);
        self.done += accesses.len();
        self.left -= weight;
        self.warm_up = warm_up.saturating_sub(weight);
        Part { thread, process, selected, phase, warm_up, accesses }
    }
}

/// Batches, the oldest first.
#[derive(Debug, Default)]
pub struct Backlog {
    batches: VecDeque<Batch>,
    /// Weight of their accesses.
    waiting: u64,
}

impl Backlog {
    /// Whether the backlog holds more than `most` accesses, or too many batches.
    pub fn exceeds(&self, most: u64) -> bool {
        self.waiting > most || self.batches.len() > MOST_BATCHES
    }

    /// Adds `part`; each of its accesses represents accesses to `one_in` lines.
    pub fn push(&mut self, part: Part, one_in: u64) {
        let Part { thread, process, selected, phase, warm_up, accesses } = part;
        if accesses.is_empty() {
            return;
        }
        let left = weights(accesses, one_in);
        self.waiting += left;
        let (accesses, done, arrived) = (accesses.into(), 0, None);
        self.batches.push_back(Batch {
            thread,
            process,
            selected,
            phase,
            warm_up,
            accesses,
            done,
            left,
            one_in,
            arrived,
        });
    }

    /// Notes that `pages` had arrived when all waiting batches were received; false if none is waiting.
    pub fn note_arrived(&mut self, pages: u64) -> bool {
        let last = self.batches.back_mut();
        last.map(|batch| batch.arrived = Some(pages)).is_some()
    }

    /// Takes the oldest batch out; [`put_back`](Self::put_back) returns the rest of it.
    pub fn take(&mut self) -> Option<Batch> {
        let batch = self.batches.pop_front()?;
        self.waiting -= batch.left;
        Some(batch)
    }

    /// Puts the rest of the oldest batch back. If there is none: the pages that had arrived when it was received, if they were counted.
    pub fn put_back(&mut self, batch: Batch) -> Option<u64> {
        if batch.done == batch.accesses.len() {
            return batch.arrived;
        }
        self.waiting += batch.left;
        self.batches.push_front(batch);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessKind;

    #[test]
    fn what_waits_comes_piece_by_piece_in_order() {
        let word = |i: usize| Access { address: 8 * i as u64, bytes: 8, site: 0, kind: AccessKind::Load };
        let all: Vec<Access> = (0..3 * PIECE).map(word).collect();
        let (thread, process, phase, warm_up) = (1, 2, Phase::Measuring, PIECE as u64 + 1);
        let part = |accesses, warm_up| Part { thread, process, selected: false, phase, warm_up, accesses };
        let mut backlog = Backlog::default();
        assert!(!backlog.note_arrived(3) && backlog.take().is_none());
        let (first, second) = all.split_at(PIECE + 10);
        backlog.push(part(first, warm_up), 1);
        assert!(backlog.note_arrived(7));
        backlog.push(part(second, 0), 1);
        assert!(backlog.exceeds(3 * PIECE as u64 - 1) && !backlog.exceeds(3 * PIECE as u64));
        let (mut came, mut pieces) = (Vec::new(), Vec::new());
        while let Some(mut batch) = backlog.take() {
            let part = batch.next(true);
            came.extend_from_slice(part.accesses);
            let (length, warm_up) = (part.accesses.len(), part.warm_up);
            pieces.push((length, warm_up, backlog.put_back(batch)));
        }
        assert!(came == all && !backlog.exceeds(0));
        assert_eq!(pieces[..2], [(PIECE, warm_up, None), (10, 1, Some(7))]);
        assert_eq!(pieces.len(), 4);
        backlog.push(part(&all, 0), 1);
        assert!(backlog.take().unwrap().next(false).accesses == all, "others are to be played with it in turn");
    }
}
