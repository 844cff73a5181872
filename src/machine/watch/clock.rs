//! How fast each CPU's clock runs: a short chain of dependent additions, one a cycle, on each of them at once.
//!
//! It runs in place of the program, on a core that was just as busy, so that the clock is the one that the program has: also
//! where wide vectors lower it. The ceilings' own clock is told by the same chain (`machine/bench/timing.rs`).

use std::sync::{Arc, Mutex};

use crate::machine::bench::{Team, timing};
use crate::machine::features::Features;
use crate::machine::kernels::{Arguments, Kernel};
use crate::machine::lab;
use crate::profile::evidence::timed::ClockSeen;

/// Additions of one chain: some ten microseconds.
const ADDITIONS: u64 = 32_768;

/// Chains in one look. An interruption only lengthens one: the shortest is right.
const CHAINS: usize = 3;

/// The chain.
pub(super) struct ClockProbe {
    kernel: Arc<Kernel>,
    iterations: u64,
    cycles: f64,
    cpus: Vec<usize>,
}

impl ClockProbe {
    /// For a team on `cpus`; `None` where there is no such chain for the architecture.
    pub fn new(cpus: &[usize]) -> Option<Self> {
        let (kernel, cycles, _) = lab::clock_kernels(Features::detect()).ok()?;
        let iterations = ADDITIONS / cycles.max(1);
        let cycles = (iterations * cycles) as f64;
        Some(ClockProbe { kernel: Arc::new(kernel), iterations, cycles, cpus: cpus.to_vec() })
    }

    /// The clock of each CPU now.
    pub fn look(&self, team: &Team, time_ns: u64) -> Vec<ClockSeen> {
        let times = Arc::new(Mutex::new(Vec::with_capacity(self.cpus.len())));
        let (kernel, iterations, all) = (self.kernel.clone(), self.iterations, times.clone());
        let job = move |rank: usize| {
            let mut scratch = Arguments::new();
            let least =
                (0..CHAINS).map(|_| timing::chain(&kernel, iterations, &mut scratch)).fold(f64::INFINITY, f64::min);
            if let Ok(mut all) = all.lock() {
                all.push((rank, least));
            }
        };
        if team.run(self.cpus.len(), Arc::new(job)).is_err() {
            return Vec::new();
        }
        let times = times.lock().map(|t| t.clone()).unwrap_or_default();
        let seen = |(rank, seconds)| {
            let cpu: &usize = self.cpus.get(rank)?;
            Some(ClockSeen { time_ns, cpu: *cpu as u32, hz: self.cycles / seconds })
        };
        times.into_iter().filter_map(seen).collect()
    }
}
