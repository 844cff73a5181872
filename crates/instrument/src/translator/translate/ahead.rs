//! Translation ahead of requests: around the last requests, while no thread waits for an answer.
//!
//! ```text
//!  request ─▶ chain at its address, and what it calls: answered at once
//!               └─▶ other exits ─▶ Ahead ─▶ a chain at a time, newest request first
//! ```

use std::collections::VecDeque;

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::version::Version;
use crate::translator::translate::plan::Exits;
use crate::translator::translate::superblock::TranslateError;
use crate::translator::translate::text_reader::Source;
use rprof_tracee::address::Address;

/// Blocks translated ahead for each request. With twice as many, the import of numpy takes no less time: a thread that asks
/// meanwhile waits.
const BLOCKS: usize = 32;
/// Number of requests to keep the surroundings of: those further back are less likely to be executed next.
const REQUESTS: usize = 256;

/// The surroundings of one request.
#[derive(Debug)]
pub struct Around {
    version: Version,
    /// Targets of the exits written for it.
    pub exits: Exits,
    /// Blocks that may still be translated for it.
    left: usize,
}

impl Around {
    /// The surroundings of a request in `version`.
    pub fn new(version: Version) -> Self {
        Around { version, exits: Exits::default(), left: BLOCKS }
    }

    /// Translates the next callees, about `most` blocks.
    pub fn translate_calls(&mut self, cache: &mut CodeCache, source: &mut Source<'_>, most: usize) {
        self.take(cache, source, most, |exits| exits.calls.pop_front());
    }

    /// Translates the targets of the next exits, about `most` blocks.
    pub fn translate(&mut self, cache: &mut CodeCache, source: &mut Source<'_>, most: usize) {
        self.take(cache, source, most, |exits| exits.calls.pop_front().or_else(|| exits.others.pop_front()));
    }

    fn take(
        &mut self,
        cache: &mut CodeCache,
        source: &mut Source<'_>,
        most: usize,
        next: fn(&mut Exits) -> Option<Address>,
    ) {
        let end = self.left.saturating_sub(most);
        while self.left > end
            && let Some(at) = next(&mut self.exits)
        {
            if cache.find(self.version, at).is_some() {
                continue;
            }
            let before = cache.blocks.len();
            let mut exits = Exits::default();
            match cache.translate(source, self.version, at, self.left - end, &mut exits) {
                Ok(_) => self.left -= (cache.blocks.len() - before).min(self.left),
                // A thread that gets there asks, and the answer reports the error.
                Err(TranslateError::NoText(_) | TranslateError::NoRule(_)) => {}
                Err(TranslateError::Full) => self.left = 0,
            }
            self.exits.prepend(exits);
        }
    }
}

/// The surroundings of the last requests.
#[derive(Debug, Default)]
pub struct Ahead {
    around: VecDeque<Around>,
}

impl Ahead {
    /// Keeps the rest of a request's surroundings.
    pub fn push(&mut self, around: Around) {
        if around.left == 0 || around.exits.is_empty() {
            return;
        }
        if self.around.len() == REQUESTS {
            self.around.pop_front();
        }
        self.around.push_back(around);
    }

    /// Takes out the surroundings that were kept last.
    pub fn pop(&mut self) -> Option<Around> {
        self.around.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(at: u64) -> Around {
        let exits = Exits { others: VecDeque::from([Address::new(at)]), ..Exits::default() };
        Around { exits, ..Around::new(Version::Plain) }
    }

    #[test]
    fn newest_requests_come_first_and_the_oldest_are_dropped() {
        let mut ahead = Ahead::default();
        for at in 0..REQUESTS as u64 + 1 {
            ahead.push(around(at));
        }
        let taken = std::iter::from_fn(|| ahead.pop()).filter_map(|a| a.exits.others.front().map(|a| a.get()));
        assert_eq!(taken.collect::<Vec<_>>(), (1..=REQUESTS as u64).rev().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_called_first_comes_first() {
        let calls = |at: &[u64]| at.iter().map(|&a| Address::new(a)).collect::<VecDeque<_>>();
        let mut exits = Exits { calls: calls(&[5, 6]), others: calls(&[8]) };
        exits.prepend(Exits { calls: calls(&[3, 4]), others: calls(&[9]) });
        assert_eq!((exits.calls, exits.others), (calls(&[3, 4, 5, 6]), calls(&[8, 9])));
    }

    #[test]
    fn what_is_used_up_is_not_kept() {
        let mut ahead = Ahead::default();
        ahead.push(Around::new(Version::Plain));
        ahead.push(Around { left: 0, ..around(7) });
        assert!(ahead.pop().is_none());
    }
}
