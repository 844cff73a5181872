//! The number of passes of each kernel: found by a brief run here, then passed to the profiled program, so that both of its
//! passes do the same work.

use std::time::Duration;

use super::error::DemoError;
use super::host::Host;
use super::kernels::{KERNELS, Kernel};
use super::team::Runnable;
use super::variant::Variant;

/// A trial run must last this long to be believed.
const TRIAL: Duration = Duration::from_millis(8);

/// Kernels in the order in which they run, and the passes of each.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// (kernel, passes).
    pub entries: Vec<(&'static Kernel, u64)>,
}

impl Schedule {
    /// All kernels of the demo that this host can run, each for about `seconds`.
    pub fn for_demo(seconds: f64) -> Result<Schedule, DemoError> {
        let host = Host::read()?;
        let variant = Variant::detect();
        let mut entries = Vec::new();
        for kernel in KERNELS.iter().filter(|k| k.in_demo) {
            match Runnable::new(kernel, &host, variant) {
                Ok(runnable) => entries.push((kernel, passes_for(&runnable, seconds)?)),
                Err(DemoError::Unavailable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Schedule { entries })
    }

    /// The schedule as arguments of `rprof __demo`: `NAME=PASSES` each.
    pub fn arguments(&self) -> Vec<String> {
        self.entries.iter().map(|(kernel, passes)| format!("{}={passes}", kernel.name)).collect()
    }
}

/// Passes that take about `seconds`: doubled until a trial is long enough, then in proportion.
pub fn passes_for(runnable: &Runnable, seconds: f64) -> Result<u64, DemoError> {
    let mut passes = 1;
    loop {
        let busy = runnable.run(passes)?.busy;
        if busy >= TRIAL || passes >= 1 << 40 {
            return Ok(((passes as f64 * seconds / busy.as_secs_f64().max(1e-6)).round() as u64).max(1));
        }
        let wanted = TRIAL.as_secs_f64() / busy.as_secs_f64().max(1e-6);
        passes *= (wanted * 1.2).clamp(2.0, 1000.0) as u64;
    }
}
