//! The caches of a host as parts: their geometry, one cache, its lines, the buffers of non-temporal stores.

pub mod effective_llc;
pub mod geometry;
pub mod hash;
pub mod last_lookup;
pub mod line;
pub mod set_cache;
pub mod write_combining;
