//! How fast each CPU's clock runs: a short chain of dependent multiplications on each of them at once.
//!
//! It runs in place of the program, on a core that was just as busy. Where wide vectors lower the clock it may have risen by then:
//! this is the clock that ceilings keep as `resting_hz`, told by the same chain as late behind their kernels
//! (`machine/bench/timing.rs`).

use std::sync::{Arc, Mutex};

use crate::machine::bench::{ClockChain, Team, timing};
use crate::machine::features::Features;
use crate::machine::kernels::Arguments;
use crate::machine::lab;
use crate::profile::evidence::timed::ClockSeen;

/// The chain.
pub(super) struct ClockProbe {
    chain: Arc<ClockChain>,
    cpus: Vec<usize>,
}

impl ClockProbe {
    /// For a team on `cpus`; `None` where there is no such chain for the architecture.
    pub fn new(cpus: &[usize]) -> Option<Self> {
        let (chain, _) = lab::clock_kernels(Features::detect()).ok()?;
        Some(ClockProbe { chain: Arc::new(chain), cpus: cpus.to_vec() })
    }

    /// The clock of each CPU now.
    pub fn look(&self, team: &Team, time_ns: u64) -> Vec<ClockSeen> {
        let clocks = Arc::new(Mutex::new(Vec::with_capacity(self.cpus.len())));
        let (chain, all) = (self.chain.clone(), clocks.clone());
        let job = move |rank: usize| {
            let mut scratch = Arguments::new();
            // As late as a look at the clock behind a kernel.
            chain.seconds(timing::PROBE_ADDITIONS, &mut scratch);
            let hz = chain.hz(&mut scratch);
            if let Ok(mut all) = all.lock() {
                all.push((rank, hz));
            }
        };
        if team.run(self.cpus.len(), Arc::new(job)).is_err() {
            return Vec::new();
        }
        let clocks = clocks.lock().map(|t| t.clone()).unwrap_or_default();
        let seen = |(rank, hz)| {
            let cpu: &usize = self.cpus.get(rank)?;
            Some(ClockSeen { time_ns, cpu: *cpu as u32, hz })
        };
        clocks.into_iter().filter_map(seen).collect()
    }
}
