//! The ranks of a job as their leader, rank 0, sees them.

use super::NetworkError;
use super::step::Step;

/// Stamps of all ranks, by rank; in nanoseconds. Those of ranks that had nothing to time are 0.
pub type Stamps = Vec<Vec<u64>>;

/// All ranks.
pub trait Team {
    /// Has all ranks make a step; returns their stamps.
    ///
    /// # Errors
    /// [`NetworkError`].
    fn lead(&mut self, step: &Step) -> Result<Stamps, NetworkError>;

    /// Seconds since the measurement began.
    fn elapsed_s(&self) -> f64;
}
