//! A result in the JSON that Bencher (bencher.dev) reads from any harness: benchmarks, their measures, a value with its limits each
//! (Bencher Metric Format).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::result::GateResult;

/// A measured value, with the limits of its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_value: Option<f64>,
}

/// Measures by benchmark.
pub type Report = BTreeMap<String, BTreeMap<&'static str, Metric>>;

/// The report on `result` as the benchmark `name`. Cycles that were not modelled are left out.
pub fn report(result: &GateResult, name: &str) -> Report {
    let exact = |value: f64| Metric { value, lower_value: None, upper_value: None };
    let mut measures = BTreeMap::from([("instructions", exact(result.instructions as f64))]);
    if let Some(cycles) = result.cycles {
        let limit = |sign: f64| cycles.error.map(|error| cycles.value + sign * error);
        let metric = Metric { value: cycles.value, lower_value: limit(-1.0), upper_value: limit(1.0) };
        measures.insert("modelled-cycles", metric);
    }
    BTreeMap::from([(name.to_owned(), measures)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::pair;

    #[test]
    fn a_report_has_the_shape_that_bencher_documents() {
        let (base, _) = pair();
        let json = serde_json::to_value(report(&base, "walk 1")).unwrap();
        let expected = serde_json::json!({
            "walk 1": {
                "instructions": { "value": 1_000_500.0 },
                "modelled-cycles": { "value": 3e6, "lower_value": 2.97e6, "upper_value": 3.03e6 },
            }
        });
        assert_eq!(json, expected);
        let unmodelled = GateResult { cycles: None, ..base };
        assert!(!report(&unmodelled, "x")["x"].contains_key("modelled-cycles"));
    }
}
