//! Accesses that were received and are not simulated yet: their threads go on, and the model catches up while nothing is collected.

use std::collections::VecDeque;

use super::interleave::Part;
use super::replay::weights;
use crate::profile::evidence::memory::{Access, Phase};

/// Accesses of a thread by itself that are simulated at a time: what it asks for meanwhile waits, for less than 0.3 ms but for strings.
const PIECE: usize = 1 << 7;
/// Batches that wait at most, however small.
const MOST_BATCHES: usize = 1 << 14;

/// A batch of which something waits.
#[derive(Debug)]
struct Batch {
    thread: u32,
    process: u32,
    selected: bool,
    phase: Phase,
    /// How many of those that are left only warm L1 up.
    warm_up: u64,
    accesses: Box<[Access]>,
    /// How many are not left.
    done: usize,
    /// An access stands for those to so many lines.
    one_in: u64,
    /// Pages that had arrived in the window when it was received, if it was looked.
    arrived: Option<u64>,
}

/// Accesses that follow each other and are simulated together.
#[derive(Debug)]
pub struct Piece {
    thread: u32,
    process: u32,
    selected: bool,
    phase: Phase,
    warm_up: u64,
    accesses: Vec<Access>,
    /// Pages that had arrived in the window when the batch was received that it is the end of, if it was looked.
    pub arrived: Option<u64>,
}

impl Piece {
    /// As it is simulated.
    pub fn part(&self) -> Part<'_> {
        let Piece { thread, process, selected, phase, warm_up, .. } = *self;
        Part { thread, process, selected, phase, warm_up, accesses: &self.accesses }
    }
}

/// Batches, the oldest first.
#[derive(Debug, Default)]
pub struct Backlog {
    batches: VecDeque<Batch>,
    /// What their accesses count for.
    waiting: u64,
    /// Room for a piece.
    spare: Vec<Access>,
}

impl Backlog {
    /// More waits than so many accesses, or as much as can.
    pub fn exceeds(&self, most: u64) -> bool {
        self.waiting > most || self.batches.len() > MOST_BATCHES
    }

    /// `part` waits, of which an access stands for those to `one_in` lines.
    pub fn push(&mut self, part: Part, one_in: u64) {
        let Part { thread, process, selected, phase, warm_up, accesses } = part;
        if accesses.is_empty() {
            return;
        }
        self.waiting += weights(accesses, one_in);
        let (accesses, done, arrived) = (accesses.into(), 0, None);
        self.batches.push_back(Batch { thread, process, selected, phase, warm_up, accesses, done, one_in, arrived });
    }

    /// When all that waits was received, so many pages had arrived; false if nothing waits.
    pub fn note_arrived(&mut self, pages: u64) -> bool {
        let last = self.batches.back_mut();
        last.map(|batch| batch.arrived = Some(pages)).is_some()
    }

    /// What has waited for longest: a part of a batch if it `is_alone`, as its thread tells, else all that is left of it.
    pub fn next(&mut self, is_alone: impl FnOnce(u32) -> bool) -> Option<Piece> {
        let batch = self.batches.front_mut()?;
        let most = if is_alone(batch.thread) { PIECE } else { usize::MAX };
        let end = batch.done.saturating_add(most).min(batch.accesses.len());
        let mut accesses = std::mem::take(&mut self.spare);
        accesses.extend_from_slice(&batch.accesses[batch.done..end]);
        let simulated = weights(&accesses, batch.one_in);
        let Batch { thread, process, selected, phase, warm_up, .. } = *batch;
        batch.done = end;
        batch.warm_up = warm_up.saturating_sub(simulated);
        self.waiting -= simulated;
        let arrived = if end == batch.accesses.len() { self.batches.pop_front()?.arrived } else { None };
        Some(Piece { thread, process, selected, phase, warm_up, accesses, arrived })
    }

    /// A piece was simulated: its room is free.
    pub fn done(&mut self, mut piece: Piece) {
        piece.accesses.clear();
        self.spare = piece.accesses;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::facts::AccessKind;

    #[test]
    fn what_waits_comes_piece_by_piece_in_order() {
        let word = |i: usize| Access { address: 8 * i as u64, bytes: 8, site: 0, kind: AccessKind::Load };
        let all: Vec<Access> = (0..3 * PIECE).map(word).collect();
        let (thread, process, phase, warm_up) = (1, 2, Phase::Measuring, PIECE as u64 + 1);
        let part = |accesses, warm_up| Part { thread, process, selected: false, phase, warm_up, accesses };
        let mut backlog = Backlog::default();
        assert!(!backlog.note_arrived(3) && backlog.next(|_| true).is_none());
        let (first, second) = all.split_at(PIECE + 10);
        backlog.push(part(first, warm_up), 1);
        assert!(backlog.note_arrived(7));
        backlog.push(part(second, 0), 1);
        assert!(backlog.exceeds(3 * PIECE as u64 - 1) && !backlog.exceeds(3 * PIECE as u64));
        let (mut came, mut pieces) = (Vec::new(), Vec::new());
        while let Some(piece) = backlog.next(|thread| thread == 1) {
            came.extend_from_slice(piece.part().accesses);
            pieces.push((piece.part().accesses.len(), piece.part().warm_up, piece.arrived));
            backlog.done(piece);
        }
        assert!(came == all && !backlog.exceeds(0));
        assert_eq!(pieces[..2], [(PIECE, warm_up, None), (10, 1, Some(7))]);
        assert_eq!(pieces.len(), 4);
        backlog.push(part(&all, 0), 1);
        assert!(backlog.next(|_| false).unwrap().part().accesses == all, "others are to be played with it in turn");
    }
}
