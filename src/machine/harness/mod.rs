//! Times kernels: pinned threads that start together, arrays that they touched first, repetitions and their rate.

pub mod arena;
mod barrier;
mod clock_chain;
mod core_share;
pub mod core_to_core;
mod pieces;
pub mod presence;
pub mod priority;
mod rate;
mod team;
pub mod timing;
pub mod windows;

pub use clock_chain::ClockChain;
pub use team::Team;
