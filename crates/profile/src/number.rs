//! Numbers for people: three significant digits, SI prefixes, and words for missing values.

/// The text for a value that was not measured.
pub const NOT_MEASURED: &str = "not measured";

/// `1.23 G` style: three significant digits with an SI prefix; the unit is appended, separated by a space.
pub fn si(value: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 9] = [
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "µ"),
        (1e-9, "n"),
    ];
    if value == 0.0 || !value.is_finite() {
        return format!("{value} {unit}").trim_end().to_owned();
    }
    // 999.6 k is 1.00 M.
    let rounded = value.abs() * 1.0005;
    let (scale, prefix) = PREFIXES.into_iter().find(|(s, _)| rounded >= *s).unwrap_or(PREFIXES[8]);
    format!("{} {prefix}{unit}", significant(value / scale)).trim_end().to_owned()
}

/// Three significant digits without exponent, for values from 0.001 to 9999; others in scientific notation.
pub fn significant(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".into(),
        s if !(0.00095..9999.5).contains(&s) => format!("{value:.2e}"),
        s if s >= 99.95 => format!("{value:.0}"),
        s if s >= 9.995 => format!("{value:.1}"),
        s if s >= 0.9995 => format!("{value:.2}"),
        s if s >= 0.09995 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// Seconds with a fitting prefix: `1.24 s`, `85.3 ms`.
pub fn seconds(value: f64) -> String {
    si(value, "s")
}

/// `1.20 s to 1.50 s`, or one figure if both are within 5 %.
pub fn range(least_s: f64, most_s: f64) -> String {
    if most_s > 1.05 * least_s { format!("{} to {}", seconds(least_s), seconds(most_s)) } else { seconds(least_s) }
}

/// A share as `12.3 %`.
pub fn percent(share: f64) -> String {
    let p = 100.0 * share;
    if p.abs() < 9.95 { format!("{p:.1} %") } else { format!("{p:.0} %") }
}

/// `text(value)`, or the words for a missing value.
pub fn or_unmeasured(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NOT_MEASURED.to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_prefix() {
        assert_eq!(si(2.784e11, "FLOP/s"), "278 GFLOP/s");
        assert_eq!(si(999.7e3, "B"), "1.00 MB");
        assert_eq!(si(0.0853, "s"), "85.3 ms");
        assert_eq!(si(12.0, ""), "12.0");
        assert_eq!(si(0.0, "s"), "0 s");
        assert_eq!([range(1.0, 1.04), range(1.0, 1.5)], ["1.00 s", "1.00 s to 1.50 s"]);
    }

    #[test]
    fn small_and_large_stay_readable() {
        assert_eq!(significant(0.08333), "0.0833");
        assert_eq!(significant(0.0), "0");
        assert_eq!(significant(1234.4), "1234");
        assert_eq!(significant(2e7), "2.00e7");
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.999), "100 %");
    }

    #[test]
    fn what_was_not_measured_is_never_zero() {
        assert_eq!(or_unmeasured(None, seconds), "not measured");
    }
}
