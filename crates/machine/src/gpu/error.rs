//! Errors while measuring a GPU.

use super::codes;
use crate::loader::{LoaderError, signal_text};

/// Errors of the loader and of the driver in it. Each is one line: the operation, its subject, the remedy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GpuError {
    /// The program that loads libraries could not be started.
    #[error(
        "starting the loader of GPU libraries: {0} (hint: rprof needs memfd_create or a temporary folder that may hold programs)"
    )]
    Start(String),
    /// A library could not be loaded.
    #[error("loading {path}: {reason}")]
    Library {
        /// As it was asked for.
        path: String,
        /// The dynamic linker's text.
        reason: String,
    },
    /// The driver's API is older than the one that the kernels need.
    #[error(
        "the CUDA driver is too old: it knows CUDA {}.{}, 11.8 is needed (hint: install driver 520 or later)",
        version / 1000, version % 1000 / 10
    )]
    OldDriver {
        /// Its version, for instance 11040.
        version: u32,
    },
    /// The driver lacks a function.
    #[error("the CUDA driver has no {name} (hint: it is too old; install driver 450 or later)")]
    Symbol {
        /// The function.
        name: String,
    },
    /// The loader ended.
    #[error("{what}: the driver ended its process{} (hint: run nvidia-smi and look for Xid lines in dmesg)", signal_text(*signal))]
    Crashed {
        /// The request.
        what: String,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// No answer within the time limit; the loader was ended.
    #[error("{what}: no answer within {seconds} s (hint: another program may hold the GPU; look at nvidia-smi)")]
    TimedOut {
        /// The request.
        what: String,
        /// The limit.
        seconds: u64,
    },
    /// No memory for a buffer of the loader's own.
    #[error("mapping {bytes} bytes of host memory for a GPU measurement (hint: raise the memory limit)")]
    HostMemory {
        /// Bytes wanted.
        bytes: u64,
    },
    /// So little of the GPU's memory is free that half of it is no use.
    #[error(
        "measuring takes at most half of the GPU's free memory, and only {} MiB are free (hint: end other programs on this GPU)",
        free >> 20
    )]
    Crowded {
        /// Free bytes.
        free: u64,
    },
    /// A call of the driver failed.
    #[error("{what}: {} (hint: {})", codes::text(*code), codes::hint(*code))]
    Failed {
        /// The call and its subject.
        what: String,
        /// The `CUresult`.
        code: u32,
    },
}

impl GpuError {
    /// Whether the GPU's context or the loader is lost, so that nothing more can be measured with it.
    pub fn is_fatal(&self) -> bool {
        match self {
            GpuError::Failed { code, .. } => codes::is_fatal(*code),
            GpuError::Crashed { .. } | GpuError::TimedOut { .. } | GpuError::Start(_) => true,
            _ => false,
        }
    }
}

impl From<LoaderError> for GpuError {
    fn from(error: LoaderError) -> GpuError {
        match error {
            LoaderError::Start(reason) => GpuError::Start(reason),
            LoaderError::Library { path, reason } => GpuError::Library { path, reason },
            LoaderError::Symbol { name } => GpuError::Symbol { name },
            LoaderError::Crashed { what, signal } => GpuError::Crashed { what, signal },
            LoaderError::TimedOut { what, seconds } => GpuError::TimedOut { what, seconds },
            LoaderError::Memory { bytes } => GpuError::HostMemory { bytes },
        }
    }
}
