//! Who may wait for the program's first process: the sampler, or visits to it, whose ptrace stops a wait of the sampler's would
//! take away.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::unistd::Pid;

use super::reap::{self, Reaped};

/// Shared by a sampler and by visits to its program.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The end of the first process, if a visit saw it.
    end: Mutex<Option<Reaped>>,
    has_begun: AtomicBool,
    is_over: AtomicBool,
}

/// While it lives, the sampler does not wait for the program.
pub struct Turn<'a>(MutexGuard<'a, Option<Reaped>>);

impl Turn<'_> {
    /// The first process ended during the visit, with this wait status and so many CPU seconds.
    pub fn ended(&mut self, status: i32, cpu_s: f64) {
        *self.0 = Some(Reaped::seen(status, cpu_s));
    }
}

impl Gate {
    /// For a visit: waits until the sampler does not wait for the program.
    pub fn turn(&self) -> Turn<'_> {
        Turn(self.0.end.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the first process executes the program.
    pub fn has_begun(&self) -> bool {
        self.0.has_begun.load(Ordering::Acquire)
    }

    /// Whether its end was seen, or nobody may visit it any more.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    /// Nobody may visit the program any more.
    pub fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
    }

    pub(super) fn begin(&self) {
        self.0.has_begun.store(true, Ordering::Release);
    }

    /// Reaps the first process if it has ended; `None` while it runs, and during a visit.
    pub(super) fn try_reap(&self, pid: Pid) -> io::Result<Option<Reaped>> {
        let Ok(mut end) = self.0.end.try_lock() else { return Ok(None) };
        let reaped = match end.take() {
            Some(reaped) => Some(reaped),
            None => reap::try_reap(pid)?,
        };
        if reaped.is_some() {
            self.0.is_over.store(true, Ordering::Release);
        }
        Ok(reaped)
    }
}
