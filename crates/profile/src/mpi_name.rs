//! Names of MPI's functions: which is the blocking one of a family.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Names that begin with an I of another meaning.
const NOT_IMMEDIATE: [&str; 3] = ["Init", "Intercomm", "Info"];

/// The name of a function, without `MPI_` and the `_c` of the form with large counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpiName<'c> {
    name: &'c str,
    /// It returns at once: `MPI_Ibcast`.
    pub is_nonblocking: bool,
}

impl<'c> MpiName<'c> {
    /// Of `call`; `None`: it has no name of MPI.
    pub fn of(call: &'c str) -> Option<MpiName<'c>> {
        let name = call.strip_prefix("MPI_")?;
        let name = name.strip_suffix("_c").unwrap_or(name);
        let immediate = name.strip_prefix('I').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
        let is_nonblocking = immediate && !NOT_IMMEDIATE.iter().any(|other| name.starts_with(other));
        Some(MpiName { name, is_nonblocking })
    }

    /// The name of the function that does the same and returns when it is done: `Alltoallv` for `MPI_Ialltoallv_c`.
    pub fn blocking(&self) -> Cow<'c, str> {
        if !self.is_nonblocking {
            return Cow::Borrowed(self.name);
        }
        let mut name = self.name[1..].to_owned();
        name[..1].make_ascii_uppercase();
        Cow::Owned(name)
    }
}

/// The functions of MPI 1 to 5, without `MPI_`, but for those that read the clock.
static NAMES: LazyLock<HashMap<String, &str>> = LazyLock::new(|| {
    include_str!("mpi_names.txt").split_whitespace().map(|name| (name.to_ascii_lowercase(), name)).collect()
});

/// The function of MPI that the symbol `name` is, in C or Fortran: `MPI_Sendrecv` for `PMPI_Sendrecv` and `mpi_sendrecv_f08_`. `None`: it is
/// none, or one that reads the clock.
pub fn of_symbol(name: &str) -> Option<String> {
    let name = name.strip_suffix("@plt").unwrap_or(name);
    if let Some(rest) = name.strip_prefix("MPI_").or_else(|| name.strip_prefix("PMPI_")) {
        let plain = rest.strip_suffix("_c").unwrap_or(rest);
        let known = NAMES.get(&plain.to_ascii_lowercase()).filter(|known| **known == plain);
        return known.map(|_| format!("MPI_{rest}"));
    }
    let rest = name.strip_prefix("mpi_").or_else(|| name.strip_prefix("pmpi_"))?.strip_suffix('_')?;
    let bare = rest.strip_suffix('_').unwrap_or(rest);
    let bare = ["_f08ts", "_f08"].iter().find_map(|binding| bare.strip_suffix(binding)).unwrap_or(bare);
    NAMES.get(bare).map(|known| format!("MPI_{known}"))
}

/// Whether the file called `module` is a library of MPI: MPICH's and its relatives', Open MPI's, Intel's, that of MPI 5's ABI.
pub fn is_library(module: &str) -> bool {
    ["libmpi.so", "libmpich.so", "libmpich-", "libmpi_abi.so"].iter().any(|name| module.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_all_bindings_have_the_name_of_the_c_function() {
        for (symbol, call) in [
            ("PMPI_Sendrecv", Some("MPI_Sendrecv")),
            ("MPI_Send@plt", Some("MPI_Send")),
            ("mpi_win_fence_", Some("MPI_Win_fence")),
            ("pmpi_sendrecv_f08_", Some("MPI_Sendrecv")),
            ("mpi_isend_f08ts_", Some("MPI_Isend")),
            ("MPI_Allreduce_c", Some("MPI_Allreduce_c")),
            ("mpi_allreduce__", Some("MPI_Allreduce")),
            ("MPI_Wtime", None),
            ("MPI_Send_f", None),
            ("mpi_solver_", None),
            ("MPI_SEND", None),
            ("MPI_my_own", None),
            ("mpi_", None),
            ("mpi_init", None),
            ("ompi_mpi_init", None),
        ] {
            assert_eq!(of_symbol(symbol).as_deref(), call, "{symbol}");
        }
    }

    #[test]
    fn variants_have_the_name_of_the_blocking_one() {
        for (call, blocking, is_nonblocking) in [
            ("MPI_Ialltoallv_c", "Alltoallv", true),
            ("MPI_Ireduce_scatter_block", "Reduce_scatter_block", true),
            ("MPI_Ineighbor_alltoall", "Neighbor_alltoall", true),
            ("MPI_Send", "Send", false),
            ("MPI_Init_thread", "Init_thread", false),
            ("MPI_Intercomm_create", "Intercomm_create", false),
            ("MPI_Info_set", "Info_set", false),
        ] {
            let name = MpiName::of(call).unwrap();
            assert_eq!((&*name.blocking(), name.is_nonblocking), (blocking, is_nonblocking), "{call}");
        }
        assert_eq!(MpiName::of("Send"), None);
    }

    #[test]
    fn libraries_of_mpi_are_told_from_others() {
        for name in ["libmpich.so.12.2.2", "libmpi.so.40.30.4", "libmpich-abc.so", "libmpi_abi.so.0.0.0"] {
            assert!(is_library(name), "{name}");
        }
        for name in ["libmpir.so.23", "libmpiP.so", "libmpc.so.3", "libmy.so"] {
            assert!(!is_library(name), "{name}");
        }
    }
}
