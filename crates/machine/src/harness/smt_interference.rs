//! Whether each measuring thread has a core to itself.
//!
//! A hypervisor may put two CPUs of this host on the hardware threads of one core, or another guest beside them, and move them apart again
//! a moment later. The guest gets no notice, but its issue rate per cycle halves. Independent additions therefore run beside the chain that
//! measures the clock; their rate is compared with the best one so far on this host.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Team;
use super::barrier::Barrier;
use crate::error::MachineError;
use crate::kernels::{Arguments, Kernel};

/// A core is shared if the probe takes longer than its best by this factor.
const SHARED: f64 = 1.4;

/// Largest difference between the chains before and after a kernel that were not interrupted.
const AGREE: f64 = 0.02;

/// The probe of this rank counts as the best one: beside a few, both chains may have been interrupted for equally long.
const LEAST: usize = 32;

/// Probes in one block of an attempt to move threads apart, and successive blocks in which each thread must have had its core.
const PROBES: usize = 15;
const CALM: u32 = 5;

/// Longest attempt. Observed: 0.2 to 0.5 s until a hypervisor had moved two busy CPUs apart.
const ATTEMPT: Duration = Duration::from_millis(400);

/// Independent additions as a probe for the rest of the core.
#[derive(Debug)]
pub struct CoreShare {
    probe: Kernel,
    iterations: u64,
    /// The least probe times in units of the chain's time, ascending, at most [`LEAST`].
    least: Mutex<Vec<f64>>,
    /// Threads up to which the placement gives each a core.
    cores: usize,
    /// Microseconds that may still be spent on moving threads apart.
    patience_us: AtomicU64,
    ever_apart: AtomicBool,
    ever_together: AtomicBool,
}

impl CoreShare {
    /// `probe` runs about `additions` independent additions per call. More than `cores` threads share cores by design.
    pub fn new(probe: Kernel, additions: u64, cores: usize, patience: Duration) -> Self {
        let iterations = additions / probe.work.payload.max(1);
        CoreShare {
            probe,
            iterations,
            least: Mutex::new(Vec::new()),
            cores,
            patience_us: AtomicU64::new(patience.as_micros() as u64),
            ever_apart: AtomicBool::new(false),
            ever_together: AtomicBool::new(false),
        }
    }

    /// Seconds of one probe on the calling thread.
    pub fn probe(&self, scratch: &mut Arguments) -> f64 {
        let start = Instant::now();
        // SAFETY: the probe touches registers only.
        unsafe { self.probe.call(self.iterations, scratch) };
        start.elapsed().as_secs_f64()
    }

    /// Whether there is a core for each of several `threads`.
    pub fn apart_by_design(&self, threads: usize) -> bool {
        threads > 1 && threads <= self.cores
    }

    /// Whether a core was shared when the probe took `probe_s`, and the chains beside it `before_s` and `after_s`;
    /// `false` if `threads` share cores by design.
    pub fn is_shared(&self, threads: usize, probe_s: f64, before_s: f64, after_s: f64) -> bool {
        if threads > self.cores {
            return false;
        }
        let ratio = probe_s / before_s.min(after_s);
        let Ok(mut least) = self.least.lock() else { return false };
        if (before_s / after_s - 1.0).abs() < AGREE {
            let at = least.partition_point(|r| *r < ratio);
            least.insert(at, ratio);
            least.truncate(LEAST);
        }
        let shared = least.len() == LEAST && ratio > SHARED * least[LEAST - 1];
        if threads > 1 && least.len() == LEAST {
            let ever = if shared { &self.ever_together } else { &self.ever_apart };
            ever.store(true, Ordering::Relaxed);
        }
        shared
    }

    /// Whether several threads always shared cores: then that is a property of this host.
    pub fn always_together(&self) -> bool {
        self.ever_together.load(Ordering::Relaxed) && !self.ever_apart.load(Ordering::Relaxed)
    }

    /// Keeps `threads` threads busy until each has a core, because a hypervisor then moves its CPUs apart; stops when the time for that is
    /// used up. `chain` runs the chain that measures the clock. Returns whether they are apart.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn move_apart(
        self: &Arc<Self>,
        team: &Team,
        threads: usize,
        chain: impl Fn(&mut Arguments) -> f64 + Send + Sync + 'static,
    ) -> Result<bool, MachineError> {
        let start = Instant::now();
        let patience = Duration::from_micros(self.patience_us.load(Ordering::Relaxed)).min(ATTEMPT);
        let (share, apart) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let (barrier, verdict) = (Barrier::new(threads), apart.clone());
        // How many threads found their core shared, by block; three blocks so that none is cleared while it is read.
        let shared: [AtomicU64; 3] = std::array::from_fn(|_| AtomicU64::new(0));
        let stop = AtomicBool::new(patience.is_zero());
        let job = move |rank: usize| {
            let mut scratch = Arguments::new();
            let mut calm = 0;
            for block in 0.. {
                // All threads read the same values here, however late they come: `stop` is set only between the barriers of a block.
                if calm == CALM || stop.load(Ordering::Acquire) {
                    break;
                }
                barrier.wait();
                if rank == 0 {
                    shared[(block + 1) % 3].store(0, Ordering::Relaxed);
                }
                let mut probes: [f64; PROBES] = std::array::from_fn(|_| share.probe(&mut scratch));
                probes.sort_unstable_by(f64::total_cmp);
                let (before, after) = (chain(&mut scratch), chain(&mut scratch));
                if share.is_shared(threads, probes[PROBES / 2], before, after) {
                    shared[block % 3].fetch_add(1, Ordering::AcqRel);
                }
                if rank == 0 && start.elapsed() >= patience {
                    stop.store(true, Ordering::Release);
                }
                barrier.wait();
                calm = if shared[block % 3].load(Ordering::Acquire) == 0 { calm + 1 } else { 0 };
            }
            if rank == 0 {
                verdict.store(calm == CALM, Ordering::Release);
            }
        };
        team.run(threads, Arc::new(job))?;
        let left = self.patience_us.load(Ordering::Relaxed).saturating_sub(start.elapsed().as_micros() as u64);
        self.patience_us.store(left, Ordering::Relaxed);
        Ok(apart.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::features::Features;
    use crate::kernels::x86_64::integer::{Scalar, throughput};

    fn share(cores: usize) -> CoreShare {
        let probe = throughput(&[Scalar::Add], Features::default()).expect("encodes");
        CoreShare::new(probe, 1 << 10, cores, Duration::ZERO)
    }

    #[test]
    fn half_of_the_core_is_shared_and_a_slower_clock_is_not() {
        let share = share(2);
        (0..LEAST).for_each(|_| assert!(!share.is_shared(2, 10e-6, 40e-6, 40e-6)));
        assert!(share.is_shared(2, 20e-6, 40e-6, 40e-6));
        assert!(!share.is_shared(2, 20e-6, 80e-6, 80e-6));
        assert!(!share.always_together());
    }

    #[test]
    fn an_interrupted_chain_does_not_set_the_measure() {
        let share = share(2);
        (0..LEAST).for_each(|_| assert!(!share.is_shared(1, 10e-6, 40e-6, 40e-6)));
        (0..LEAST).for_each(|_| assert!(!share.is_shared(1, 10e-6, 400e-6, 500e-6)));
        (0..LEAST / 2).for_each(|_| assert!(!share.is_shared(1, 10e-6, 400e-6, 400e-6)));
        assert!(!share.is_shared(1, 10e-6, 40e-6, 40e-6));
        assert!(!share.always_together(), "one thread");
    }

    #[test]
    fn threads_that_wait_for_each_other_stop_together_however_late_one_comes() {
        // On one CPU each thread may be interrupted anywhere, and the other one runs to its end meanwhile.
        let cpu = crate::host::limits::Limits::read().cpus[0];
        let team = Team::new(&[cpu, cpu]).expect("threads on a CPU of this process");
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for attempt in 0..40 {
                let patience = Duration::from_micros(500 + 100 * attempt);
                let probe = throughput(&[Scalar::Add], Features::default()).expect("encodes");
                let share = Arc::new(CoreShare::new(probe, 1 << 10, 2, patience));
                share.move_apart(&team, 2, |_| 1e-6).expect("a team of two");
                done.send(attempt).expect("somebody waits");
            }
        });
        let wait = Duration::from_secs(60);
        for attempt in 0..40 {
            assert_eq!(ended.recv_timeout(wait), Ok(attempt), "an attempt that ends");
        }
    }

    #[test]
    fn more_threads_than_cores_share_by_design() {
        let share = share(2);
        (0..LEAST).for_each(|_| assert!(!share.is_shared(4, 10e-6, 40e-6, 40e-6)));
        assert!(!share.is_shared(4, 20e-6, 40e-6, 40e-6));
    }
}
