//! Names of MPI's functions: which is the blocking one of a family.

use std::borrow::Cow;

/// Names that begin with an I that stands for something else.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
