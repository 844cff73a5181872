//! Evidence of matrix products: calls of BLAS by call site and shape, as the counted pass saw them.

use serde::{Deserialize, Serialize};

use crate::blas::Dimensions;
use crate::code::CodeRef;

/// The matrix products of a program.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BlasEvidence {
    /// One entry per call site, function and thread.
    pub sites: Vec<BlasSite>,
}

impl BlasEvidence {
    /// Most shapes of a site that are kept apart.
    pub const SHAPES: usize = 64;
}

/// The calls of one function from one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlasSite {
    /// The call instruction's last byte: the return address − 1.
    pub at: CodeRef,
    /// Start of the function.
    pub callee: CodeRef,
    /// Its symbol: `cblas_dgemm`.
    pub function: String,
    /// Index into the counted evidence's threads.
    pub thread: u32,
    /// Calls by shape, the first [`SHAPES`](BlasEvidence::SHAPES) ones.
    pub shapes: Vec<(Dimensions, Calls)>,
    /// Calls of all other shapes.
    pub others: Calls,
}

/// Calls of one shape.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Calls {
    /// Calls.
    pub calls: u64,
    /// Calls with an observed return.
    pub timed: u64,
    /// Seconds from call to return, of those.
    pub time_s: f64,
    /// Median of their seconds: the first call is longer, by its translation.
    pub median_s: Option<f64>,
}
