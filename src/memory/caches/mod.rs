//! The caches of a host: their geometry, one cache, and all of them with what happens between them.

pub mod effective_llc;
pub mod geometry;
pub mod hash;
pub mod hierarchy;
pub mod last_lookup;
pub mod line;
pub mod set_cache;
pub mod write_combining;
