//! The host's own description: instruction sets, CPUs and caches, and the share of them that this process may use.

pub mod features;
pub mod limits;
pub mod topology;
