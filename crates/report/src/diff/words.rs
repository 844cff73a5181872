//! Cells and sentences that all formats share.

use crate::number::{NOT_MEASURED, percent};

use super::difference::{Difference, Outcome};
use super::figure::Figure;
use super::reading::Reading;

/// Text of a function or figure that a profile does not have.
pub const NONE: &str = "–";

/// A reading of `figure`; `≥` for a part, `<` for a limit, `~` without a known error.
pub fn reading(figure: Figure, reading: &Reading<'_>) -> String {
    reading_as(|value| figure.show(value), reading)
}

/// The same of a value that `show` makes text of.
pub fn reading_as(show: impl Fn(f64) -> String, reading: &Reading<'_>) -> String {
    match *reading {
        Reading::Exact(value) => show(value as f64),
        Reading::Within { value, .. } => show(value),
        Reading::NoInterval(value) => format!("~{}", show(value)),
        Reading::AtLeast(value) => format!("≥{}", show(value as f64)),
        Reading::AtMost(limit) => format!("<{}", show(limit)),
        Reading::Missing(_) => NOT_MEASURED.to_owned(),
    }
}

/// `+20 %`; the difference itself if there was nothing before, `?` if it is not known.
pub fn change(d: &Difference<'_>) -> String {
    match (d.outcome(), d.relative(), d.absolute()) {
        (Outcome::Unknown(_), ..) | (_, _, None) => "?".into(),
        (_, Some(share), _) if d.figure == Figure::RoofFraction => {
            let points = 100.0 * share * d.old.value().unwrap_or(0.0);
            format!("{points:+.1} points")
        }
        (_, Some(share), _) => signed(share),
        (_, None, Some(by)) if by > 0.0 => format!("+{}", d.figure.show(by)),
        (_, None, Some(by)) => d.figure.show(by),
    }
}

/// `exact`, `± 3.1 %` of the value before, or the error itself if there was nothing before.
pub fn error(d: &Difference<'_>) -> String {
    match (d.is_exact(), d.half(), d.old.value().filter(|old| *old > 0.0)) {
        (true, ..) => "exact".into(),
        (_, Some(half), Some(_)) if d.figure == Figure::RoofFraction => format!("± {:.1}", 100.0 * half),
        (_, Some(half), Some(old)) => format!("± {}", percent(half / old)),
        (_, Some(half), None) => format!("± {}", d.figure.show(half)),
        (_, None, _) => NONE.into(),
    }
}

/// A relative change with its sign; small ones keep two digits, since exact figures show them.
pub fn signed(share: f64) -> String {
    let p = 100.0 * share;
    match p.abs() {
        0.0 => "0 %".into(),
        size if size >= 9.95 => format!("{p:+.0} %"),
        size if size >= 0.095 => format!("{p:+.1} %"),
        size => {
            let digits = (1.0 - size.log10().floor()).clamp(1.0, 9.0) as usize;
            format!("{p:+.digits$} %")
        }
    }
}

/// `1 function`, `3 functions`.
pub fn several(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_signed_and_small_ones_stay_visible() {
        assert_eq!([0.2, -0.2, 2.4].map(signed), ["+20 %", "-20 %", "+240 %"]);
        assert_eq!([0.031, -0.001].map(signed), ["+3.1 %", "-0.1 %"]);
        assert_eq!([0.0000199, -2e-9, 0.0].map(signed), ["+0.0020 %", "-0.00000020 %", "0 %"]);
    }

    #[test]
    fn cells_say_how_far_a_value_is_known() {
        let d = |old, new| Difference { figure: Figure::Instructions, old, new, between: 0.0 };
        let exact = d(Reading::Exact(1000), Reading::Exact(1200));
        assert_eq!((change(&exact).as_str(), error(&exact).as_str()), ("+20 %", "exact"));
        let first = d(Reading::Exact(0), Reading::Exact(1200));
        assert_eq!(change(&first), "+1.20 k");
        let unknown = d(Reading::Missing("no pass"), Reading::Exact(1200));
        assert_eq!((change(&unknown).as_str(), error(&unknown).as_str()), ("?", "–"));
        let shown = |r| reading(Figure::Time, &r);
        assert_eq!(shown(Reading::AtMost(0.03)), "<30.0 ms");
        assert_eq!(shown(Reading::Missing("no pass")), "not measured");
        let at = |old, new| Difference {
            figure: Figure::RoofFraction,
            old: Reading::Within { value: old, half: 0.02 },
            new: Reading::Within { value: new, half: 0.02 },
            between: 0.0,
        };
        assert_eq!((change(&at(0.95, 0.76)), error(&at(0.95, 0.76))), ("-19.0 points".into(), "± 2.8".into()));
    }
}
