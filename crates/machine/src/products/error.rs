//! Errors of measuring products.

use crate::loader::LoaderError;

/// Each is one line: the operation, its subject, the remedy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProductError {
    /// No library could be loaded.
    #[error("no BLAS could be loaded: {0} (hint: name one with --blas PATH)")]
    NoLibrary(String),
    /// The loader failed.
    #[error("{0} (hint: try another library with --blas PATH)")]
    Loader(#[from] LoaderError),
    /// The operands do not fit.
    #[error(
        "a product of {shape} needs {bytes} bytes for its operands, more than the {limit} that are measured (hint: leave this layer out)"
    )]
    TooLarge {
        /// The shape.
        shape: String,
        /// The missing thing.
        bytes: u128,
        /// The limit.
        limit: u64,
    },
}
