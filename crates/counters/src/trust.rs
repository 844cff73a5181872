//! The trust certificate: before a counter is believed, kernels with known operations and bytes run through it.
//!
//! ```text
//!  for each kernel with known work:   ratio = counted / known
//!  all ratios 1 within the tolerance            → trusted
//!  all the same, but not 1                      → corrected: divided by the ratio
//!  differing, or counts where there is nothing  → refuted: not used
//!  refused, no kernel exercises it, or known too badly → not checked, with the reason
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use super::count::Count;
use super::table::{Event, UncoreEvent};

/// A counter may be off by this much and still be right: start and stop of the counting cost a few instructions.
const EXACT: f64 = 0.001;
/// Ratios of different kernels that agree this well are one constant factor.
const CONSTANT: f64 = 0.02;
/// A share of the kernel's work that may appear in a counter of another quantity.
const STRAY: f64 = 0.001;

/// A count or an expectation that is known no better than this proves nothing.
const LOOSE: f64 = 0.15;

/// Work that is known before it runs. `machine` offers such kernels; `session` hands them over.
pub trait KnownWork {
    /// For the record.
    fn name(&self) -> &str;
    /// The count that `event` must give, in the unit of its role (FLOPs, instructions, lines); `None` if this kernel does not
    /// exercise it.
    fn expected(&self, event: &Event) -> Option<f64>;
    /// The bytes that all boxes of `event` must count; `None` if this kernel gives no expectation for it.
    fn expected_bytes(&self, event: &UncoreEvent) -> Option<f64> {
        let _ = event;
        None
    }
    /// Relative error of the expected count: how much caches may keep or the hardware may add.
    fn tolerance(&self) -> f64 {
        0.0
    }
    /// All operations that it does, the scale for stray counts.
    fn operations(&self) -> f64;
    /// Prepares the parts that need not be counted (touches memory first).
    fn prepare(&mut self) {}
    /// Does the work once.
    fn run(&mut self);
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Kernel.
    pub kernel: String,
    /// The expected count.
    pub expected: f64,
    /// The raw count × the event's weight.
    pub counted: f64,
    /// Relative error of the count itself (multiplexing) and of the expectation.
    pub error: f64,
}

/// The consequence for the event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Right as it is.
    Trusted,
    /// Off by a constant factor; rprof divides by it.
    Corrected {
        /// counted / known.
        ratio: f64,
    },
    /// Wrong, and not by a constant factor.
    Refuted {
        /// The finding.
        found: String,
    },
    /// This host could not check it.
    NotChecked {
        /// Why.
        why: String,
    },
}

/// An event's certificate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Event name.
    pub event: String,
    /// PMU.
    pub pmu: String,
    /// The consequence.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The comparisons that it is based on.
    pub comparisons: Vec<Comparison>,
}

/// Compares a count with the known work.
pub fn compare(kernel: &dyn KnownWork, event: &Event, count: Count) -> Option<Comparison> {
    let expected = kernel.expected(event)?;
    let (counted, error) = (count.value * event.weight, count.error.hypot(kernel.tolerance()));
    Some(Comparison { kernel: kernel.name().to_owned(), expected, counted, error })
}

/// The verdict on comparisons of kernels that did at least `operations` each. It ignores work that is known too
/// imprecisely.
pub fn judge(comparisons: &[Comparison], operations: f64) -> Verdict {
    let (firm, loose): (Vec<_>, Vec<_>) = comparisons.iter().partition(|c| c.error <= LOOSE);
    let (zero, positive): (Vec<_>, Vec<_>) = firm.into_iter().partition(|c| c.expected == 0.0);
    if let Some(stray) = zero.iter().find(|c| c.counted > STRAY.max(c.error) * operations) {
        return Verdict::Refuted {
            found: format!("{} has no such work, it counted {:.0}", stray.kernel, stray.counted),
        };
    }
    let ratio = |c: &&Comparison| c.counted / c.expected;
    let least = positive.iter().map(ratio).reduce(f64::min);
    let (Some(least), Some(most)) = (least, positive.iter().map(ratio).reduce(f64::max)) else {
        return Verdict::NotChecked { why: unproven(&loose) };
    };
    if positive.iter().all(|c| (ratio(c) - 1.0).abs() <= EXACT + c.error) {
        return Verdict::Trusted;
    }
    let slack = positive.iter().map(|c| c.error).fold(0.0, f64::max);
    let constant = least > 0.0 && most / least <= 1.0 + CONSTANT + slack;
    // one kernel alone shows a factor, not that it is constant
    if constant && positive.len() > 1 {
        return Verdict::Corrected { ratio: positive.iter().map(ratio).sum::<f64>() / positive.len() as f64 };
    }
    Verdict::Refuted { found: format!("counted / known is {least:.3} to {most:.3} over {} kernels", positive.len()) }
}

fn unproven(loose: &[&Comparison]) -> String {
    match loose.iter().filter(|c| c.expected > 0.0).map(|c| c.error).reduce(f64::min) {
        Some(error) => format!("its counts, or the reference counts, are known to ± {:.0} % only", 100.0 * error),
        None => "no kernel of this host exercises it".into(),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Trusted => write!(f, "trusted"),
            Verdict::Corrected { ratio } => write!(f, "counts × {ratio:.3}, corrected"),
            Verdict::Refuted { found } => write!(f, "refuted: {found}"),
            Verdict::NotChecked { why } => write!(f, "not checked: {why}"),
        }
    }
}

impl Verdict {
    /// Whether figures may rest on the event, corrected or as it is.
    pub fn is_certified(&self) -> bool {
        matches!(self, Verdict::Trusted | Verdict::Corrected { .. })
    }

    /// Counts are divided by it: the ratio of a corrected event, 1 for any other.
    pub fn divisor(&self) -> f64 {
        if let Verdict::Corrected { ratio } = self { *ratio } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(expected: f64, counted: f64) -> Comparison {
        Comparison { kernel: format!("k{expected}"), expected, counted, error: 0.0 }
    }

    #[test]
    fn verdicts() {
        let judge =
            |pairs: &[(f64, f64)]| judge(&pairs.iter().map(|(e, c)| comparison(*e, *c)).collect::<Vec<_>>(), 1e6);
        assert_eq!(judge(&[(1e6, 1.0005e6), (2e6, 2e6)]), Verdict::Trusted);
        assert_eq!(judge(&[(1e6, 2e6), (2e6, 4.0e6)]), Verdict::Corrected { ratio: 2.0 });
        assert!(matches!(judge(&[(1e6, 2e6)]), Verdict::Refuted { .. }), "one kernel shows no constant");
        assert!(matches!(judge(&[(1e6, 1e6), (2e6, 1e6)]), Verdict::Refuted { .. }));
        assert!(matches!(judge(&[(1e6, 1e6), (0.0, 1e5)]), Verdict::Refuted { .. }), "stray counts");
        assert!(matches!(judge(&[(1e6, 0.0)]), Verdict::Refuted { .. }), "a dead counter is not 0 FLOPs");
        assert!(matches!(judge(&[]), Verdict::NotChecked { .. }));
        assert!(matches!(judge(&[(0.0, 0.0)]), Verdict::NotChecked { .. }));
    }

    #[test]
    fn wildly_scaled_counts_prove_nothing() {
        let scaled = |counted, error| Comparison { error, ..comparison(1e6, counted) };
        let wild = judge(&[scaled(0.75e6, 0.3), scaled(1.25e6, 0.3)], 1e6);
        assert!(matches!(&wild, Verdict::NotChecked { why } if why.contains("± 30 %")), "{wild:?}");
        let beside = judge(&[scaled(0.75e6, 0.3), scaled(1e6, 0.0)], 1e6);
        assert_eq!(beside, Verdict::Trusted, "the firm one decides");
        let own = judge(&[scaled(1.09e6, 0.1), scaled(1.09e6, 0.0)], 1e6);
        assert_eq!(own, Verdict::Corrected { ratio: 1.09 }, "each is held to its own error");
        let stray = Comparison { error: 0.5, ..comparison(0.0, 4e5) };
        assert_eq!(judge(&[stray, comparison(1e6, 1e6)], 1e6), Verdict::Trusted);
    }

    #[test]
    fn only_corrected_counts_are_divided() {
        assert_eq!(Verdict::Corrected { ratio: 2.0 }.divisor(), 2.0);
        assert_eq!(Verdict::Trusted.divisor(), 1.0);
    }
}
