//! A network as its layers, and the time of each: the layer model, with every figure measured at the layer's own shape.
//!
//! ```text
//!  profile.json ─ from_profile ─┐
//!  net.toml ───── table ────────┼─▶ Network ─ scale ─▶ predict (machine::products) ─▶ Prediction ─▶ text
//!  model.onnx ─── onnx ─────────┘
//! ```

mod error;
mod from_profile;
mod onnx;
mod predict;
mod scale;
mod table;
pub mod text;

use std::path::Path;

use rprof_machine::products::elementwise::Operation;
use rprof_profile::blas::Dimensions;

pub use error::LayersError;
pub use from_profile::network as of_profile;
pub use predict::{LayerPrediction, Prediction, Settings, predict};
pub use scale::{BatchDimension, Scale, scale};

/// The work of a layer, of one call.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// A matrix product.
    Product(Dimensions),
    /// An operation on each element of an array.
    Elementwise(Operation, u64),
}

/// A layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Its name: of its input file, or the call and the caller.
    pub name: String,
    /// Its work.
    pub work: Work,
    /// Calls in a run of the whole.
    pub calls: u64,
    /// Seconds of a call as the profile saw it; `None`: not from a profile.
    pub seen_s: Option<f64>,
}

/// A network, or the products of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Network {
    /// In order.
    pub layers: Vec<Layer>,
    /// Items that pass at once, if that is known.
    pub batch: Option<u64>,
    /// The batch is in shapes and in numbers of calls, by a dimension of a model: only reading it again gives another.
    pub has_fixed_batch: bool,
    /// Layers that are not predicted, and why.
    pub left_out: Vec<String>,
    /// Paths of the library to measure with; empty: the usual ones.
    pub libraries: Vec<String>,
    /// Threads of the library; `None`: as it does by itself.
    pub threads: Option<u32>,
}

impl Network {
    /// Bytes that all layers use, each once.
    pub fn footprint(&self) -> u64 {
        let bytes = |layer: &Layer| match &layer.work {
            Work::Product(shape) => shape.bytes() as u64,
            Work::Elementwise(_, elements) => elements.saturating_mul(8),
        };
        self.layers.iter().map(bytes).fold(0, u64::saturating_add)
    }
}

/// Refuses sizes of free dimensions for `input`, which has none.
///
/// # Errors
/// [`LayersError::Axis`]: there are some.
pub fn without_axes(input: &str, axes: &[(String, u64)]) -> Result<(), LayersError> {
    axes.first().map_or(Ok(()), |(name, _)| {
        let reason = format!("{input} has no free dimensions, only a model (.onnx) does (hint: --scale batch=N)");
        Err(LayersError::Axis { name: name.clone(), reason })
    })
}

/// Reads a table of layers (`.toml`) or a model (`.onnx`); `axes` are the values of its free dimensions.
///
/// # Errors
/// The file cannot be read, or is no such file; an axis is given twice, or fits no free dimension.
pub fn read(path: &Path, axes: &[(String, u64)]) -> Result<Network, LayersError> {
    if let Some((_, (name, _))) = axes.iter().enumerate().find(|(i, (name, _))| axes[..*i].iter().any(|a| a.0 == *name))
    {
        return Err(LayersError::Axis { name: name.clone(), reason: "it is given twice".into() });
    }
    let read = |e| LayersError::Read { path: path.to_owned(), source: e };
    if path.extension().is_some_and(|extension| extension == "onnx") {
        return onnx::network(path, std::fs::read(path).map_err(read)?, axes);
    }
    without_axes("a table of layers", axes)?;
    table::network(path, &std::fs::read_to_string(path).map_err(read)?)
}
