//! The class of a function before and after.

use rprof_profile::Function;
use rprof_profile::confidence::Level;
use rprof_profile::vocabulary::Class;

/// Relative half-width of a function's time above which its class is as likely another: a few samples.
const FEW_SAMPLES: f64 = 0.5;

/// What holds a function, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// `None`: not counted, or `unknown`.
    pub class: Option<Class>,
    pub level: Option<Level>,
}

/// Whether a function is held by something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassOutcome {
    Same,
    Changed,
    /// They differ, but another class is as likely for one of them.
    Doubtful,
    /// One of them has none.
    Unknown,
}

impl Held {
    /// Of a function; of one that is not there, none.
    pub fn of(f: Option<&Function>) -> Held {
        let class = f.and_then(|f| f.analysis.class).filter(|class| class.is_known());
        let level = f.and_then(|f| f.analysis.confidence.as_ref()).map(|confidence| confidence.level);
        let few = f.and_then(|f| Some(f.time_ci95_s? > FEW_SAMPLES * f.time_s?)).unwrap_or(false);
        let level = if few { Some(Level::Low) } else { level };
        Held { class, level: level.filter(|_| class.is_some()) }
    }

    /// Whether no other class is as likely.
    pub fn is_sure(&self) -> bool {
        self.class.is_some() && self.level != Some(Level::Low)
    }

    /// `dram-bandwidth`, `simd (low)`, `–`.
    pub fn words(&self) -> String {
        match (self.class, self.level) {
            (Some(class), Some(Level::Low)) => format!("{class} (low)"),
            (Some(class), _) => class.name().to_owned(),
            (None, _) => "–".to_owned(),
        }
    }
}

/// Whether the class changed from `old` to `new`.
pub fn outcome(old: Held, new: Held) -> ClassOutcome {
    match (old.class, new.class) {
        (Some(a), Some(b)) if a == b => ClassOutcome::Same,
        (Some(_), Some(_)) if old.is_sure() && new.is_sure() => ClassOutcome::Changed,
        (Some(_), Some(_)) => ClassOutcome::Doubtful,
        _ => ClassOutcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_is_as_likely_another_one_is_no_change() {
        let class = |class, level| Held { class: Some(class), level };
        let sure = class(Class::Simd, Some(Level::High));
        assert_eq!(outcome(sure, class(Class::Ilp, Some(Level::Medium))), ClassOutcome::Changed);
        assert_eq!(outcome(sure, class(Class::Ilp, Some(Level::Low))), ClassOutcome::Doubtful);
        assert_eq!(outcome(sure, class(Class::Simd, Some(Level::Low))), ClassOutcome::Same);
        assert_eq!(outcome(sure, Held::of(None)), ClassOutcome::Unknown);
        let mut f = Function { time_s: Some(1.0), time_ci95_s: Some(0.2), ..Function::default() };
        f.analysis.class = Some(Class::Ilp);
        assert_eq!(outcome(sure, Held::of(Some(&f))), ClassOutcome::Changed);
        f.time_ci95_s = Some(0.9);
        assert_eq!(outcome(sure, Held::of(Some(&f))), ClassOutcome::Doubtful, "one sample");
    }
}
