//! The translations of an address space, and their memory.

pub mod arena;
pub mod block;
pub mod cache;
pub mod chunks;
pub mod counters;
pub mod course;
pub mod descriptor;
pub mod entries;
pub mod flows;
pub mod hash;
pub mod layout;
pub mod leaders;
pub mod lookups;
pub mod mpi_places;
pub mod mpi_record;
pub mod probe_site;
pub mod records;
pub mod regions;
pub mod shared;
pub mod stubs;
pub mod syscall_table;
pub mod totals;
pub mod trampoline;
pub mod unsettled;
pub mod usual_targets;
pub mod version;
