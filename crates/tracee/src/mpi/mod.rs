//! MPI's functions and datatypes, known by their names in ELF files, and what the arguments of a call mean.
//!
//! ```text
//!  ELF symbols ─ find ─▶ functions and datatypes at addresses ─ a call's arguments ─▶ volume: bytes, peer
//! ```

pub mod communicators;
pub mod datatypes;
pub mod find;
pub mod functions;
pub mod making;
pub mod volume;
