//! Errors of reading and predicting layers.

use std::io;
use std::path::PathBuf;

use rprof_machine::products::ProductError;

/// Each is one line: the operation, its subject, the remedy.
#[derive(Debug, thiserror::Error)]
pub enum LayersError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no table of layers.
    #[error("{}: {reason} (hint: layers = [{{ name = \"fc1\", gemm = [128, 50, 784] }}, {{ relu = 6400 }}])", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// It is no ONNX model, or one that is not understood.
    #[error("{}: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// The fault and its remedy.
        reason: String,
    },
    /// The profile has no products.
    #[error(
        "the profile has no matrix products (hint: profile with --passes both; products of libraries without BLAS's symbols are not seen)"
    )]
    NoProducts,
    /// An axis that is none of the input's.
    #[error("--axis {name}: {reason}")]
    Axis {
        /// Its name.
        name: String,
        /// Why it cannot be given, and what can.
        reason: String,
    },
    /// Nothing to scale.
    #[error("--scale batch={batch}: {reason}")]
    Scale {
        /// The batch asked for.
        batch: u64,
        /// The reason and the remedy.
        reason: String,
    },
    /// Nothing is left to predict.
    #[error("no layer can be predicted{}", if .0.is_empty() { String::new() } else { format!(": {}", .0.join("; ")) })]
    Nothing(Vec<String>),
    /// A product could not be measured.
    #[error("layer {layer}: {source}")]
    Measure {
        /// Which layer.
        layer: String,
        /// Why.
        source: ProductError,
    },
    /// The library could not be loaded.
    #[error(transparent)]
    Library(#[from] ProductError),
}
