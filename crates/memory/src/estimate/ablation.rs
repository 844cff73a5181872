//! Estimators of the sampled model that can be left out one at a time, to see what each is worth (`examples/tools/memory_ablation.rs`).

/// An estimator that improves figures of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimator {
    /// L2 and the last level once more, indexed by the frames of pages (`hierarchy/physical_index.rs`).
    Frames,
    /// Conflicts in L2 that bursts see (`hierarchy/burst.rs`).
    BurstConflicts,
    /// Write-backs by the stays of lines in the caches (`hierarchy/writebacks.rs`); without: those that windows saw.
    Stays,
    /// Limits of compulsory misses by the pages that arrive (`sampling/page_arrivals.rs`).
    PageArrivals,
    /// Weights of windows (`estimate/window_weights.rs`); without: all windows count alike, and errors come from the opening.
    WindowWeights,
    /// L1 events outside of bursts by regression (`estimate/control_variate.rs`); without: from bursts alone.
    Regression,
}

impl Estimator {
    /// All of them.
    pub const ALL: [Estimator; 6] = [
        Estimator::Frames,
        Estimator::BurstConflicts,
        Estimator::Stays,
        Estimator::PageArrivals,
        Estimator::WindowWeights,
        Estimator::Regression,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Estimator::Frames => "frames",
            Estimator::BurstConflicts => "conflicts",
            Estimator::Stays => "stays",
            Estimator::PageArrivals => "arrivals",
            Estimator::WindowWeights => "weights",
            Estimator::Regression => "regression",
        }
    }
}
