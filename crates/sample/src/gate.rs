//! Who may trace the program and wait for it: the sampler, or visits to it. A wait of the sampler's would take away the ptrace
//! stops of a visit, and a thread has one tracer.
//!
//! ```text
//!  visit:    turn ─▶ (asked) ················▶ seizes, counts, leaves ─▶ end of turn
//!  sampler:             lends the processes ─▶ ························· takes them back
//! ```
//!
//! A sampler that traces no process (perf) has nothing to lend.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::unistd::Pid;

use super::reap::{self, Reaped};

/// Interval between two looks whether the sampler has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Shared by a sampler and by visits to its program.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The end of the first process, if a visit saw it.
    end: Mutex<Option<Reaped>>,
    tracing: Mutex<Tracing>,
    has_changed: Condvar,
    has_begun: AtomicBool,
    is_over: AtomicBool,
}

/// Who traces the program.
#[derive(Debug, Default)]
enum Tracing {
    /// Visits alone.
    #[default]
    Visits,
    /// The sampler.
    Sampler,
    /// The sampler, and a visit wants these processes.
    Asked(Vec<Pid>),
    /// A visit traces the processes that the sampler has lent. How long the sampler stopped the program for that.
    Lent(Duration),
    /// The lent processes are not traced.
    Returned,
}

/// While it lives, the sampler does not wait for the end of the first process, so that its holder may.
pub struct Reaping<'a>(MutexGuard<'a, Option<Reaped>>);

impl Reaping<'_> {
    /// The first process has ended, with this wait status and `cpu_s` CPU seconds.
    pub fn ended(&mut self, status: i32, cpu_s: f64) {
        *self.0 = Some(Reaped::seen(status, cpu_s));
    }
}

/// While it lives, the sampler does not wait for the program.
pub struct Turn<'a> {
    gate: &'a Gate,
    /// The sampler does not wait for the end, either.
    pub reaping: Reaping<'a>,
    /// How long threads were stopped so that the visit can trace them.
    pub stopped: Duration,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut tracing = self.gate.tracing();
        if !matches!(*tracing, Tracing::Visits) {
            *tracing = Tracing::Returned;
            self.gate.0.has_changed.notify_all();
        }
    }
}

impl Gate {
    /// For a visit to `pids`: waits until the sampler neither traces them nor waits for the program, as far as that can be:
    /// threads that it could not let go stay with it.
    pub fn turn(&self, pids: &[Pid]) -> Turn<'_> {
        let mut tracing = self.tracing();
        if !matches!(*tracing, Tracing::Visits) {
            // The sampler takes back the lent processes before it lends again.
            while matches!(*tracing, Tracing::Returned) && !self.is_over() {
                tracing = self.wait(tracing);
            }
            *tracing = Tracing::Asked(pids.to_vec());
            while matches!(*tracing, Tracing::Asked(_)) && !self.is_over() {
                tracing = self.wait(tracing);
            }
        }
        let stopped = if let Tracing::Lent(stopped) = *tracing { stopped } else { Duration::ZERO };
        drop(tracing);
        Turn { gate: self, reaping: self.reaping(), stopped }
    }

    /// For waits between two visits, for threads that stopped too late to be taken.
    pub fn reaping(&self) -> Reaping<'_> {
        Reaping(self.0.end.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the first process executes the program.
    pub fn has_begun(&self) -> bool {
        self.0.has_begun.load(Ordering::Acquire)
    }

    /// Whether the sampler stops the program by ptrace, which has its price.
    pub fn is_sampler_tracing(&self) -> bool {
        !matches!(*self.tracing(), Tracing::Visits)
    }

    /// Whether its end was seen, or visits are no longer allowed.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    /// Visits of the program are no longer allowed.
    pub fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
    }

    /// The program runs, and the sampler traces no process.
    pub(super) fn begin(&self) {
        self.0.has_begun.store(true, Ordering::Release);
    }

    /// The program runs, and the sampler traces it.
    pub(super) fn begin_traced(&self) {
        *self.tracing() = Tracing::Sampler;
        self.begin();
    }

    /// For a sampler that traces: lends the processes that a visit wants by `lend`, which returns how long it stopped the
    /// program.
    pub(super) fn lend(&self, lend: impl FnOnce(&[Pid]) -> Duration) {
        let mut tracing = self.tracing();
        if let Tracing::Asked(pids) = &*tracing {
            *tracing = Tracing::Lent(lend(pids));
            self.0.has_changed.notify_all();
        }
    }

    /// For a sampler that traces: takes back by `take` what a visit has returned.
    pub(super) fn take_back(&self, take: impl FnOnce()) {
        let mut tracing = self.tracing();
        if matches!(*tracing, Tracing::Returned) {
            take();
            *tracing = Tracing::Sampler;
            self.0.has_changed.notify_all();
        }
    }

    /// For a sampler that traces no process at the moment: waits for a change, or a few milliseconds.
    pub(super) fn pause(&self) {
        drop(self.wait(self.tracing()));
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

    fn tracing(&self) -> MutexGuard<'_, Tracing> {
        self.0.tracing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, tracing: MutexGuard<'a, Tracing>) -> MutexGuard<'a, Tracing> {
        self.0.has_changed.wait_timeout(tracing, LOOK).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampler_that_traces_lends_before_a_visit_and_takes_back_after_it() {
        let gate = Gate::default();
        gate.begin_traced();
        let visits = gate.clone();
        let visit = std::thread::spawn(move || visits.turn(&[Pid::from_raw(7)]).stopped);
        let (mut lent, mut taken) = (Vec::new(), false);
        while !taken {
            gate.lend(|pids| {
                lent.extend_from_slice(pids);
                Duration::from_millis(3)
            });
            gate.take_back(|| taken = true);
            gate.pause();
        }
        assert_eq!((lent, visit.join().unwrap()), (vec![Pid::from_raw(7)], Duration::from_millis(3)));
    }

    #[test]
    fn an_end_that_a_visit_saw_is_the_sampler_s() {
        // No child of ours: a wait of the sampler's own would fail.
        let nobody = Pid::from_raw(1);
        let gate = Gate::default();
        let mut reaping = gate.reaping();
        assert!(gate.try_reap(nobody).unwrap().is_none(), "somebody else waits for it");
        reaping.ended(7 << 8, 0.5);
        drop(reaping);
        let reaped = gate.try_reap(nobody).unwrap().unwrap();
        assert_eq!((reaped.status.code(), reaped.cpu_s), (Some(7), 0.5));
        assert!(gate.is_over());
        assert!(gate.try_reap(nobody).is_err());
    }

    #[test]
    fn nobody_waits_for_a_sampler_that_traces_nobody_or_has_ended() {
        let gate = Gate::default();
        gate.begin();
        assert_eq!(gate.turn(&[]).stopped, Duration::ZERO);
        let gate = Gate::default();
        gate.begin_traced();
        gate.end();
        assert_eq!(gate.turn(&[]).stopped, Duration::ZERO);
    }
}
