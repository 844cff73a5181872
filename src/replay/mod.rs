//! A core model that replays bursts of the counted run: where the cycles of hot code go, and what single changes would leave of them.
//!
//! ```text
//!  engine ─▶ recorder ─▶ BurstEvidence ─▶ x86_64 (blocks → ops) ─┐
//!  MemoryEvidence ─────▶ levels (shares by instruction) ─────────┼─▶ core (timestamps, walk back) ─▶ ReplayedEvidence
//!  Machine ────────────▶ parameters (cycles, entries) ───────────┘      once as it is, once for each change
//! ```
//!
//! The result is an estimate beside the roofline bound, never a bound: it has the prefetchers, the memory and the front end only roughly.

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
mod schedule;
mod sets;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

pub use recorder::Recorder;
#[cfg(target_arch = "x86_64")]
pub use schedule::{Options, replay};
