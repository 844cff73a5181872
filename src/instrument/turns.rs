//! Whose stop is handled next.
//!
//! `wait4` looks at the tasks in an order of its own, those that were attached last first: where some of them stop all the time,
//! the others would never be come to. So every second time a few are asked for by name, in turn.

use nix::unistd::Pid;

use crate::tracee::wait::{Event, wait_any, wait_for};

/// Tasks that are asked for at once.
const ASKED: usize = 4;

/// One alone waits for nobody.
const FEWEST: usize = 2;

/// Where we are.
#[derive(Debug, Default)]
pub struct Turns {
    /// Who is still to be asked for in this round.
    next: Vec<Pid>,
    /// The last look brought something, in the order of the kernel.
    due: bool,
}

impl Turns {
    /// What has happened to a task, if anything has; `known` are those that are asked for in turn.
    pub fn look<'a>(&mut self, known: impl ExactSizeIterator<Item = &'a Pid>) -> Option<Event> {
        if std::mem::take(&mut self.due)
            && known.len() >= FEWEST
            && let Some(event) = self.ask(known)
        {
            return Some(event);
        }
        let event = wait_any(false);
        self.due = event.is_some();
        event
    }

    fn ask<'a>(&mut self, known: impl Iterator<Item = &'a Pid>) -> Option<Event> {
        if self.next.is_empty() {
            self.next.extend(known);
        }
        let rest = self.next.len().saturating_sub(ASKED);
        while self.next.len() > rest {
            if let Some(event) = self.next.pop().and_then(|tid| wait_for(tid, false)) {
                return Some(event);
            }
        }
        None
    }
}
