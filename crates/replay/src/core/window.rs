//! Buffers between dispatch and retirement.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A buffer that gets its entries back in the order in which they were taken.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    /// For each of the last `entries`, the time of its release and the node that released it.
    given_back: Vec<(u32, u32)>,
    next: usize,
}

impl Queue {
    pub(super) fn new(entries: u32) -> Queue {
        Queue { given_back: vec![(0, 0); entries.max(1) as usize], next: 0 }
    }

    /// Time at which there is room for one more entry, and the node that made it.
    #[inline]
    pub(super) fn room(&self) -> (u32, u32) {
        self.given_back[self.next]
    }

    /// Time at which the `n`th entry from now on can be taken, and the node that releases it; n less than the buffer's size.
    #[inline]
    pub(super) fn room_for(&self, n: usize) -> (u32, u32) {
        let at = self.next + n - 1;
        let size = self.given_back.len();
        self.given_back[if at >= size { (at - size).min(size - 1) } else { at }]
    }

    /// Takes an entry that is given back at `time` by `node`.
    #[inline]
    pub(super) fn take(&mut self, time: u32, node: u32) {
        self.given_back[self.next] = (time, node);
        self.next += 1;
        if self.next == self.given_back.len() {
            self.next = 0;
        }
    }
}

/// A scheduler: its entries are given back when their operations issue, in any order.
#[derive(Debug, Clone)]
pub(super) struct Scheduler {
    waiting: BinaryHeap<Reverse<(u32, u32)>>,
    entries: usize,
}

impl Scheduler {
    pub(super) fn new(entries: u32) -> Scheduler {
        Scheduler { waiting: BinaryHeap::with_capacity(entries as usize + 1), entries: entries.max(1) as usize }
    }

    /// Time from `time` on at which an operation leaves room for one more entry, and the node that this operation waited for.
    #[inline]
    pub(super) fn room(&mut self, time: u32) -> Option<(u32, u32)> {
        while self.waiting.len() >= self.entries {
            let Reverse(first) = *self.waiting.peek()?;
            if first.0 > time {
                return Some(first);
            }
            self.waiting.pop();
        }
        None
    }

    /// Takes an entry until `issue`; it waits for `node`. An instruction that issues at once takes none.
    #[inline]
    pub(super) fn take(&mut self, dispatch: u32, issue: u32, node: u32) {
        if issue > dispatch + 2 {
            if self.waiting.len() >= self.entries {
                self.waiting.pop();
            }
            self.waiting.push(Reverse((issue, node)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_give_back_in_order() {
        let mut queue = Queue::new(2);
        queue.take(10, 1);
        assert_eq!(queue.room(), (0, 0));
        queue.take(20, 2);
        assert_eq!((queue.room(), queue.room_for(2)), ((10, 1), (20, 2)));
    }

    #[test]
    fn schedulers_give_back_what_issues_first() {
        let mut scheduler = Scheduler::new(2);
        scheduler.take(0, 50, 1);
        assert_eq!(scheduler.room(0), None);
        scheduler.take(0, 20, 2);
        assert_eq!(scheduler.room(0), Some((20, 2)));
        assert_eq!(scheduler.room(30), None);
    }
}
