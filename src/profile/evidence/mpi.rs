//! Evidence of MPI: calls by call site, as the counted pass saw them.

use serde::{Deserialize, Serialize};

use crate::profile::code::CodeRef;

/// Sizes of calls are counted by powers of two: entry i has those of 2^(i−1) to 2^i − 1 bytes, entry 0 those of 0 bytes.
pub const SIZES: usize = 48;

/// What a program did with MPI.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MpiEvidence {
    /// One entry per call site, function and thread.
    pub sites: Vec<MpiSite>,
    /// Single calls, in order of their end; at most [`CALLS`](MpiEvidence::CALLS).
    pub calls: Vec<MpiCall>,
    /// Calls that are not in `calls`.
    pub calls_left_out: u64,
    /// Ranks of `MPI_COMM_WORLD`, if the program asked.
    pub ranks: Option<u32>,
    /// The own rank there, if the program asked.
    pub rank: Option<u32>,
}

impl MpiEvidence {
    /// Most calls that are kept one by one.
    pub const CALLS: usize = 1 << 20;
}

/// The calls of one function from one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MpiSite {
    /// The call instruction's last byte: the return address − 1.
    pub at: CodeRef,
    /// The function: `MPI_Send`.
    pub function: String,
    /// Index into the counted evidence's threads.
    pub thread: u32,
    /// Calls.
    pub calls: u64,
    /// Bytes that they passed (docs/mpi.md), without the `unknown` ones.
    pub bytes: u64,
    /// Calls whose bytes are not known: an unknown datatype or communicator.
    pub unknown: u64,
    /// Calls whose return was seen.
    pub timed: u64,
    /// Seconds from call to return, of those.
    pub time_s: f64,
    /// Calls by size.
    pub sizes: Vec<u64>,
}

/// One call, for matching with those of other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MpiCall {
    /// Index into `sites`.
    pub site: u32,
    /// Nanoseconds of CLOCK_MONOTONIC at the call.
    pub start_ns: u64,
    /// At the return.
    pub end_ns: u64,
    /// Bytes that it passed, if known.
    pub bytes: Option<u64>,
    /// The rank that it sends to, and the tag.
    pub to: Option<(i32, i32)>,
    /// The rank that it receives from, and the tag; negative: nobody, or anybody.
    pub from: Option<(i32, i32)>,
    /// The root of a collective call that has one.
    pub root: Option<i32>,
    /// Whether the communicator is `MPI_COMM_WORLD`.
    pub in_world: bool,
}
