//! One run: the loop that waits for threads and serves them, and everything that is done to a thread that has stopped.

pub mod allocations;
pub mod call_rules;
pub mod event_loop;
pub mod fork_sharing;
pub mod handoff;
pub mod handoffs;
pub mod limits;
pub mod native;
pub mod native_calls;
pub mod open_maps;
pub mod pace;
pub mod polling;
pub mod process_signals;
pub mod run;
pub mod signal_actions;
pub mod signals;
pub mod spin_budget;
pub mod stop_the_world;
pub mod stops;
pub mod system_calls;
pub mod tasks;
pub mod uncounted;
pub mod watched_calls;
pub mod workers;
