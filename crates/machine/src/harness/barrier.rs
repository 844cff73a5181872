//! A barrier that spins, so that threads leave it within a few hundred cycles of each other.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Spins before the CPU is offered to others (needed if threads outnumber the CPU time granted).
const SPINS: u32 = 20_000;

/// Meets `threads` threads again and again.
#[derive(Debug)]
pub struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
}

impl Barrier {
    /// A barrier for `threads`.
    pub fn new(threads: usize) -> Self {
        Barrier { threads, arrived: AtomicUsize::new(0), round: AtomicUsize::new(0) }
    }

    /// Waits for the others.
    pub fn wait(&self) {
        if self.threads < 2 {
            return;
        }
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Release);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.round.load(Ordering::Acquire) == round {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}
