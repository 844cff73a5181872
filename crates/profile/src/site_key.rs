//! The identity of a call site of MPI.

use serde::{Deserialize, Serialize};

/// A call site: its caller, its place, and the function that it calls.
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
