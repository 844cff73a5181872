//! Modelled cycles of a program on a fixed reference core, and what changed from one build to the next.
//!
//! ```text
//!  Profile (counted on the reference core) ─▶ GateResult ─▶ gate.json
//!                                        base ─┐
//!                                        head ─┴─▶ Comparison ─▶ verdict, text, Markdown, JSON
//!                                        head ───▶ Bencher's JSON
//! ```
//!
//! The cycles are those of a model: they say by how much and why a change makes a program slower, not how long it takes anywhere.

pub mod bencher;
pub mod comparison;
mod figures;
pub mod markdown;
mod paired;
pub mod read;
pub mod result;
pub mod text;

pub use comparison::{Comparison, Verdict};
pub use read::{ReadError, read};
pub use result::{Conditions, GateBurst, GateResult, SampledBursts};
