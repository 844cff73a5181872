//! A result or a comparison for a terminal.

use std::fmt::Write as _;

use crate::comparison::{Comparison, Verdict};
use crate::figures::{causes, scaled};
use crate::markdown::{cycles, relative, sentence};
use crate::result::GateResult;

/// Functions that are listed.
const MOST: usize = 12;
/// Columns of a function's name.
const NAME: usize = 36;

/// A result: its functions, with the causes of their cycles.
pub fn result(result: &GateResult) -> String {
    let Some(all) = result.cycles else {
        return format!("{} instructions, too few for a burst: nothing was modelled\n", result.instructions);
    };
    let error = all.error.map_or(String::new(), |error| format!(" ± {:.1} %", 100.0 * error / all.value));
    let mut text = format!(
        "{} cycles{error} on the reference core {}, {} instructions\n",
        scaled(all.value),
        result.conditions.core,
        scaled(result.instructions as f64)
    );
    for function in result.functions.iter().take(MOST) {
        let Some(own) = function.cycles else { continue };
        let mut by_cause: Vec<_> = function.causes.iter().collect();
        by_cause.sort_by(|a, b| b.1.total_cmp(a.1));
        let shares =
            by_cause.iter().take(3).map(|(cause, part)| format!("{} {:.0} %", cause.name(), 100.0 * *part / own.value));
        let _ = writeln!(
            text,
            "  {:NAME$} {:>8} {:>5.1} %  {}",
            shortened(&function.name),
            scaled(own.value),
            100.0 * own.value / all.value,
            shares.collect::<Vec<_>>().join(", ")
        );
    }
    text
}

/// A comparison: one line, and the functions that changed.
pub fn comparison(comparison: &Comparison) -> String {
    let verdict = match comparison.verdict {
        Verdict::Regression => "regression",
        Verdict::Improvement => "improvement",
        Verdict::Unchanged => "unchanged",
        Verdict::WithinError => "unchanged within the error of the model's sampling",
    };
    let mut text = format!("{verdict}: {}\n", sentence(comparison));
    for change in comparison.functions.iter().take(MOST) {
        let _ = writeln!(
            text,
            "  {:NAME$} {:>8} → {:>8} {:>9}  {}",
            shortened(&change.function),
            cycles(change.before),
            cycles(change.after),
            relative(change),
            causes(&change.causes)
        );
    }
    for limit in &comparison.limits {
        let _ = writeln!(text, "  note: {limit}");
    }
    text
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME { name.into() } else { name.chars().take(NAME - 1).chain(['…']).collect() }
}
