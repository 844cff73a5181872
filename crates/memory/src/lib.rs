//! The cache hierarchy model: bytes that crossed each level, by the instruction that caused them.
//!
//! ```text
//!  batches ─▶ backlog ─▶ interleave ─▶ model ─▶ replay ─▶ hierarchy ─▶ tallies ─▶ estimate ─▶ MemoryEvidence
//!  of accesses  for later  turns of     owners,   line by   L1 L2 LLC    per (site,  scaled up,
//!                          threads      sampling  line      3C, NT       thread)     error
//! ```
//!
//! Exact: one hierarchy sees all accesses. Sampled: in windows (`sampling/schedule.rs`) a hierarchy of a part of the host's size sees one
//! line in 32, and in bursts within them (`sampling/bursts.rs`) a hierarchy of the L1 caches alone sees all accesses. The former estimates
//! the L1 events that bursts did not see (`estimate/control_variate.rs`).
//!
//! Byte convention: docs/conventions.md, Bytes. A fill is charged to the instruction that caused it, a write-back to the one that last
//! wrote the line; lines still dirty when the program ends are written back then. A non-temporal line counts 64 bytes when it leaves the
//! write-combining buffers, complete or not. Software prefetches fill like loads and execute no bytes. Hardware prefetchers, page walks,
//! instruction fetches and the kernel's accesses are not modelled.

pub mod address;
mod attribution;
pub mod caches;
mod calibration;
mod classify;
mod estimate;
mod hierarchy;
mod host;
mod model;
mod sampling;

pub use address::page_color::PageColoring;
pub use caches::geometry::{Geometry, LastLevelPolicy, Level};
pub use estimate::ablation::Estimator;
pub use model::CacheModel;
