//! Matrix products of BLAS libraries, known by their names in ELF files, and the shapes that the arguments of a call say.
//!
//! ```text
//!  ELF symbols ─ find ─▶ functions at addresses ─ a call's arguments ─▶ shape: m, n, k, transposes
//! ```

pub mod find;
pub mod functions;
pub mod shape;
