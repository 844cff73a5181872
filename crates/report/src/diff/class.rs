//! The class of a function before and after.

use rprof_profile::Function;
use rprof_profile::confidence::Level;

/// Relative half-width of a function's time above which its class is as likely another: a few samples.
const FEW_SAMPLES: f64 = 0.5;

/// A class, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class<'p> {
    /// `None`: not counted, or `unknown`.
    pub name: Option<&'p str>,
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

impl<'p> Class<'p> {
    /// Of a function; of one that is not there, none.
    pub fn of(f: Option<&'p Function>) -> Class<'p> {
        let name = f.and_then(|f| f.analysis.class.as_deref()).filter(|name| *name != "unknown");
        let level = f.and_then(|f| f.analysis.confidence.as_ref()).map(|confidence| confidence.level);
        let few = f.and_then(|f| Some(f.time_ci95_s? > FEW_SAMPLES * f.time_s?)).unwrap_or(false);
        let level = if few { Some(Level::Low) } else { level };
        Class { name, level: level.filter(|_| name.is_some()) }
    }

    /// Whether no other class is as likely.
    pub fn is_sure(&self) -> bool {
        self.name.is_some() && self.level != Some(Level::Low)
    }

    /// `dram-bandwidth`, `simd (low)`, `–`.
    pub fn words(&self) -> String {
        match (self.name, self.level) {
            (Some(name), Some(Level::Low)) => format!("{name} (low)"),
            (Some(name), _) => name.to_owned(),
            (None, _) => "–".to_owned(),
        }
    }
}

/// Whether the class changed from `old` to `new`.
pub fn outcome(old: Class<'_>, new: Class<'_>) -> ClassOutcome {
    match (old.name, new.name) {
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
        let class = |name, level| Class { name: Some(name), level };
        let sure = class("simd", Some(Level::High));
        assert_eq!(outcome(sure, class("ilp", Some(Level::Medium))), ClassOutcome::Changed);
        assert_eq!(outcome(sure, class("ilp", Some(Level::Low))), ClassOutcome::Doubtful);
        assert_eq!(outcome(sure, class("simd", Some(Level::Low))), ClassOutcome::Same);
        assert_eq!(outcome(sure, Class::of(None)), ClassOutcome::Unknown);
        let mut f = Function { time_s: Some(1.0), time_ci95_s: Some(0.2), ..Function::default() };
        f.analysis.class = Some("ilp".into());
        assert_eq!(outcome(sure, Class::of(Some(&f))), ClassOutcome::Changed);
        f.time_ci95_s = Some(0.9);
        assert_eq!(outcome(sure, Class::of(Some(&f))), ClassOutcome::Doubtful, "one sample");
    }
}
