//! Evidence of MPI: calls by call site, as the counted pass saw them.

use serde::{Deserialize, Serialize};

use crate::code::CodeRef;

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
    /// Communicators that `calls` refer to: the first is `MPI_COMM_WORLD`.
    #[serde(default)]
    pub communicators: Vec<Communicator>,
    /// Ranks of `MPI_COMM_WORLD`, if the program asked.
    pub ranks: Option<u32>,
    /// The own rank there, if the program asked.
    pub rank: Option<u32>,
    /// Bytes that sockets passed.
    #[serde(default)]
    pub network: NetworkEvidence,
    /// The calls are those of windows; nothing of their times and of the network is known. `None`: all of the run was counted.
    #[serde(default)]
    pub windows: Option<OfWindows>,
}

/// What windows say of the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OfWindows {
    /// Calls and bytes are extended to it.
    Extended,
    /// They were too slow: ranks that wait for every message go at the pace of the one that is in a window.
    TooSlow,
}

/// Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// That went out.
    pub sent: u64,
    /// That came in.
    pub received: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.sent += other.sent;
        self.received += other.received;
    }
}

/// Bytes that sockets passed, by the results of system calls: without headers and retransmissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkEvidence {
    /// To and from other hosts, outside of calls of MPI: by threads of the library's own, and by the program itself.
    pub outside: Traffic,
    /// To and from this host.
    pub within_host: Traffic,
    /// Through the host's RDMA ports meanwhile, by all of its programs; `None`: it has none.
    pub host_ports: Option<Traffic>,
    /// Why figures are not whole.
    pub missing: Option<NetworkMissing>,
}

/// Why it is not known what crossed the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMissing {
    /// Sockets without one peer: datagrams to several, or a connection that had ended before its first bytes were taken.
    NotConnected,
    /// The kernel does not identify the other ends of sockets.
    NoDescriptors,
    /// Some of it goes through rings that the kernel reads.
    IoUring,
    /// Something passed the host's RDMA ports, and so the kernel by.
    KernelBypass,
}

impl NetworkMissing {
    /// A clause without a full stop.
    pub fn words(self) -> &'static str {
        match self {
            NetworkMissing::NotConnected => "bytes went through sockets that are not connected to one peer",
            NetworkMissing::NoDescriptors => {
                "where the other ends of sockets are is not known: the kernel does not hand out the program's descriptors"
            }
            NetworkMissing::IoUring => "the program uses io_uring, whose transfers are not seen",
            NetworkMissing::KernelBypass => "the host's RDMA ports were used, whose transfers go past the kernel",
        }
    }
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
    /// Calls with an unknown number of bytes: an unknown datatype or communicator.
    pub unknown: u64,
    /// Calls with an observed return.
    pub timed: u64,
    /// Seconds from call to return, of those.
    pub time_s: f64,
    /// Calls by size.
    pub sizes: Vec<u64>,
    /// Bytes of them, by the same sizes.
    #[serde(default)]
    pub size_bytes: Vec<u64>,
    /// Bytes that went to and came from other hosts during the calls.
    #[serde(default)]
    pub network: Traffic,
    /// Calls in `MPI_COMM_WORLD`.
    #[serde(default)]
    pub world_calls: u64,
    /// Half-widths of the 95 % intervals of estimated calls and bytes, relative; `None`: counted, or too few windows to estimate their
    /// number.
    #[serde(default)]
    pub errors: Option<(f64, f64)>,
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
    /// The rank that it receives from, and the tag; negative: no rank, or any rank.
    pub from: Option<(i32, i32)>,
    /// The root of a collective call that has one.
    pub root: Option<i32>,
    /// Bytes of a buffer that counts only if this rank is the root; set if `bytes` is not known because the root is
    /// not.
    #[serde(default)]
    pub bytes_of_root: Option<u64>,
    /// Index into `communicators`; ranks are those there. `None`: not known.
    pub communicator: Option<u32>,
}

/// A group of ranks, as one of them sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Communicator {
    /// What it was made from.
    pub made: Made,
    /// Index of the communicator that it was made from.
    pub parent: u32,
    /// How many were made from that before.
    pub order: u32,
    /// Its ranks, if the program asked.
    pub size: Option<u32>,
    /// The own rank in it, if the program asked.
    pub rank: Option<u32>,
}

/// How a communicator is made from its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Made {
    /// `MPI_COMM_WORLD`.
    World,
    /// The same ranks.
    Same,
    /// Of the ranks with the same colour, in the order of their keys.
    Split {
        /// Colour.
        color: i32,
        /// Key.
        key: i32,
    },
    /// Of the ranks on the same host, in the order of their keys.
    SplitByHost {
        /// Key.
        key: i32,
    },
    /// A grid, of the first ranks of the parent, the last dimension contiguous.
    Grid {
        /// Ranks along each dimension.
        dimensions: Vec<u32>,
    },
    /// A grid of some of the dimensions of the parent's.
    Subgrid {
        /// Whether a dimension remains.
        remains: Vec<bool>,
    },
    /// In a way that is not followed.
    Other,
}
