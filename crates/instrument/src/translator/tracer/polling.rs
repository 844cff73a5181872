//! Whether rprof polls the mailboxes, for how long, and on which CPU.

use std::hint::{black_box, spin_loop};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::fair_wait::FairWait;
use crate::translator::tracer::spin_budget::SpinBudget;
use rprof_tracee::affinity::{CpuPin, current_cpu};
use rprof_tracee::proc_status::read_last_cpu;

/// The state of polling.
pub(crate) struct Polling {
    /// rprof reads the mailboxes.
    pub is_on: bool,
    /// How long polling continues without a request.
    pub patience: SpinBudget,
    /// The thread to look at next.
    pub turns: FairWait,
    /// The CPU that rprof polls on: not the one of a thread that waits for it.
    pub pin: CpuPin,
    /// Polls of the threads that have left, while they waited for answers.
    pub polls: u64,
}

impl Polling {
    /// Not begun yet.
    pub fn new(pin: CpuPin) -> Self {
        Polling { is_on: false, patience: SpinBudget::default(), turns: FairWait::default(), pin, polls: 0 }
    }

    /// Whether polling can answer a thread. On a single CPU it cannot: a thread that waits keeps that CPU from rprof, so that it has
    /// to stop each time, and stops at once instead. Launchers of MPI programs bind each process to a core.
    pub fn is_of_use(&self) -> bool {
        self.pin.cpus() > 1
    }

    /// How long polling continues without a request.
    pub fn patience(&self) -> Duration {
        if self.is_of_use() { self.patience.get() } else { Duration::ZERO }
    }

    /// A thread had to stop for an answer. If it waited in vain because rprof shares its CPU, rprof moves to another one.
    pub fn was_impatient(&mut self, tid: Pid) {
        if self.is_on
            && let Some(cpu) = read_last_cpu(tid).filter(|&cpu| current_cpu() == Some(cpu))
        {
            self.pin.leave(cpu);
        }
        self.patience.missed(Instant::now());
    }
}

/// CPU seconds of one poll of a waiting thread, measured once on this host: a loop with a `pause` and as many loads and stores as the wait has
/// ([`Stubs`](crate::translator::code_cache::stubs::Stubs)).
pub fn poll_s() -> f64 {
    const POLLS: u32 = 500;
    const TRIES: u32 = 8;
    static SECONDS: LazyLock<f64> = LazyLock::new(|| {
        let words: [AtomicU64; 4] = Default::default();
        let [response, polling, patience, polls] = black_box(&words);
        let measured = (0..TRIES).map(|_| {
            let begin = Instant::now();
            for _ in 0..POLLS {
                black_box(response.load(Ordering::Relaxed) + polling.load(Ordering::Relaxed));
                patience.store(patience.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
                polls.store(polls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                spin_loop();
            }
            begin.elapsed().as_secs_f64() / f64::from(POLLS)
        });
        // The least: nothing interrupted it.
        measured.fold(f64::INFINITY, f64::min)
    });
    *SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_tracee::affinity::{Kept, cpus_of};

    #[test]
    fn a_single_cpu_is_not_polled_on() {
        std::thread::spawn(|| {
            let cpus = cpus_of(nix::unistd::gettid());
            assert_eq!(Polling::new(CpuPin::new()).is_of_use(), cpus.len() > 1);
            let _kept = Kept::on(&cpus[..1]).unwrap();
            let polling = Polling::new(CpuPin::new());
            assert!(!polling.is_of_use());
            assert_eq!(polling.patience(), Duration::ZERO);
        })
        .join()
        .unwrap();
    }
}
