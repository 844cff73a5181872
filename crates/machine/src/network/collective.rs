//! Collective calls that can be measured: their names, and how many elements make the bytes that a rank hands over (docs/mpi.md).

use serde::{Deserialize, Serialize};

use rprof_profile::mpi_name::MpiName;

/// Bytes of `MPI_DOUBLE`.
const DOUBLE: u64 = 8;

/// A function that all ranks of a communicator call together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Collective {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Scatter`.
    Scatter,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Reduce_scatter_block`.
    ReduceScatter,
    /// `MPI_Scan`.
    Scan,
    /// `MPI_Exscan`.
    Exscan,
}

use Collective::*;

/// With their names, without `MPI_`.
const ALL: [(Collective, &str); 11] = [
    (Barrier, "Barrier"),
    (Bcast, "Bcast"),
    (Reduce, "Reduce"),
    (Allreduce, "Allreduce"),
    (Gather, "Gather"),
    (Allgather, "Allgather"),
    (Scatter, "Scatter"),
    (Alltoall, "Alltoall"),
    (ReduceScatter, "Reduce_scatter_block"),
    (Scan, "Scan"),
    (Exscan, "Exscan"),
];

/// Those that are measured if nothing is asked for.
pub const USUAL: [Collective; 8] = [Barrier, Bcast, Reduce, Allreduce, Gather, Allgather, Scatter, Alltoall];

/// Elements and buffers of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Elements of the count argument.
    pub count: u64,
    /// Bytes that the rank hands over with that count.
    pub bytes: u64,
    /// Bytes of the buffer that is sent from.
    pub send: u64,
    /// Bytes of the buffer that is received into.
    pub receive: u64,
}

impl Collective {
    /// The function of MPI.
    pub fn name(self) -> String {
        let name = ALL.iter().find(|(call, _)| *call == self).map_or("", |(_, name)| name);
        format!("MPI_{name}")
    }

    /// Whether no rank returns from it before all have called it.
    pub fn synchronizes(self) -> bool {
        matches!(self, Barrier | Allreduce | Allgather | Alltoall | ReduceScatter)
    }

    /// The function with the cost of `call`: an uneven form (`MPI_Gatherv`) costs about as much as the even one, one that does not wait
    /// (`MPI_Ibcast`) as much as the one that does. `None`: it is none that can be measured.
    pub fn like(call: &str) -> Option<Collective> {
        let name = MpiName::of(call)?.blocking();
        let name = name.strip_suffix("_init").unwrap_or(&name);
        let found = |name: &str| {
            let name = if name == "Reduce_scatter" { "Reduce_scatter_block" } else { name };
            ALL.iter().find(|(_, known)| *known == name).map(|(call, _)| *call)
        };
        found(name).or_else(|| found(name.strip_suffix(['v', 'w'])?))
    }

    /// The call of `members` ranks with which one of them hands over about `bytes` bytes.
    pub fn shape(self, bytes: u64, members: u32) -> Shape {
        let members = u64::from(members);
        let blocks = |bytes: u64, size: u64| if bytes == 0 { 0 } else { (bytes / (members * size)).max(1) };
        match self {
            Barrier => Shape { count: 0, bytes: 0, send: 0, receive: 0 },
            Bcast => Shape { count: bytes, bytes, send: bytes, receive: 0 },
            Reduce | Allreduce | Scan | Exscan => {
                let count = bytes.div_ceil(DOUBLE);
                Shape { count, bytes: count * DOUBLE, send: count * DOUBLE, receive: count * DOUBLE }
            }
            Gather | Allgather => Shape { count: bytes, bytes, send: bytes, receive: bytes * members },
            Scatter | Alltoall => {
                let count = blocks(bytes, 1);
                Shape { count, bytes: count * members, send: count * members, receive: count * members }
            }
            ReduceScatter => {
                let count = blocks(bytes, DOUBLE);
                let all = count * members * DOUBLE;
                Shape { count, bytes: all, send: all, receive: all }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_forms_cost_what_the_even_ones_do() {
        for (call, like) in [
            ("MPI_Allreduce", Some(Allreduce)),
            ("MPI_Allreduce_c", Some(Allreduce)),
            ("MPI_Alltoallw", Some(Alltoall)),
            ("MPI_Igatherv", Some(Gather)),
            ("MPI_Ibarrier", Some(Barrier)),
            ("MPI_Reduce_scatter", Some(ReduceScatter)),
            ("MPI_Bcast_init", Some(Bcast)),
            ("MPI_Isend", None),
            ("MPI_Neighbor_alltoall", None),
            ("Allreduce", None),
        ] {
            assert_eq!(Collective::like(call), like, "{call}");
        }
        assert!(ALL.iter().all(|(call, _)| Collective::like(&call.name()) == Some(*call)));
    }

    #[test]
    fn bytes_are_those_that_a_rank_hands_over() {
        for (call, count, bytes, receive) in [
            (Bcast, 1000, 1000, 0),
            (Allreduce, 125, 1000, 1000),
            (Gather, 1000, 1000, 4000),
            (Alltoall, 250, 1000, 1000),
            (ReduceScatter, 31, 992, 992),
            (Barrier, 0, 0, 0),
        ] {
            let shape = call.shape(1000, 4);
            assert_eq!((shape.count, shape.bytes, shape.receive), (count, bytes, receive), "{call:?}");
        }
        assert_eq!(Allreduce.shape(9, 4).bytes, 16, "whole doubles");
        assert_eq!((Alltoall.shape(3, 4).bytes, Alltoall.shape(0, 4).bytes), (4, 0));
    }
}
