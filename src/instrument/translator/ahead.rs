//! What is translated before it is asked for: around the last requests, while nobody waits for an answer.
//!
//! ```text
//!  request ─▶ chain at its address, answered at once ─▶ exits ─▶ Ahead ─▶ a chain at a time, newest request first
//! ```

use std::collections::VecDeque;

use super::version::Version;
use crate::target::address::Address;

/// Blocks translated ahead for each request.
const BLOCKS: usize = 64;
/// Requests whose surroundings are kept: what lies further back is less likely to be executed next.
const REQUESTS: usize = 256;

/// What one request leads to.
#[derive(Debug)]
pub struct Around {
    /// The version that it was made in.
    pub version: Version,
    /// Where exits lead that were written for it.
    pub exits: VecDeque<Address>,
    /// Blocks that may still be translated for it.
    pub left: usize,
}

/// The surroundings of the last requests.
#[derive(Debug, Default)]
pub struct Ahead {
    around: VecDeque<Around>,
}

impl Ahead {
    /// A request was answered by code whose exits lead to `exits`.
    pub fn push(&mut self, version: Version, exits: VecDeque<Address>) {
        if exits.is_empty() {
            return;
        }
        if self.around.len() == REQUESTS {
            self.around.pop_front();
        }
        self.around.push_back(Around { version, exits, left: BLOCKS });
    }

    /// Takes out the next exit's surroundings, whose first exit is to be translated.
    pub fn next(&mut self) -> Option<Around> {
        self.around.pop_back()
    }

    /// Puts back what is left of them.
    pub fn put_back(&mut self, around: Around) {
        if around.left > 0 && !around.exits.is_empty() {
            self.around.push_back(around);
        }
    }

    /// Nothing is to be translated any more.
    pub fn clear(&mut self) {
        self.around.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exits(at: u64) -> VecDeque<Address> {
        VecDeque::from([Address::new(at), Address::new(at + 1)])
    }

    #[test]
    fn newest_requests_come_first_and_the_oldest_are_dropped() {
        let mut ahead = Ahead::default();
        ahead.push(Version::Plain, VecDeque::new());
        assert!(ahead.next().is_none());
        for at in 0..REQUESTS as u64 + 1 {
            ahead.push(Version::Plain, exits(at));
        }
        let taken: Vec<u64> =
            std::iter::from_fn(|| ahead.next()).filter_map(|a| a.exits.front().map(|a| a.get())).collect();
        assert_eq!(taken, (1..=REQUESTS as u64).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_request_is_left_when_its_blocks_are_used_up() {
        let mut ahead = Ahead::default();
        ahead.push(Version::Plain, exits(7));
        let around = ahead.next().expect("just pushed");
        assert_eq!(around.left, BLOCKS);
        ahead.put_back(Around { left: 0, ..around });
        assert!(ahead.next().is_none());
    }
}
