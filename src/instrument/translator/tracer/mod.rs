//! The loop that waits for threads and serves them, and the processes and threads of the program.

pub mod address_budget;
pub mod event_loop;
pub mod fork_sharing;
pub mod handoff;
pub mod heap;
pub mod native;
pub mod native_calls;
pub mod process;
pub mod regions;
pub mod spin_budget;
pub mod stop_the_world;
pub mod stops;
pub mod tasks;
pub mod thread;
pub mod workers;
