//! Times of matrix products and elementwise operations on this host, each measured at its own shape.
//!
//! ```text
//!  shape ─▶ blas: the program's library, in the loader's process ─┐
//!  elements ─▶ elementwise: own loops                             ┴─▶ repeat: the median of repetitions ─▶ seconds a call
//! ```

pub mod blas;
pub mod elementwise;
mod error;
mod repeat;

pub use error::ProductError;
