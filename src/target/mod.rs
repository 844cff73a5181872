//! The program being profiled as processes and addresses: starting it, holding it stopped, its modules and maps, system
//! calls made on its behalf, the CPUs and limits it has.

pub mod address;
pub mod launch;
