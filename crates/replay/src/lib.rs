//! A core model that replays bursts of the counted run: the cycles of hot code by cause, and the cycles left after single changes.
//!
//! ```text
//!  engine ─▶ recorder ─▶ BurstEvidence ─▶ x86_64 (blocks → ops) ─┐
//!  MemoryEvidence ─────▶ levels (shares by instruction) ─────────┼─▶ core (timestamps, walk back) ─▶ ReplayedEvidence
//!  Machine ────────────▶ parameters (cycles, entries) ───────────┘      once as it is, once for each change
//! ```
//!
//! The result is an estimate beside the roofline bound, never a bound: it models prefetchers, memory and front end only roughly.

mod changes;
pub mod code;
pub mod core;
pub mod form;
pub mod hammocks;
pub mod levels;
pub mod op;
mod pairs;
pub mod parameters;
pub mod paths;
pub mod recorder;
pub mod reference;
mod schedule;
mod sets;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

pub use recorder::{Places, Recorder, WholeRun};
#[cfg(target_arch = "x86_64")]
pub use schedule::{Options, replay};
