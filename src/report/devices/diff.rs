//! Kernels of two profiles side by side.

use std::collections::BTreeSet;

use crate::profile::Profile;
use crate::profile::device::{Devices, Kernel};
use crate::report::name;
use crate::report::number::seconds;
use crate::report::regions::{self, Rows};

/// Kernels that are listed at most.
const ROWS: usize = 20;

/// Seconds of the kernels before and after, greatest difference first; empty where no profile has any. Kernels are the same if
/// their symbols are: GPUs are added up.
pub fn changes(old: &Profile, new: &Profile, width: usize) -> String {
    let (old, new) = (of(&old.devices), of(&new.devices));
    let symbols: BTreeSet<&str> = old.iter().chain(new).map(|k| k.symbol.as_str()).collect();
    let mut all: Vec<(&str, Option<f64>, Option<f64>)> =
        symbols.into_iter().map(|symbol| (named(symbol, new, old), time(symbol, old), time(symbol, new))).collect();
    let difference = |row: &(&str, Option<f64>, Option<f64>)| row.2.unwrap_or(0.0) - row.1.unwrap_or(0.0);
    all.sort_by(|a, b| difference(b).abs().total_cmp(&difference(a).abs()));
    if all.is_empty() {
        return String::new();
    }
    let cell = |time: Option<f64>| time.map_or("–".into(), seconds);
    let rows = all.iter().take(ROWS).map(|(name, before, after)| {
        let ratio = before.filter(|s| *s > 0.0).zip(*after).map(|(before, after)| format!("{:.2}", after / before));
        vec![name::shorten(name, (width / 2).clamp(20, 70)), cell(*before), cell(*after), ratio.unwrap_or("–".into())]
    });
    let notes = if all.len() > ROWS { vec![format!("… and {} kernels more", all.len() - ROWS)] } else { Vec::new() };
    let rows = Rows {
        title: "Kernels of the GPUs".into(),
        titles: vec!["kernel", "before", "after", "after / before"],
        rows: rows.collect(),
        words: Vec::new(),
        notes,
    };
    regions::text(&rows, width)
}

fn of(devices: &Option<Devices>) -> &[Kernel] {
    devices.as_ref().map_or(&[], |devices| &devices.kernels)
}

fn named<'a>(symbol: &'a str, new: &'a [Kernel], old: &'a [Kernel]) -> &'a str {
    new.iter().chain(old).find(|k| k.symbol == symbol).map_or(symbol, |k| &k.name)
}

fn time(symbol: &str, kernels: &[Kernel]) -> Option<f64> {
    kernels.iter().filter(|k| k.symbol == symbol).map(|k| k.seconds).reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roofline::device::example;

    #[test]
    fn kernels_have_both_times_and_their_ratio() {
        let profile = |kernels| {
            let mut profile = crate::report::tests::sample::profile();
            profile.devices = Some(Devices { kernels, ..Devices::default() });
            profile
        };
        let slower = Kernel { seconds: 2.0 * example::triad().seconds, ..example::triad() };
        let text = changes(
            &profile(vec![example::triad(), example::small()]),
            &profile(vec![slower, example::fp64_fma()]),
            80,
        );
        let row = |name: &str| {
            let line = text.lines().find(|l| l.contains(name)).unwrap_or_else(|| panic!("{name}: {text}"));
            line.split_whitespace().rev().take(3).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("triad"), "2.00 µs 792", "{text}");
        assert_eq!(row("fp64_fma"), "– µs 211", "{text}");
        assert!(row("elementwise").starts_with("– –") && text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert_eq!(changes(&crate::report::tests::sample::profile(), &crate::report::tests::sample::profile(), 80), "");
    }
}
