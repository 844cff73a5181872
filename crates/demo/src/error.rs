//! The errors of a run of the built-in kernels.

use std::io;

/// Why a kernel could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// No kernel has this name.
    #[error("there is no kernel {0:?}; `--list` names them")]
    UnknownKernel(String),
    /// The kernel needs something that this host has not.
    #[error("kernel {kernel} cannot run here: {reason}")]
    Unavailable {
        /// Its name.
        kernel: &'static str,
        /// The missing part.
        reason: &'static str,
    },
    /// An argument could not be read.
    #[error(
        "cannot read the argument {0:?}; expected --list, --kernel NAME, --passes N, --seconds S, --isa sse2|avx2|avx512, --timing or NAME=PASSES"
    )]
    Argument(String),
    /// Memory for a kernel's arrays was refused.
    #[error("cannot get {bytes} bytes for a kernel's arrays: {source}; free memory or raise the memory limit")]
    Map {
        /// How much.
        bytes: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// The thread's own CPUs could not be read or set.
    #[error("cannot {operation} the CPU affinity: {source}")]
    Affinity {
        /// `read` or `set`.
        operation: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A thread of the team ended early.
    #[error("a thread of kernel {0} failed")]
    Team(&'static str),
    /// The result could not be written.
    #[error("cannot write the checksum: {0}")]
    Output(io::Error),
}
