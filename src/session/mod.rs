//! Drives the passes over one program and turns their results into a report.
//!
//! ```text
//!                                          ┌─▶ single pass ────────────────────────────────┐
//!  preflight ─▶ output folder ─▶ ceilings ─┤   the user's run: streams, status             ├─▶ join ─▶ analyse ─▶ write
//!              (before the program runs)   └─▶ timed pass ─▶ --between ─▶ counted pass ────┤
//!                                          │   the user's run            output sunk, input replayed
//!                                          └─▶ auto: single pass, windows late ─▶ unexplained? ─▶ counted pass without effects
//! ```
//!
//! The first run is the user's own: it has the terminal and the streams, and its exit status is ours. Any failure to count
//! costs only the counted values: they are `null` with the reason.

mod assemble;
mod attach;
mod auto;
mod between;
mod by_time;
pub mod ceilings;
pub mod certificates;
pub mod demo;
pub mod doctor;
mod end;
pub mod error;
mod evidence;
mod first_run;
pub mod gate;
mod gpu;
mod hardware;
mod inherited;
mod input;
pub mod job;
pub mod keeper;
#[cfg(target_arch = "x86_64")]
mod known_work;
mod launch_parts;
pub mod launcher;
mod launcher_command;
pub mod launches;
pub mod network;
mod network_launch;
mod one_run;
pub mod options;
mod outcome;
pub mod output;
mod passes;
mod preflight;
mod progress;
pub mod rank_calls;
mod recheck_ceilings;
pub mod recorded;
mod run;
mod second_run;
mod single;
mod sink;
mod terminal;
mod time_limit;
mod trials;
mod usual_passes;

pub use end::ProgramEnd;
pub use error::SessionError;
pub use options::{CollectedPart, Engine, GpuCounts, Memory, Passes, RunOptions};
pub use outcome::Outcome;
pub use run::profile;
