//! Where the figures of a function come from, in few words that many functions share.

use rprof_profile::Function;

/// `counted`, `simulated ± 0.3 %`: of the first of `keys` that was measured, else why the first was not; empty where nothing is said of it.
pub fn words(f: &Function, keys: &[&str]) -> String {
    let all = || keys.iter().filter_map(|key| f.source.get(*key));
    let Some(source) = all().find(|s| s.reason.is_none()).or_else(|| all().next()) else { return String::new() };
    match (source.error, &source.reason) {
        // One digit: thousands of functions share few texts.
        (Some(error), _) if error > 0.0 => format!("{} ± {} %", source.how, two_digits(100.0 * error)),
        (_, Some(reason)) => format!("{}: {}", source.how, crate::name::shorten(reason, 120)),
        _ => source.how.clone(),
    }
}

/// Rounded up, so that no interval gets smaller: to tenths below 2, then to whole numbers.
fn two_digits(percent: f64) -> f64 {
    if percent < 2.0 { (10.0 * percent).ceil() / 10.0 } else { percent.ceil() }
}

/// The precision of most of its FLOPs: `dp` or `sp`; `None` where it has none of these.
pub fn precision(f: &Function) -> Option<&'static str> {
    let flops = f.flops.as_ref()?;
    match (flops.dp + flops.x87, flops.sp) {
        (0, 0) => None,
        (double, single) => Some(if single > double { "sp" } else { "dp" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::source::Source;

    #[test]
    fn the_first_figure_that_was_measured_is_named_with_its_error() {
        let mut f = Function::default();
        assert_eq!(words(&f, &["bytes.dram"]), "");
        let missing = Source::not_measured("no sample");
        f.source.insert("bytes.dram".into(), missing);
        assert_eq!(words(&f, &["bytes.dram", "bytes.l1"]), "not measured: no sample");
        let l1 = Source { how: "simulated".into(), error: Some(0.0131), ..Source::default() };
        f.source.insert("bytes.l1".into(), l1);
        assert_eq!(words(&f, &["bytes.dram", "bytes.l1"]), "simulated ± 1.4 %");
    }
}
