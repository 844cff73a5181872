//! Figures for people.

use rprof_profile::account::Cause;

/// `1.24 G`: three digits, and a prefix of SI.
pub(crate) fn scaled(value: f64) -> String {
    let (factor, prefix) = match value.abs() {
        size if size >= 999.5e9 => (1e12, " T"),
        size if size >= 999.5e6 => (1e9, " G"),
        size if size >= 999.5e3 => (1e6, " M"),
        size if size >= 999.5 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let scaled = value / factor;
    let decimals = match scaled.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$}{prefix}")
}

/// The same with its sign.
pub(crate) fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", scaled(value.abs()))
}

/// `+3.4 %`
pub(crate) fn percent(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{:.1} %", (100.0 * share).abs())
}

/// `l3 +1.20 G, base +20.0 M`
pub(crate) fn causes(changes: &[(Cause, f64)]) -> String {
    let one = |(cause, cycles): &(Cause, f64)| format!("{} {}", cause.name(), signed(*cycles));
    changes.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let texts = [0.0, 7.0, 999.4, 999.6, 12_345.0, 123_456.0, 1.2e9, 9.999e11].map(scaled);
        assert_eq!(texts, ["0.00", "7.00", "999", "1.00 k", "12.3 k", "123 k", "1.20 G", "1.00 T"]);
        assert_eq!([signed(-1500.0), signed(1500.0), percent(-0.0123)], ["−1.50 k", "+1.50 k", "−1.2 %"]);
    }
}
