//! What is translated before it is asked for: around the last requests, while nobody waits for an answer.
//!
//! ```text
//!  request ─▶ chain at its address, answered at once ─▶ exits ─▶ Ahead ─▶ a chain at a time, newest request first
//! ```

use std::collections::VecDeque;

use super::source::Source;
use super::space::CodeSpace;
use super::unit::TranslateError;
use super::version::Version;
use crate::target::address::Address;

/// Blocks translated ahead for each request.
const BLOCKS: usize = 64;
/// Requests whose surroundings are kept: what lies further back is less likely to be executed next.
const REQUESTS: usize = 256;

/// What one request leads to.
#[derive(Debug)]
pub struct Around {
    version: Version,
    /// Where exits lead that were written for it.
    pub exits: VecDeque<Address>,
    /// Blocks that may still be translated for it.
    left: usize,
}

impl Around {
    /// Those of a request in `version`.
    pub fn new(version: Version) -> Self {
        Around { version, exits: VecDeque::new(), left: BLOCKS }
    }

    /// Translates what the next exits lead to, about `most` blocks.
    pub fn translate(&mut self, space: &mut CodeSpace, source: &mut Source<'_>, most: usize) {
        let end = self.left.saturating_sub(most);
        while self.left > end
            && let Some(at) = self.exits.pop_front()
        {
            if space.find(self.version, at).is_some() {
                continue;
            }
            let before = space.blocks.len();
            match space.translate(source, self.version, at, self.left - end, &mut self.exits) {
                Ok(_) => self.left -= (space.blocks.len() - before).min(self.left),
                // Whoever gets there asks, and hears of it.
                Err(TranslateError::NoText(_) | TranslateError::NoRule(_)) => {}
                Err(TranslateError::Full) => self.left = 0,
            }
        }
    }
}

/// The surroundings of the last requests.
#[derive(Debug, Default)]
pub struct Ahead {
    around: VecDeque<Around>,
}

impl Ahead {
    /// Keeps what is left of a request's surroundings.
    pub fn push(&mut self, around: Around) {
        if around.left == 0 || around.exits.is_empty() {
            return;
        }
        if self.around.len() == REQUESTS {
            self.around.pop_front();
        }
        self.around.push_back(around);
    }

    /// Takes out those that were kept last.
    pub fn pop(&mut self) -> Option<Around> {
        self.around.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(at: u64) -> Around {
        Around { exits: VecDeque::from([Address::new(at)]), ..Around::new(Version::Plain) }
    }

    #[test]
    fn newest_requests_come_first_and_the_oldest_are_dropped() {
        let mut ahead = Ahead::default();
        for at in 0..REQUESTS as u64 + 1 {
            ahead.push(around(at));
        }
        let taken = std::iter::from_fn(|| ahead.pop()).filter_map(|a| a.exits.front().map(|a| a.get()));
        assert_eq!(taken.collect::<Vec<_>>(), (1..=REQUESTS as u64).rev().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_used_up_is_not_kept() {
        let mut ahead = Ahead::default();
        ahead.push(Around::new(Version::Plain));
        ahead.push(Around { left: 0, ..around(7) });
        assert!(ahead.pop().is_none());
    }
}
