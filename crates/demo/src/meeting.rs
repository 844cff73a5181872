//! The barrier at which the threads of a team wait for one another.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar, Mutex, PoisonError};

/// Lets a team start together, or not at all if a member could not get ready.
#[derive(Debug)]
pub struct StartingGate {
    members: usize,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    arrived: usize,
    abandoned: bool,
}

impl StartingGate {
    /// For a team of `members`.
    pub fn new(members: usize) -> Self {
        StartingGate { members, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Calls the start off: every `pass` yields false.
    pub fn abandon(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).abandoned = true;
        self.changed.notify_all();
    }

    /// Waits for all members; true if all are ready.
    pub fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        self.changed.notify_all();
        let state = self
            .changed
            .wait_while(state, |s| !s.abandoned && s.arrived < self.members)
            .unwrap_or_else(PoisonError::into_inner);
        !state.abandoned
    }
}

/// The way in which the members of an uneven team wait after each round: asleep, or spinning.
#[derive(Debug)]
pub enum Meeting {
    /// Waits in a futex.
    Blocking(Barrier),
    /// Waits in a `pause` loop.
    Spinning {
        /// Members.
        threads: usize,
        /// Arrivals since the start: a round is over when they reach its multiple of `threads`.
        arrived: AtomicUsize,
    },
}

impl Meeting {
    /// For a team of `threads`.
    pub fn new(threads: usize, spin: bool) -> Meeting {
        if spin {
            Meeting::Spinning { threads, arrived: AtomicUsize::new(0) }
        } else {
            Meeting::Blocking(Barrier::new(threads))
        }
    }

    /// Waits until all members are here.
    pub fn wait(&self) {
        match self {
            Meeting::Blocking(barrier) => {
                barrier.wait();
            }
            Meeting::Spinning { threads, arrived } => spin_barrier_wait(*threads, arrived),
        }
    }
}

#[inline(never)]
fn spin_barrier_wait(threads: usize, arrived: &AtomicUsize) {
    let mine = arrived.fetch_add(1, Ordering::AcqRel);
    let round_ends = (mine / threads + 1) * threads;
    while arrived.load(Ordering::Acquire) < round_ends {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_starts_together_or_not_at_all() {
        for ready in [true, false] {
            let gate = StartingGate::new(3);
            let passed = std::thread::scope(|scope| {
                let members: Vec<_> = (0..2).map(|_| scope.spawn(|| gate.pass())).collect();
                let last = if ready {
                    gate.pass()
                } else {
                    gate.abandon();
                    false
                };
                members.into_iter().all(|m| m.join().unwrap() == ready) && last == ready
            });
            assert!(passed);
        }
    }

    #[test]
    fn both_meetings_let_nobody_into_the_next_round_early() {
        for spin in [false, true] {
            let meeting = Meeting::new(2, spin);
            let done = [AtomicUsize::new(0), AtomicUsize::new(0)];
            std::thread::scope(|scope| {
                for me in 0..2 {
                    let (meeting, done) = (&meeting, &done);
                    scope.spawn(move || {
                        for round in 1..=50 {
                            done[me].store(round, Ordering::Release);
                            meeting.wait();
                            assert!(done[1 - me].load(Ordering::Acquire) >= round);
                            meeting.wait();
                        }
                    });
                }
            });
        }
    }
}
