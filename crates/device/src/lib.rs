//! GPUs under a program: the collector that goes into it, the logs that it writes, and how they are read.
//!
//! ```text
//! injection.rs ─▶ the program's environment ─▶ (crates/embedded/programs/collector.rs in the program) ─▶ logs in a folder
//!                                                                                        │
//!   log/ (bytes to records) ─▶ trace.rs (kernels, copies) ─┐                             │
//!                              timeline.rs (busy, idle)   ─┼─▶ Devices  ◀────────────────┘
//!                              counted.rs (work)          ─┘
//!                              proof.rs (of a known kernel: may counts be trusted?)
//! ```

pub mod counted;
pub mod cupti;
pub mod groups;
pub mod injection;
pub mod log;
pub mod proof;
pub mod refusals;
pub mod timeline;
pub mod trace;

use rprof_profile::device::Devices;

pub use injection::{Injection, Purpose};
pub use log::Log;

/// All that the logs of a timed pass and of counted runs say; `None` if no process used a GPU. `demangled` gives the readable form of a
/// kernel's name.
pub fn devices(timed: &[Log], counted: &[Log], demangled: &dyn Fn(&str) -> String) -> Option<Devices> {
    let mut devices = trace::devices(timed, demangled)?;
    counted::add(counted, &mut devices);
    Some(devices)
}
