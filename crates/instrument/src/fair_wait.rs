//! Chooses the task that is served next.
//!
//! `wait4` looks at the tasks in an order of its own, those that were attached last first: if some of them stop all the time, it
//! never reaches the others. So every second time, rprof asks for a few by id, in turn.

use nix::unistd::Pid;

use rprof_tracee::wait::{Event, wait_any, wait_for};

/// Number of tasks to ask for at once.
const ASKED: usize = 4;

/// A single task waits for no other.
const FEWEST: usize = 2;

/// The position in the round.
#[derive(Debug, Default)]
pub struct FairWait {
    /// The tasks still to ask for in this round.
    next: Vec<Pid>,
    /// The last look found an event, in the order of the kernel.
    due: bool,
}

impl FairWait {
    /// The next event of a task, if there is one; `known` are the tasks to ask for in turn.
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
