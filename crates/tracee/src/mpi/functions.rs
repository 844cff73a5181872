//! The functions of MPI that move data, wait, or make handles, with the positions of their arguments (MPI 4.1, C bindings).

/// Counts and datatype of a buffer, as positions of arguments from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// The buffer.
    pub data: u8,
    /// Elements: a number, or an array of them if the function says so.
    pub count: u8,
    /// Their type.
    pub datatype: u8,
}

/// The other side of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its rank.
    pub rank: u8,
    /// The tag.
    pub tag: u8,
}

/// What a function does with its arguments. The communicator is the argument `comm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Sends one message, and may receive one.
    Send {
        /// The buffer that is sent.
        buffer: Buffer,
        /// The receiver.
        to: Peer,
        /// The sender of the message that is received, too.
        from: Option<Peer>,
        /// Communicator.
        comm: u8,
    },
    /// Receives one message. How long it is only its sender knows.
    Receive {
        /// The sender.
        from: Peer,
        /// Communicator.
        comm: u8,
    },
    /// Each rank passes one buffer (`MPI_IN_PLACE`: the other one).
    Each {
        /// The buffer.
        buffer: Buffer,
        /// The one that counts if the first is in place.
        in_place: Option<Buffer>,
        /// Communicator.
        comm: u8,
    },
    /// The root alone passes one buffer.
    FromRoot {
        /// The buffer.
        buffer: Buffer,
        /// The root.
        root: u8,
        /// Communicator.
        comm: u8,
    },
    /// Moves data, by descriptions that are not read: neighbours, an array of datatypes.
    Undescribed,
    /// Each rank passes one buffer for each rank of the communicator.
    ForEach {
        /// The buffer for one of them.
        buffer: Buffer,
        /// The one that counts if the first is in place.
        in_place: Option<Buffer>,
        /// Communicator.
        comm: u8,
    },
    /// As `ForEach`, with an array of counts.
    Counts {
        /// `count` is the array.
        buffer: Buffer,
        /// The one that counts if the first is in place.
        in_place: Option<Buffer>,
        /// Communicator.
        comm: u8,
    },
    /// The root alone passes data for each rank.
    Scatter {
        /// The buffer for one of them.
        buffer: Buffer,
        /// `count` is an array.
        counts: bool,
        /// The root.
        root: u8,
        /// Communicator.
        comm: u8,
    },
    /// Moves data between this rank and memory of another.
    OneSided {
        /// The buffer.
        buffer: Buffer,
        /// The other rank.
        target: u8,
    },
    /// As `OneSided`, always one element.
    OneElement {
        /// Its type.
        datatype: u8,
        /// The other rank.
        target: u8,
    },
    /// Prepares sends: their bytes count when they are started. The request is the last argument.
    Prepare {
        /// What will be sent; `None`: it will be received.
        buffer: Option<Buffer>,
        /// The sender or receiver.
        peer: Peer,
        /// Communicator.
        comm: u8,
        /// Pointer to the request.
        request: u8,
    },
    /// As `Prepare`, of a message in parts: argument 1 is their number, and the buffer is that of one part, always with a count of 64
    /// bits.
    PrepareParts {
        /// The data to be sent; `None`: it will be received.
        buffer: Option<Buffer>,
        /// The sender or receiver.
        peer: Peer,
        /// Communicator.
        comm: u8,
        /// Pointer to the request.
        request: u8,
    },
    /// Starts a prepared message: its argument is a pointer to the request.
    Start,
    /// Starts several: number, pointer to the requests.
    StartAll,
    /// Waits, or synchronises: moves no data of its own.
    Wait,
    /// Makes a datatype; the pointer to it is this argument.
    Type(Constructor, u8),
    /// A datatype ends: pointer to it.
    TypeFree,
    /// Makes a communicator from communicator 0; the pointer to it is this argument.
    Communicator(Making, u8),
    /// Makes a communicator between two groups of ranks; the pointer to it is this argument.
    Intercommunicator(u8),
    /// A communicator ends: pointer to it.
    CommFree,
    /// The number of ranks, or the own rank, of communicator 0 goes to pointer 1.
    CommSize,
    /// See `CommSize`.
    CommRank,
}

/// Constructors of communicators: their arguments after the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    /// None that matter.
    Same,
    /// colour, key.
    Split,
    /// type of split, key.
    SplitByType,
    /// dimensions, their lengths.
    Grid,
    /// which dimensions remain.
    Subgrid,
    /// Not followed.
    Other,
}

/// Constructors of datatypes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constructor {
    /// count, old.
    Contiguous,
    /// count, blocklength, stride, old.
    Vector,
    /// count, blocklengths, displacements, old.
    Indexed,
    /// count, blocklength, displacements, old.
    IndexedBlock,
    /// count, blocklengths, displacements, types.
    Struct,
    /// old, lower bound, extent.
    Resized,
    /// old.
    Dup,
    /// dimensions, sizes, subsizes, starts, order, old.
    Subarray,
}

/// A function of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Its name without `MPI_`.
    pub name: &'static str,
    /// What it does.
    pub shape: Shape,
    /// Number of its arguments in C.
    pub arguments: u8,
}

impl Function {
    /// The argument that points to the request of the message that it prepares, or of the collective call, which has the shape of the call
    /// itself. `None`: it prepares nothing.
    pub fn request(&self) -> Option<u8> {
        match self.shape {
            Shape::Prepare { request, .. } | Shape::PrepareParts { request, .. } => Some(request),
            _ if self.name.ends_with("_init") && self.arguments > 3 => Some(self.arguments - 1),
            _ => None,
        }
    }

    /// Whether what its arguments point to must be read while it is called.
    pub fn is_read_at_once(&self) -> bool {
        self.request().is_some()
            || matches!(
                self.shape,
                Shape::Type(..)
                    | Shape::TypeFree
                    | Shape::CommSize
                    | Shape::CommRank
                    | Shape::Communicator(..)
                    | Shape::Intercommunicator(..)
                    | Shape::CommFree
                    | Shape::Counts { .. }
                    | Shape::Scatter { counts: true, .. }
                    | Shape::StartAll
                    | Shape::Start
            )
    }
}

const fn buffer(data: u8, count: u8, datatype: u8) -> Buffer {
    Buffer { data, count, datatype }
}

const fn peer(rank: u8, tag: u8) -> Peer {
    Peer { rank, tag }
}

const SEND: Shape = Shape::Send { buffer: buffer(0, 1, 2), to: peer(3, 4), from: None, comm: 5 };
const RECEIVE: Shape = Shape::Receive { from: peer(3, 4), comm: 5 };
const SENDRECV: Shape = Shape::Send { buffer: buffer(0, 1, 2), to: peer(3, 4), from: Some(peer(8, 9)), comm: 10 };
const REPLACE: Shape = Shape::Send { buffer: buffer(0, 1, 2), to: peer(3, 4), from: Some(peer(5, 6)), comm: 7 };
const SEND_INIT: Shape = Shape::Prepare { buffer: Some(buffer(0, 1, 2)), peer: peer(3, 4), comm: 5, request: 6 };
const RECV_INIT: Shape = Shape::Prepare { buffer: None, peer: peer(3, 4), comm: 5, request: 6 };
const PSEND_INIT: Shape = Shape::PrepareParts { buffer: Some(buffer(0, 2, 3)), peer: peer(4, 5), comm: 6, request: 8 };
const PRECV_INIT: Shape = Shape::PrepareParts { buffer: None, peer: peer(4, 5), comm: 6, request: 8 };
const BCAST: Shape = Shape::FromRoot { buffer: buffer(0, 1, 2), root: 3, comm: 4 };
const REDUCE: Shape = Shape::Each { buffer: buffer(0, 2, 3), in_place: Some(buffer(1, 2, 3)), comm: 6 };
const ALLREDUCE: Shape = Shape::Each { buffer: buffer(0, 2, 3), in_place: Some(buffer(1, 2, 3)), comm: 5 };
const REDUCE_SCATTER_BLOCK: Shape =
    Shape::ForEach { buffer: buffer(0, 2, 3), in_place: Some(buffer(1, 2, 3)), comm: 5 };
const REDUCE_SCATTER: Shape = Shape::Counts { buffer: buffer(0, 2, 3), in_place: Some(buffer(1, 2, 3)), comm: 5 };
const ALLGATHER: Shape = Shape::Each { buffer: buffer(0, 1, 2), in_place: Some(buffer(3, 4, 5)), comm: 6 };
const ALLGATHERV: Shape = Shape::Each { buffer: buffer(0, 1, 2), in_place: None, comm: 7 };
const GATHER: Shape = Shape::Each { buffer: buffer(0, 1, 2), in_place: None, comm: 7 };
const GATHERV: Shape = Shape::Each { buffer: buffer(0, 1, 2), in_place: None, comm: 8 };
const SCATTER: Shape = Shape::Scatter { buffer: buffer(0, 1, 2), counts: false, root: 6, comm: 7 };
const SCATTERV: Shape = Shape::Scatter { buffer: buffer(0, 1, 3), counts: true, root: 7, comm: 8 };
const ALLTOALL: Shape = Shape::ForEach { buffer: buffer(0, 1, 2), in_place: Some(buffer(3, 4, 5)), comm: 6 };
const ALLTOALLV: Shape = Shape::Counts { buffer: buffer(0, 1, 3), in_place: Some(buffer(4, 5, 7)), comm: 8 };
const PUT: Shape = Shape::OneSided { buffer: buffer(0, 1, 2), target: 3 };
// With `MPI_NO_OP` nothing is sent, and the result comes all the same.
const GET_ACCUMULATE: Shape = Shape::OneSided { buffer: buffer(3, 4, 5), target: 6 };

const fn function(name: &'static str, shape: Shape, arguments: u8) -> Function {
    Function { name, shape, arguments }
}

/// All of them.
pub const FUNCTIONS: &[Function] = &[
    function("Send", SEND, 6),
    function("Bsend", SEND, 6),
    function("Ssend", SEND, 6),
    function("Rsend", SEND, 6),
    function("Isend", SEND, 7),
    function("Ibsend", SEND, 7),
    function("Issend", SEND, 7),
    function("Irsend", SEND, 7),
    function("Recv", RECEIVE, 7),
    function("Irecv", RECEIVE, 7),
    function("Mrecv", Shape::Wait, 5),
    function("Imrecv", Shape::Wait, 5),
    function("Sendrecv", SENDRECV, 12),
    function("Isendrecv", SENDRECV, 12),
    function("Sendrecv_replace", REPLACE, 9),
    function("Isendrecv_replace", REPLACE, 9),
    function("Send_init", SEND_INIT, 7),
    function("Bsend_init", SEND_INIT, 7),
    function("Ssend_init", SEND_INIT, 7),
    function("Rsend_init", SEND_INIT, 7),
    function("Recv_init", RECV_INIT, 7),
    function("Psend_init", PSEND_INIT, 9),
    function("Precv_init", PRECV_INIT, 9),
    function("Start", Shape::Start, 1),
    function("Startall", Shape::StartAll, 2),
    function("Bcast", BCAST, 5),
    function("Ibcast", BCAST, 6),
    function("Reduce", REDUCE, 7),
    function("Ireduce", REDUCE, 8),
    function("Allreduce", ALLREDUCE, 6),
    function("Iallreduce", ALLREDUCE, 7),
    function("Scan", ALLREDUCE, 6),
    function("Iscan", ALLREDUCE, 7),
    function("Exscan", ALLREDUCE, 6),
    function("Iexscan", ALLREDUCE, 7),
    function("Reduce_scatter_block", REDUCE_SCATTER_BLOCK, 6),
    function("Ireduce_scatter_block", REDUCE_SCATTER_BLOCK, 7),
    function("Reduce_scatter", REDUCE_SCATTER, 6),
    function("Ireduce_scatter", REDUCE_SCATTER, 7),
    function("Allgather", ALLGATHER, 7),
    function("Iallgather", ALLGATHER, 8),
    function("Allgatherv", ALLGATHERV, 8),
    function("Iallgatherv", ALLGATHERV, 9),
    function("Gather", GATHER, 8),
    function("Igather", GATHER, 9),
    function("Gatherv", GATHERV, 9),
    function("Igatherv", GATHERV, 10),
    function("Scatter", SCATTER, 8),
    function("Iscatter", SCATTER, 9),
    function("Scatterv", SCATTERV, 9),
    function("Iscatterv", SCATTERV, 10),
    function("Alltoall", ALLTOALL, 7),
    function("Ialltoall", ALLTOALL, 8),
    function("Alltoallv", ALLTOALLV, 9),
    function("Ialltoallv", ALLTOALLV, 10),
    function("Alltoallw", Shape::Undescribed, 9),
    function("Ialltoallw", Shape::Undescribed, 10),
    function("Neighbor_allgather", Shape::Undescribed, 7),
    function("Neighbor_allgatherv", Shape::Undescribed, 8),
    function("Neighbor_alltoall", Shape::Undescribed, 7),
    function("Neighbor_alltoallv", Shape::Undescribed, 9),
    function("Neighbor_alltoallw", Shape::Undescribed, 9),
    function("Ineighbor_allgather", Shape::Undescribed, 8),
    function("Ineighbor_allgatherv", Shape::Undescribed, 9),
    function("Ineighbor_alltoall", Shape::Undescribed, 8),
    function("Ineighbor_alltoallv", Shape::Undescribed, 10),
    function("Ineighbor_alltoallw", Shape::Undescribed, 10),
    function("Bcast_init", BCAST, 7),
    function("Reduce_init", REDUCE, 9),
    function("Allreduce_init", ALLREDUCE, 8),
    function("Scan_init", ALLREDUCE, 8),
    function("Exscan_init", ALLREDUCE, 8),
    function("Reduce_scatter_block_init", REDUCE_SCATTER_BLOCK, 8),
    function("Reduce_scatter_init", REDUCE_SCATTER, 8),
    function("Allgather_init", ALLGATHER, 9),
    function("Allgatherv_init", ALLGATHERV, 10),
    function("Gather_init", GATHER, 10),
    function("Gatherv_init", GATHERV, 11),
    function("Scatter_init", SCATTER, 10),
    function("Scatterv_init", SCATTERV, 11),
    function("Alltoall_init", ALLTOALL, 9),
    function("Alltoallv_init", ALLTOALLV, 11),
    function("Alltoallw_init", Shape::Undescribed, 11),
    function("Neighbor_allgather_init", Shape::Undescribed, 9),
    function("Neighbor_allgatherv_init", Shape::Undescribed, 10),
    function("Neighbor_alltoall_init", Shape::Undescribed, 9),
    function("Neighbor_alltoallv_init", Shape::Undescribed, 11),
    function("Neighbor_alltoallw_init", Shape::Undescribed, 11),
    function("Barrier", Shape::Wait, 1),
    function("Ibarrier", Shape::Wait, 2),
    function("Cancel", Shape::Wait, 1),
    function("Wait", Shape::Wait, 2),
    function("Waitall", Shape::Wait, 3),
    function("Waitany", Shape::Wait, 4),
    function("Waitsome", Shape::Wait, 5),
    function("Test", Shape::Wait, 3),
    function("Testall", Shape::Wait, 4),
    function("Testany", Shape::Wait, 5),
    function("Testsome", Shape::Wait, 5),
    function("Probe", Shape::Wait, 4),
    function("Iprobe", Shape::Wait, 5),
    function("Mprobe", Shape::Receive { from: peer(0, 1), comm: 2 }, 5),
    function("Improbe", Shape::Wait, 6),
    function("Put", PUT, 8),
    function("Get", PUT, 8),
    function("Accumulate", PUT, 9),
    function("Rput", PUT, 9),
    function("Rget", PUT, 9),
    function("Raccumulate", PUT, 10),
    function("Get_accumulate", GET_ACCUMULATE, 12),
    function("Rget_accumulate", GET_ACCUMULATE, 13),
    function("Fetch_and_op", Shape::OneElement { datatype: 2, target: 3 }, 7),
    function("Compare_and_swap", Shape::OneElement { datatype: 3, target: 4 }, 7),
    function("Win_fence", Shape::Wait, 2),
    function("Win_lock", Shape::Wait, 4),
    function("Win_unlock", Shape::Wait, 2),
    function("Win_lock_all", Shape::Wait, 2),
    function("Win_unlock_all", Shape::Wait, 1),
    function("Win_flush", Shape::Wait, 2),
    function("Win_flush_all", Shape::Wait, 1),
    function("Win_post", Shape::Wait, 3),
    function("Win_start", Shape::Wait, 3),
    function("Win_complete", Shape::Wait, 1),
    function("Win_wait", Shape::Wait, 1),
    function("Win_create", Shape::Wait, 6),
    function("Win_allocate", Shape::Wait, 6),
    function("Win_allocate_shared", Shape::Wait, 6),
    function("Win_create_dynamic", Shape::Wait, 3),
    function("Win_free", Shape::Wait, 1),
    function("Comm_free", Shape::CommFree, 1),
    function("Comm_disconnect", Shape::CommFree, 1),
    function("Comm_create_group", Shape::Wait, 4),
    function("Intercomm_create", Shape::Intercommunicator(5), 6),
    function("Intercomm_merge", Shape::Wait, 3),
    function("Comm_spawn", Shape::Intercommunicator(6), 8),
    function("Comm_spawn_multiple", Shape::Intercommunicator(7), 9),
    function("Comm_accept", Shape::Intercommunicator(4), 5),
    function("Comm_connect", Shape::Intercommunicator(4), 5),
    function("Comm_get_parent", Shape::Intercommunicator(0), 1),
    function("Comm_join", Shape::Intercommunicator(1), 2),
    function("Comm_create_from_group", Shape::Wait, 5),
    function("Graph_create", Shape::Communicator(Making::Other, 5), 6),
    function("Dist_graph_create", Shape::Communicator(Making::Other, 8), 9),
    function("Dist_graph_create_adjacent", Shape::Communicator(Making::Other, 9), 10),
    function("Comm_split", Shape::Communicator(Making::Split, 3), 4),
    function("Comm_split_type", Shape::Communicator(Making::SplitByType, 4), 5),
    function("Comm_dup", Shape::Communicator(Making::Same, 1), 2),
    function("Comm_dup_with_info", Shape::Communicator(Making::Same, 2), 3),
    function("Comm_idup", Shape::Communicator(Making::Same, 1), 3),
    function("Comm_idup_with_info", Shape::Communicator(Making::Same, 2), 4),
    function("Comm_create", Shape::Communicator(Making::Other, 2), 3),
    function("Cart_create", Shape::Communicator(Making::Grid, 5), 6),
    function("Cart_sub", Shape::Communicator(Making::Subgrid, 2), 3),
    function("Init", Shape::Wait, 2),
    function("Init_thread", Shape::Wait, 4),
    function("Finalize", Shape::Wait, 0),
    function("Session_init", Shape::Wait, 3),
    function("Session_finalize", Shape::Wait, 1),
    function("Comm_size", Shape::CommSize, 2),
    function("Comm_rank", Shape::CommRank, 2),
    function("Type_contiguous", Shape::Type(Constructor::Contiguous, 2), 3),
    function("Type_vector", Shape::Type(Constructor::Vector, 4), 5),
    function("Type_hvector", Shape::Type(Constructor::Vector, 4), 5),
    function("Type_create_hvector", Shape::Type(Constructor::Vector, 4), 5),
    function("Type_indexed", Shape::Type(Constructor::Indexed, 4), 5),
    function("Type_hindexed", Shape::Type(Constructor::Indexed, 4), 5),
    function("Type_create_hindexed", Shape::Type(Constructor::Indexed, 4), 5),
    function("Type_create_indexed_block", Shape::Type(Constructor::IndexedBlock, 4), 5),
    function("Type_create_hindexed_block", Shape::Type(Constructor::IndexedBlock, 4), 5),
    function("Type_struct", Shape::Type(Constructor::Struct, 4), 5),
    function("Type_create_struct", Shape::Type(Constructor::Struct, 4), 5),
    function("Type_create_resized", Shape::Type(Constructor::Resized, 3), 4),
    function("Type_dup", Shape::Type(Constructor::Dup, 1), 2),
    function("Type_create_subarray", Shape::Type(Constructor::Subarray, 6), 7),
    function("Type_free", Shape::TypeFree, 1),
];

/// The binding that a symbol belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// C; its arguments are read.
    C {
        /// Counts have 64 bits (`MPI_Send_c`).
        wide: bool,
    },
    /// Fortran: it calls C.
    Fortran,
}

/// The function that a symbol names, as its index in [`FUNCTIONS`].
pub fn named(symbol: &str) -> Option<(u16, Binding)> {
    let find = |name: &str, matches: fn(&str, &str) -> bool| {
        FUNCTIONS.iter().position(|function| matches(function.name, name)).map(|i| i as u16)
    };
    if let Some(name) = symbol.strip_prefix("MPI_").or_else(|| symbol.strip_prefix("PMPI_")) {
        let exact = |a: &str, b: &str| a == b;
        return find(name, exact)
            .map(|i| (i, Binding::C { wide: false }))
            .or_else(|| Some((find(name.strip_suffix("_c")?, exact)?, Binding::C { wide: true })));
    }
    let name = symbol.strip_prefix("mpi_").or_else(|| symbol.strip_prefix("pmpi_"))?.strip_suffix('_')?;
    let name = name.strip_suffix('_').unwrap_or(name);
    let name = ["_f08ts", "_f08"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    find(name, |a, b| a.eq_ignore_ascii_case(b)).map(|i| (i, Binding::Fortran))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::mpi_name::of_symbol;

    #[test]
    fn names_of_all_bindings_are_known() {
        let name = |symbol| named(symbol).map(|(i, binding)| (FUNCTIONS[i as usize].name, binding));
        let c = Binding::C { wide: false };
        assert_eq!(name("MPI_Send"), Some(("Send", c)));
        assert_eq!(name("PMPI_Alltoallv_c"), Some(("Alltoallv", Binding::C { wide: true })));
        for fortran in ["mpi_send_", "pmpi_send_", "mpi_send__", "mpi_send_f08_", "mpi_send_f08ts_"] {
            assert_eq!(name(fortran), Some(("Send", Binding::Fortran)), "{fortran}");
        }
        for other in ["MPI_Send_f", "MPI_Sendrecv_f", "mpi_send", "ompi_send", "MPI_", "MPI_Wtime", "xMPI_Send"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn positions_lie_among_the_arguments() {
        for function in FUNCTIONS {
            let last = match function.shape {
                Shape::Send { comm, .. } | Shape::Receive { comm, .. } | Shape::Each { comm, .. } => comm,
                Shape::FromRoot { comm, .. }
                | Shape::ForEach { comm, .. }
                | Shape::Counts { comm, .. }
                | Shape::Scatter { comm, .. } => comm,
                Shape::Prepare { request, .. } | Shape::PrepareParts { request, .. } => request,
                Shape::Type(_, new) | Shape::Communicator(_, new) | Shape::Intercommunicator(new) => new,
                Shape::OneSided { target, .. } | Shape::OneElement { target, .. } => target,
                _ => 0,
            };
            assert!(last < function.arguments.max(1), "{}", function.name);
        }
        let mut names: Vec<_> = FUNCTIONS.iter().map(|f| f.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FUNCTIONS.len());
        for name in names {
            let symbol = format!("MPI_{name}");
            assert_eq!(of_symbol(&symbol), Some(symbol), "samples know it, too");
        }
    }
}
