//! The cache hierarchy model: bytes that crossed each level, by the instruction that caused them.
//!
//! ```text
//!  batches ─▶ backlog ─▶ interleave ─▶ model ─▶ replay ─▶ hierarchy ─▶ tallies ─▶ estimate ─▶ MemoryEvidence
//!  of accesses  for later  turns of     owners,   line by   L1 L2 LLC    per (site,  scaled up,
//!                          threads      sampling  line      3C, NT       thread)     error
//! ```
//!
//! Exact: one hierarchy sees all accesses. Sampled: in windows (`pace.rs`) one that is a part of the host's sees one line
//! in 32, and in bursts within them (`sampling.rs`) one with the L1 caches alone sees everything. What bursts missed of L1 is
//! told by the former (`control.rs`).
//!
//! Byte convention: docs/conventions.md, Bytes. A fill is booked on the instruction that caused it, a write-back on the one that
//! last wrote the line; lines still dirty when the program ends are written back then. A non-temporal line counts 64
//! bytes when it leaves the write-combining buffers, complete or not. Software prefetches fill like loads and execute no
//! bytes. Hardware prefetchers, page walks, instruction fetches and the kernel's accesses are not modelled.

mod arrivals;
mod backlog;
mod behind;
mod calibration;
mod control;
mod cores;
mod data;
mod estimate;
mod executions;
mod frames;
pub mod geometry;
mod hierarchy;
mod host;
mod huge_pages;
mod interleave;
mod latest;
pub mod line;
mod mappings;
mod mix;
mod model;
mod order;
mod overwriting;
mod owners;
mod pace;
mod pages;
pub mod placement;
mod replay;
mod residency;
mod sampling;
mod seen;
mod set_cache;
mod shadow;
mod share;
mod strata;
mod tallies;
mod tally;
mod whereabouts;
mod write_combining;

pub use geometry::{Geometry, LastLevelPolicy, Level};
pub use model::CacheModel;
pub use placement::Placement;
