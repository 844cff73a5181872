//! Measures each CPU's clock: a short chain of dependent multiplications, on one CPU after the other.
//!
//! The probe preempts the program briefly, on a core that was just as busy. It never runs on several CPUs at once, since a program with
//! threads that wait for each other would lose that time on all of them. If wide vectors lower the clock, it may have risen by then: this
//! is the clock that ceilings keep as `idle_clock_hz`, measured by the same chain at the same delay after their kernels
//! (`machine/harness/timing.rs`).

use std::sync::{Arc, Mutex};

use crate::harness::{ClockChain, Team, timing};
use crate::host::features::Features;
use crate::kernels::Arguments;
use crate::suite::campaign;
use rprof_profile::evidence::timed::ClockSeen;

/// The probe: a chain and the CPUs to measure.
pub(super) struct ClockProbe {
    chain: Arc<ClockChain>,
    cpus: Vec<usize>,
}

impl ClockProbe {
    /// For a team on `cpus`; `None` if there is no such chain for the architecture.
    pub fn new(cpus: &[usize]) -> Option<Self> {
        let (chain, _) = campaign::clock_kernels(Features::detect()).ok()?;
        Some(ClockProbe { chain: Arc::new(chain), cpus: cpus.to_vec() })
    }

    /// The clock of CPU number `rank` of the team now.
    pub fn look(&self, team: &Team, rank: usize, time_ns: u64) -> Option<ClockSeen> {
        let clock = Arc::new(Mutex::new(None));
        let (chain, found) = (self.chain.clone(), clock.clone());
        let job = move |_| {
            let mut scratch = Arguments::new();
            // The same delay as for the clock after a kernel.
            chain.seconds(timing::PROBE_ADDITIONS, &mut scratch);
            let hz = chain.hz(&mut scratch);
            if let Ok(mut found) = found.lock() {
                *found = Some(hz);
            }
        };
        team.run_on(rank..rank + 1, Arc::new(job)).ok()?;
        let hz = clock.lock().ok()?.take()?;
        Some(ClockSeen { time_ns, cpu: *self.cpus.get(rank)? as u32, hz })
    }
}
