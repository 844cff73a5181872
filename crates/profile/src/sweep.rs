//! A measured curve of the host or of a GPU.

use serde::{Deserialize, Serialize};

/// A measured curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Its name, for instance `workingset.read`.
    pub id: String,
    /// Unit of x.
    pub x_unit: String,
    /// Unit of y.
    pub y_unit: String,
    /// Threads.
    pub threads: u32,
    /// Points in ascending x.
    pub points: Vec<(f64, f64)>,
}

impl Sweep {
    /// y at `x`, linear in log x between the points; the outermost point's outside them, `None` without any.
    pub fn at(&self, x: f64) -> Option<f64> {
        let points = &self.points;
        let after = points.partition_point(|point| point.0 < x);
        let (Some(low), Some(high)) = (points.get(after.wrapping_sub(1)), points.get(after)) else {
            return points.get(after.min(points.len().checked_sub(1)?)).map(|point| point.1);
        };
        let part = (x / low.0).ln() / (high.0 / low.0).ln();
        Some(low.1 + part * (high.1 - low.1))
    }
}
