//! One figure before and after: whether it changed by more than the error of both readings.

use super::figure::Figure;
use super::reading::Reading;

/// A figure in both profiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference<'p> {
    pub figure: Figure,
    pub old: Reading<'p>,
    pub new: Reading<'p>,
    /// Relative error that is between the profiles and in neither of them: of the ceilings of two machines.
    pub between: f64,
}

/// Whether a figure changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// By no more than its interval; an exact figure, not at all.
    Unchanged,
    Grew,
    Fell,
    /// The profiles do not say.
    Unknown(Unknown),
}

/// Why the profiles do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// One of them or both did not measure it.
    NotMeasured,
    /// An error is not known.
    NoInterval,
    /// A part was counted, and the whole may have changed either way.
    Part,
}

impl Unknown {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Unknown::NotMeasured => "not measured",
            Unknown::NoInterval => "its error is not known",
            Unknown::Part => "only a part was counted",
        }
    }
}

impl Difference<'_> {
    /// Whether it changed.
    pub fn outcome(&self) -> Outcome {
        use Reading::{AtLeast, Exact, Missing, NoInterval};
        match (self.old, self.new) {
            (Missing(_), _) | (_, Missing(_)) => Outcome::Unknown(Unknown::NotMeasured),
            (Exact(old), Exact(new)) => match old.cmp(&new) {
                std::cmp::Ordering::Equal => Outcome::Unchanged,
                std::cmp::Ordering::Less => Outcome::Grew,
                std::cmp::Ordering::Greater => Outcome::Fell,
            },
            (AtLeast(part), other) => match other.interval() {
                Some((value, half)) if value + half < part as f64 => Outcome::Fell,
                _ => Outcome::Unknown(Unknown::Part),
            },
            (other, AtLeast(part)) => match other.interval() {
                Some((value, half)) if value + half < part as f64 => Outcome::Grew,
                _ => Outcome::Unknown(Unknown::Part),
            },
            (NoInterval(0.0), NoInterval(0.0)) => Outcome::Unchanged,
            (NoInterval(_), _) | (_, NoInterval(_)) => Outcome::Unknown(Unknown::NoInterval),
            _ => match (self.absolute(), self.half()) {
                (Some(by), Some(half)) if by.abs() <= half => Outcome::Unchanged,
                (Some(by), Some(_)) if by > 0.0 => Outcome::Grew,
                (Some(_), Some(_)) => Outcome::Fell,
                _ => Outcome::Unknown(Unknown::NoInterval),
            },
        }
    }

    /// Whether it grew or fell.
    pub fn is_changed(&self) -> bool {
        matches!(self.outcome(), Outcome::Grew | Outcome::Fell)
    }

    /// after − before; a figure that was not seen is 0. `None` if one of them is not known.
    pub fn absolute(&self) -> Option<f64> {
        let seen = |reading: Reading<'_>| reading.value().or(reading.interval().map(|(value, _)| value));
        Some(seen(self.new)? - seen(self.old)?)
    }

    /// (after − before) / before; `None` if that was nothing or is not known.
    pub fn relative(&self) -> Option<f64> {
        let old = self.old.value().filter(|value| *value > 0.0)?;
        Some(self.absolute()? / old)
    }

    /// Half width of the 95 % interval of [`Difference::absolute`]: that of two independent errors.
    pub fn half(&self) -> Option<f64> {
        let ((old, half_old), (new, half_new)) = (self.old.interval()?, self.new.interval()?);
        Some(half_old.hypot(half_new).hypot(self.between * old.max(new)))
    }

    /// Whether both are exact.
    pub fn is_exact(&self) -> bool {
        matches!((self.old, self.new), (Reading::Exact(_), Reading::Exact(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::Reading::{AtLeast, AtMost, Exact, Missing, NoInterval, Within};
    use super::*;

    fn between<'p>(old: Reading<'p>, new: Reading<'p>) -> Difference<'p> {
        Difference { figure: Figure::Time, old, new, between: 0.0 }
    }

    #[test]
    fn noise_is_no_change_and_exact_figures_have_none() {
        let within = |value, half| Within { value, half };
        let noise = between(within(1.0, 0.03), within(1.04, 0.04));
        assert_eq!(noise.outcome(), Outcome::Unchanged);
        assert!((noise.half().unwrap() - 0.05).abs() < 1e-12 && (noise.relative().unwrap() - 0.04).abs() < 1e-12);
        assert_eq!(between(within(1.0, 0.03), within(1.06, 0.04)).outcome(), Outcome::Grew);
        assert_eq!(between(within(1.0, 0.03), within(0.94, 0.04)).outcome(), Outcome::Fell);
        let two_machines = Difference { between: 0.1, ..between(within(1.0, 0.03), within(1.06, 0.04)) };
        assert_eq!(two_machines.outcome(), Outcome::Unchanged);
        let large = u64::MAX - 1;
        assert_eq!(between(Exact(large), Exact(large)).outcome(), Outcome::Unchanged);
        assert_eq!(between(Exact(large), Exact(large + 1)).outcome(), Outcome::Grew, "beyond what an f64 tells apart");
        assert_eq!(between(Exact(100), within(104.0, 5.0)).outcome(), Outcome::Unchanged);
    }

    #[test]
    fn what_is_not_known_is_neither_changed_nor_unchanged() {
        let unknown = |old, new, why| assert_eq!(between(old, new).outcome(), Outcome::Unknown(why));
        unknown(Missing("no pass"), Exact(7), Unknown::NotMeasured);
        unknown(NoInterval(1.0), Exact(7), Unknown::NoInterval);
        unknown(AtLeast(5), Exact(7), Unknown::Part);
        unknown(AtLeast(5), AtLeast(5), Unknown::Part);
        assert_eq!(between(AtLeast(8), Exact(7)).outcome(), Outcome::Fell, "it was at least 8");
        assert_eq!(between(Exact(7), AtLeast(8)).outcome(), Outcome::Grew);
        assert_eq!(between(Missing("no pass"), Exact(7)).absolute(), None);
    }

    #[test]
    fn a_function_without_a_sample_changed_if_the_other_profile_has_more_than_its_limit() {
        assert_eq!(between(AtMost(0.03), Within { value: 0.02, half: 0.02 }).outcome(), Outcome::Unchanged);
        let seen = between(AtMost(0.03), Within { value: 0.5, half: 0.02 });
        assert_eq!((seen.outcome(), seen.relative()), (Outcome::Grew, None));
        assert_eq!(between(AtMost(0.03), AtMost(0.01)).outcome(), Outcome::Unchanged);
    }
}
