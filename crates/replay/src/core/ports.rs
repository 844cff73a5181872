//! Execution ports: which are taken in which cycle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cycles that the calendar reaches ahead of dispatch; a power of two.
const AHEAD: usize = 1 << 14;
/// Sets of ports that are remembered as taken for a while.
const HINTS: usize = 64;

/// A calendar of up to 32 ports. Later instructions fill the gaps that earlier ones leave.
#[derive(Debug, Clone)]
pub(super) struct Ports {
    /// Ports taken by cycle, one bit each.
    taken: Vec<u32>,
    /// The first cycle that can still be taken.
    floor: u32,
    used: [u32; 32],
    /// Issue times of the operations that are bound to a port.
    bound: Vec<BinaryHeap<Reverse<u32>>>,
    hints: [Hint; HINTS],
}

/// All `ports` are taken in the cycles `from..to`.
#[derive(Debug, Clone, Copy, Default)]
struct Hint {
    ports: u32,
    from: u32,
    to: u32,
}

impl Ports {
    pub(super) fn new() -> Ports {
        Ports {
            taken: vec![0; AHEAD],
            floor: 0,
            used: [0; 32],
            bound: vec![BinaryHeap::new(); 32],
            hints: [Hint::default(); HINTS],
        }
    }

    /// Nothing issues before `cycle` any more.
    #[inline]
    pub(super) fn advance(&mut self, cycle: u32) {
        if cycle <= self.floor {
            return;
        }
        if cycle - self.floor >= AHEAD as u32 {
            self.taken.fill(0);
        } else {
            for past in self.floor..cycle {
                self.taken[past as usize % AHEAD] = 0;
            }
        }
        self.floor = cycle;
    }

    /// The first cycle from `ready` on in which one of `ports` is free; takes the least used of them.
    #[inline]
    pub(super) fn issue(&mut self, ports: u32, ready: u32) -> u32 {
        let last = self.floor + AHEAD as u32 - 1;
        let hint = &mut self.hints[ports.wrapping_mul(0x9e37_79b9) as usize >> 26];
        let mut cycle = ready.max(self.floor);
        let started = cycle;
        if hint.ports == ports && (hint.from..hint.to).contains(&cycle) {
            cycle = hint.to;
        }
        loop {
            if cycle >= last {
                return cycle;
            }
            let free = ports & !self.taken[cycle as usize % AHEAD];
            if free != 0 {
                let port = least_used(free, &self.used);
                self.taken[cycle as usize % AHEAD] |= 1 << port;
                self.used[port as usize] += 1;
                if cycle > started {
                    let joins = hint.ports == ports && hint.to >= started && hint.from <= started;
                    *hint = Hint { ports, from: if joins { hint.from } else { started }, to: cycle };
                }
                return cycle;
            }
            cycle += 1;
        }
    }

    /// As [`issue`](Self::issue) of an operation that is dispatched at `now`: cores choose its port then, the one that fewest operations
    /// wait for, and hold to it.
    #[inline]
    pub(super) fn issue_bound(&mut self, ports: u32, now: u32, ready: u32) -> u32 {
        let (mut best, mut fewest) = (0, usize::MAX);
        let mut rest = ports;
        while rest != 0 {
            let port = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let waiting = &mut self.bound[port];
            while waiting.peek().is_some_and(|Reverse(issue)| *issue <= now) {
                waiting.pop();
            }
            if waiting.len() < fewest || waiting.len() == fewest && self.used[port] < self.used[best] {
                (best, fewest) = (port, waiting.len());
            }
        }
        let issue = self.issue(1 << best, ready);
        if issue > now + 1 {
            self.bound[best].push(Reverse(issue));
        }
        issue
    }

    /// The first cycle from `ready` on in which `port` is free for `cycles` cycles; takes it.
    pub(super) fn occupy(&mut self, port: u32, cycles: u32, ready: u32) -> u32 {
        let last = self.floor + AHEAD as u32 - 1;
        let mut start = ready.max(self.floor);
        let mut cycle = start;
        while cycle < start + cycles {
            if cycle >= last {
                return start;
            }
            if self.taken[cycle as usize % AHEAD] & port != 0 {
                start = cycle + 1;
            }
            cycle += 1;
        }
        for cycle in start..start + cycles {
            self.taken[cycle as usize % AHEAD] |= port;
        }
        start
    }
}

#[inline]
fn least_used(free: u32, used: &[u32; 32]) -> u32 {
    let mut rest = free & (free - 1);
    let mut best = free.trailing_zeros();
    while rest != 0 {
        let port = rest.trailing_zeros();
        if used[port as usize] < used[best as usize] {
            best = port;
        }
        rest &= rest - 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled() {
        let mut ports = Ports::new();
        assert_eq!([10, 10, 10].map(|ready| ports.issue(0b11, ready)), [10, 10, 11]);
        assert_eq!(ports.issue(0b11, 5), 5);
        assert_eq!(ports.issue(0b10, 10), 11);
        assert_eq!(ports.issue(0b01, 10), 12);
        ports.advance(20);
        assert_eq!(ports.issue(0b11, 5), 20);
    }

    #[test]
    fn a_divider_is_busy_for_as_long_as_it_takes() {
        let mut ports = Ports::new();
        assert_eq!([0, 0, 1].map(|ready| ports.occupy(1 << 27, 4, ready)), [0, 4, 8]);
    }
}
