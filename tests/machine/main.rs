//! Ceilings of this host, and the kernels that measure and show them.

#[path = "../common/cgroup.rs"]
mod cgroup;
#[path = "../common/cli.rs"]
mod cli;

mod ceilings;
mod core_parameters;
mod demo_kernels;
mod kernels;
mod limits;
