//! The cache hierarchy model: bytes that crossed each level, by the instruction that caused them.
//!
//! ```text
//!  batches ─▶ interleave ─▶ model ─▶ hierarchy ─▶ tallies ─▶ MemoryEvidence
//!  of accesses  turns of     sites,    L1 L2 LLC    per (site,
//!               threads      order     3C, NT       thread)
//! ```
//!
//! Byte convention: DESIGN section 5. A fill is booked on the instruction that caused it, a write-back on the one that
//! last wrote the line; lines still dirty when the program ends are written back then. A non-temporal line counts 64
//! bytes when it leaves the write-combining buffers, complete or not. Software prefetches fill like loads and execute no
//! bytes. Hardware prefetchers, page walks, instruction fetches and the kernel's accesses are not modelled.

pub mod geometry;
mod hierarchy;
mod host;
mod interleave;
pub mod line;
mod model;
mod order;
pub mod placement;
mod seen;
mod set_cache;
mod shadow;
mod tally;
mod write_combining;

pub use geometry::{Geometry, LastLevelPolicy, Level};
pub use model::CacheModel;
pub use placement::Placement;
