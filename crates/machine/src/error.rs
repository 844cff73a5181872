//! Errors while measuring the machine.

use std::io;
use std::path::PathBuf;

/// Errors of this module. None of them needs a panic: the caller prints the line and its hint.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No CPU is left to measure on.
    #[error(
        "measuring the machine: {asked} allows none of this host's CPUs (hint: check taskset or the container's cpuset)"
    )]
    NoCpu {
        /// The requested CPUs.
        asked: String,
    },
    /// Executable memory was refused.
    #[error(
        "mapping {bytes} bytes of executable memory for a microkernel: {source} (hint: a sandbox that forbids PROT_EXEC cannot measure ceilings)"
    )]
    Executable {
        /// Bytes wanted.
        bytes: usize,
        /// Why it was refused.
        source: io::Error,
    },
    /// A data buffer was refused.
    #[error("mapping a buffer of {bytes} bytes: {source} (hint: raise the memory limit)")]
    Buffer {
        /// Bytes wanted.
        bytes: u64,
        /// Why it was refused.
        source: io::Error,
    },
    /// A microkernel could not be encoded: a defect of rprof.
    #[error("encoding microkernel {kernel}: {reason} (hint: please report this as a defect of rprof)")]
    Encode {
        /// Which kernel.
        kernel: String,
        /// The encoder's message.
        reason: String,
    },
    /// A measuring thread could not be started or ended early.
    #[error("measuring thread on CPU {cpu}: {reason} (hint: check the limit on processes, ulimit -u)")]
    Thread {
        /// The CPU it was for.
        cpu: usize,
        /// The cause.
        reason: String,
    },
    /// The architecture has no microkernels yet.
    #[error("measuring the machine: no microkernels exist for {arch}")]
    Architecture {
        /// Its name.
        arch: &'static str,
    },
    /// The result could not be written to the cache; the measurement itself is good.
    #[error("writing the cache of ceilings to {}: {source}", path.display())]
    CacheWrite {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
