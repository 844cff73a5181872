//! What the host is, as far as it says so itself: instruction sets, CPUs and caches, and what this process may use of them.

pub mod features;
pub mod limits;
pub mod topology;
