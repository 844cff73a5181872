//! Errors of reading symbols. None of them ends a run: names fall back to module and offset.

use std::path::PathBuf;

/// Why a file gave no symbols.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The file could not be opened or read.
    #[error("cannot read symbols from {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is not a 64-bit little-endian ELF file.
    #[error("cannot read symbols from {}: {what}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The kind of file that it is instead.
        what: &'static str,
    },
    /// It breaks off or contradicts itself.
    #[error("cannot read {part} of {}: the file is damaged ({detail})", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The part that was read.
        part: String,
        /// How it is damaged.
        detail: String,
    },
    /// It is not the file that ran.
    #[error("{} changed since it ran (build id {found}, then {expected})", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Build id of the module that ran.
        expected: String,
        /// Build id of the file now, or `none`.
        found: String,
    },
    /// It has no build id, and was written since it ran.
    #[error("{} was written since it ran", path.display())]
    Rewritten {
        /// The file.
        path: PathBuf,
    },
}
