//! The sources of a function's figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The source of a figure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Source {
    /// `sampled`, `counted`, `simulated`, `pmu`, `not measured`.
    pub how: String,
    /// Relative error, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Why it is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Source {
    /// Of a figure that is null, and why.
    pub fn not_measured(reason: impl Into<String>) -> Self {
        Source { how: "not measured".into(), error: None, reason: Some(reason.into()) }
    }
}

/// Figures with their sources.
#[derive(Debug)]
pub struct Figures<'a> {
    /// Source by figure.
    pub source: &'a BTreeMap<String, Source>,
    /// Known values by figure.
    pub values: BTreeMap<&'static str, f64>,
}

/// The sources of the sums of two parts' figures. Errors of estimates may have one cause: they add up. A figure missing in one part
/// is missing in the sum, with the reason.
pub fn joined(a: &Figures<'_>, b: &Figures<'_>) -> BTreeMap<String, Source> {
    let one = |name: &String| {
        let [of_a, of_b] = [a, b].map(|part| (part.source.get(name), part.values.get(&**name).copied().unwrap_or(0.0)));
        let missing = [of_a.0, of_b.0].into_iter().flatten().find(|source| source.reason.is_some());
        let first = of_a.0.or(of_b.0)?;
        if let Some(missing) = missing {
            return Some((name.clone(), missing.clone()));
        }
        let half = |(source, value): (Option<&Source>, f64)| match source {
            Some(source) => source.error.map(|error| error * value),
            None => Some(0.0),
        };
        let sum = of_a.1 + of_b.1;
        let error = half(of_a).zip(half(of_b)).map(|(a, b)| a + b).filter(|_| sum > 0.0).map(|half| half / sum);
        Some((name.clone(), Source { how: first.how.clone(), error, reason: None }))
    };
    a.source.keys().chain(b.source.keys()).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_parts_add_up_and_what_is_missing_stays_missing() {
        let part = |value: f64, error: Option<f64>, reason: Option<&str>| {
            let source = Source { how: "estimated".into(), error, reason: reason.map(Into::into) };
            (BTreeMap::from([("calls".to_owned(), source)]), BTreeMap::from([("calls", value)]))
        };
        let sum = |(a, of_a): &(BTreeMap<_, _>, BTreeMap<_, _>), (b, of_b): &(BTreeMap<_, _>, BTreeMap<_, _>)| {
            let figures = |source, values: &BTreeMap<_, _>| Figures { source, values: values.clone() };
            joined(&figures(a, of_a), &figures(b, of_b)).remove("calls").unwrap()
        };
        let (tenth, fifth) = (part(100.0, Some(0.1), None), part(300.0, Some(0.2), None));
        assert_eq!(sum(&tenth, &fifth).error, Some(70.0 / 400.0));
        assert_eq!(sum(&tenth, &part(5.0, None, None)).error, None);
        assert_eq!(sum(&tenth, &part(0.0, None, Some("no window met it"))).reason.as_deref(), Some("no window met it"));
        let counted = (BTreeMap::new(), BTreeMap::from([("calls", 300.0)]));
        assert_eq!(sum(&tenth, &counted).error, Some(10.0 / 400.0), "a counted part has none");
    }
}
