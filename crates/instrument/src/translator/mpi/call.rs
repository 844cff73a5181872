//! What is known of a call of MPI that is going on.

use rprof_profile::evidence::mpi::Made;
use rprof_tracee::mpi::volume::{Prepared, Sides};

/// A call that has not returned.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    /// Its site, if it is the program's own call; a call within MPI has none.
    pub site: Option<u32>,
    /// Bytes, as far as they are known.
    pub bytes: Option<u64>,
    /// Those of a root, if it is not known whether this rank is one.
    pub bytes_of_root: Option<u64>,
    /// They wait for the call within MPI that does the work.
    pub is_undecided: bool,
    /// The other ranks.
    pub sides: Sides,
    /// The index of its communicator.
    pub communicator: Option<u32>,
    /// The value read behind a pointer when it returns.
    pub result: Option<Returns>,
}

/// Facts known when a call returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returns {
    /// A datatype of this size in bytes is at this address.
    Datatype(u64, Option<u64>),
    /// A communicator is at this address, made so from that with this index.
    Communicator(u64, u32, Made),
    /// A communicator between two groups is at this address.
    Intercommunicator(u64),
    /// The number of ranks of a communicator.
    Size(u64, u64),
    /// The own rank in a communicator.
    Rank(u64, u64),
    /// The request of a prepared message is at this address.
    Prepared(u64, Prepared),
}
