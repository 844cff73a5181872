//! A comparison as a comment on a pull request.

use std::fmt::Write as _;

use crate::comparison::{Change, Comparison, Verdict};
use crate::figures::{causes, percent, scaled};
use crate::result::Estimate;

/// Functions that a comment lists.
const MOST: usize = 20;

/// The comparison in Markdown: a sentence, and a table of the functions that changed.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = format!("### {}\n\n{}\n", heading(comparison), sentence(comparison));
    if !comparison.functions.is_empty() {
        text += "\n| function | cause | before | after | change |\n| --- | --- | ---: | ---: | ---: |\n";
        for change in comparison.functions.iter().take(MOST) {
            let _ = writeln!(
                text,
                "| `{}`{} | {} | {} | {} | {} |",
                escaped(&change.function),
                change.module.as_ref().map_or(String::new(), |module| format!(" ({})", escaped(module))),
                causes(&change.causes),
                cycles(change.before),
                cycles(change.after),
                relative(change),
            );
        }
        let more = comparison.functions.len().saturating_sub(MOST);
        if more > 0 {
            let _ = writeln!(text, "\n… and {more} functions with smaller changes.");
        }
    }
    for limit in &comparison.limits {
        let _ = write!(text, "\n> {limit}\n");
    }
    text
}

fn heading(comparison: &Comparison) -> String {
    match comparison.verdict {
        Verdict::Regression => format!("Modelled cycles: {}, a regression", percent(comparison.change)),
        Verdict::Improvement => format!("Modelled cycles: {}, an improvement", percent(comparison.change)),
        Verdict::Unchanged => "Modelled cycles: unchanged".into(),
        Verdict::WithinError => "Modelled cycles: unchanged within the error of the model's sampling".into(),
    }
}

/// The change of the program, with its error and instructions.
pub(crate) fn sentence(comparison: &Comparison) -> String {
    let instructions = comparison.instructions_after as f64 / comparison.instructions_before.max(1) as f64 - 1.0;
    format!(
        "{} → {} cycles on the reference core ({} ± {:.1} %, threshold {} %); {} → {} instructions ({}).",
        scaled(comparison.before.value),
        scaled(comparison.after.value),
        percent(comparison.change),
        100.0 * comparison.error,
        100.0 * comparison.threshold,
        scaled(comparison.instructions_before as f64),
        scaled(comparison.instructions_after as f64),
        percent(instructions),
    )
}

pub(crate) fn cycles(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(|| "–".into(), |estimate| scaled(estimate.value))
}

pub(crate) fn relative(change: &Change) -> String {
    match (change.before, change.after) {
        (None, _) => "new".into(),
        (_, None) => "gone".into(),
        (Some(before), _) => percent(change.cycles / before.value.max(1.0)),
    }
}

/// Text that ends no cell and no code span.
fn escaped(name: &str) -> String {
    name.replace('|', "\\|").replace('`', "'").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::pair;

    #[test]
    fn a_regression_is_a_table_of_functions_and_causes() {
        let (base, mut head) = pair();
        head.functions[2].name = "operator|`".into();
        let comparison = Comparison::new(&base, &head, 0.01).unwrap();
        let expected = "### Modelled cycles: +52.3 %, a regression\n\n\
            3.00 M → 4.57 M cycles on the reference core (+52.3 % ± 1.4 %, threshold 1 %); 1.00 M → 1.00 M instructions (+0.0 %).\n\n\
            | function | cause | before | after | change |\n| --- | --- | ---: | ---: | ---: |\n\
            | `walk` | l3 +1.50 M | 2.00 M | 3.52 M | +76.0 % |\n\
            | `operator\\|'` | mispredict +50.0 k | – | 50.0 k | new |\n";
        assert_eq!(markdown(&comparison), expected);
    }

    #[test]
    fn what_did_not_change_has_no_table() {
        let (base, _) = pair();
        let text = markdown(&Comparison::new(&base, &base, 0.01).unwrap());
        assert!(text.starts_with("### Modelled cycles: unchanged\n") && !text.contains('|'), "{text}");
    }
}
