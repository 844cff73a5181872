//! Times kernels: pinned threads that start together, arrays that they touched first, repetitions and their rate.

pub mod arena;
mod barrier;
mod clock_chain;
pub mod core_to_core;
pub mod preemption;
pub mod priority;
mod rate;
pub mod rolling_window;
mod slices;
mod smt_interference;
mod team;
pub mod timing;

pub use clock_chain::ClockChain;
pub use team::Team;
