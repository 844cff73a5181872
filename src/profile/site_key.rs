//! What tells one call site of MPI from another.

use serde::{Deserialize, Serialize};

/// A call site: what it is called from, and what it calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct SiteKey {
    /// As in [`CallSite`](super::mpi::CallSite).
    pub caller: String,
    /// As in [`CallSite`](super::mpi::CallSite).
    pub module: String,
    /// As in [`CallSite`](super::mpi::CallSite).
    pub site: String,
    /// As in [`CallSite`](super::mpi::CallSite).
    pub call: String,
}
