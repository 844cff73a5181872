//! The program being profiled as processes and addresses: starting it, holding it stopped, its modules and maps, system
//! calls made on its behalf, the CPUs and limits it has.
//!
//! ```text
//!  launch::Gated ─▶ thread::Running ─ wait ─▶ thread::Stopped ─ resume ─▶ thread::Running
//!                                               │ remote::Remote   system calls in its name
//!                                               │ memory::Memory   its bytes
//!                                               └ maps, modules    what is mapped where, and which file that is (mapped_file, kept_files)
//! ```
//!
//! [`sampling_clock`]: the period that all that samples it shares. [`whole_file`]: files on this host that others may read
//! while they are written. [`perf_ring`]: where the kernel leaves records of a program, for the sampler and the counters.

pub mod address;
pub mod affinity;
pub mod blas;
pub mod boot;
pub mod broken_pipe;
pub mod build_id;
pub mod clock;
pub mod copied_text;
pub mod elf_layout;
pub mod elf_reader;
pub mod foreground;
pub mod image;
pub mod jit_images;
pub mod jit_places;
pub mod kept_files;
pub mod launch;
pub mod mapped_file;
pub mod maps;
pub mod markers;
pub mod memory;
pub mod modules;
pub mod mpi;
pub mod own_limits;
pub mod own_stack;
pub mod path_text;
pub mod perf_ring;
pub mod permission;
pub mod private_pages;
pub mod proc_status;
pub mod rdma_ports;
pub mod remote;
pub mod restarts;
pub mod same_memory;
pub mod sampling_clock;
pub mod sockets;
pub mod thread;
pub mod wait;
pub mod wake_up;
pub mod whole_file;
