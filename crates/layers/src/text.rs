//! A prediction as a table.

use super::predict::{LayerPrediction, Prediction};
use rprof_report::name;
use rprof_report::number::{percent, seconds};
use rprof_report::regions::{Rows, text as rows_text};

/// Layers that are shown at most.
const ROWS: usize = 60;
const NAME_WIDTH: usize = 40;
/// Extrapolated layers that are named at most.
const NAMED: usize = 4;

/// The table, for `width` columns.
pub fn text(prediction: &Prediction, width: usize) -> String {
    let was_seen = prediction.layers.iter().any(|layer| layer.seen_s.is_some());
    let row = |layer: &LayerPrediction| {
        let mut cells = vec![
            name::shorten(&name::printable(&layer.name), NAME_WIDTH),
            layer.work.clone(),
            layer.calls.to_string(),
            seconds(layer.seconds),
            percent(layer.share),
            layer.of_peak.map_or_else(|| "–".into(), percent),
            layer.with_larger_batch.map_or_else(|| "–".into(), |ratio| format!("× {ratio:.2}")),
        ];
        if was_seen {
            cells.insert(4, layer.seen_s.map_or_else(|| "–".into(), seconds));
        }
        cells
    };
    let mut titles = vec!["layer", "shape", "calls", "a call", "share", "of peak", "4 × batch"];
    if was_seen {
        titles.insert(4, "seen");
    }
    let rows = Rows {
        title: title(prediction),
        titles,
        rows: prediction.layers.iter().take(ROWS).map(row).collect(),
        words: vec![0, 1],
        notes: notes(prediction),
    };
    rows_text(&rows, width).trim_start().to_owned()
}

fn title(prediction: &Prediction) -> String {
    let with = prediction.library.as_ref().map_or_else(String::new, |library| {
        let file = library.rsplit('/').next().unwrap_or(library);
        let threads = match prediction.threads {
            Some(1) => ", one thread".into(),
            Some(threads) => format!(", {threads} threads"),
            None => String::new(),
        };
        format!("; products measured with {file}{threads}")
    });
    format!("Predicted: {} for all layers{with}", seconds(prediction.seconds))
}

fn notes(prediction: &Prediction) -> Vec<String> {
    let mut notes = Vec::new();
    if prediction.layers.len() > ROWS {
        notes.push(format!("… and {} more layers (--json)", prediction.layers.len() - ROWS));
    }
    if let [(_, own), larger @ ..] = &prediction.by_batch[..]
        && !larger.is_empty()
    {
        let with = |(batch, s): &(u64, f64)| format!("× {:.2} with a batch of {batch}", s / own);
        let all: Vec<String> = larger.iter().map(with).collect();
        notes.push(format!("time an item, all layers: {}", all.join(", ")));
        notes.push("4 × batch: time an item with four times the batch, against this one".into());
    }
    notes.extend(extrapolated(prediction));
    notes.extend(prediction.left_out.iter().map(|what| format!("not predicted: {}", name::printable(what))));
    notes
}

/// Which layers were not measured at their own size, and the size that was.
fn extrapolated(prediction: &Prediction) -> Option<String> {
    let measured = prediction.layers.iter().find_map(|layer| layer.extrapolated_from)?;
    let layers = prediction.layers.iter().filter(|layer| layer.extrapolated_from.is_some());
    let mut works: Vec<&str> = layers.map(|layer| layer.work.as_str()).collect();
    works.dedup();
    let hidden = works.len().saturating_sub(NAMED);
    works.truncate(NAMED);
    let listed = works.join(", ");
    let and = if hidden > 0 { format!(" and {hidden} more") } else { String::new() };
    Some(format!("extrapolated: {listed}{and}; elementwise operations are measured up to {measured} elements"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_extrapolated_is_named_with_what_was_measured() {
        let layer = |work: &str, extrapolated_from| LayerPrediction {
            name: "layer".into(),
            work: work.into(),
            calls: 1,
            seconds: 488.0,
            extrapolated_from,
            share: 0.5,
            of_peak: None,
            seen_s: None,
            with_larger_batch: None,
        };
        let prediction = |layers| Prediction {
            layers,
            seconds: 976.0,
            library: None,
            threads: None,
            batch: None,
            by_batch: Vec::new(),
            left_out: Vec::new(),
        };
        let large = text(&prediction(vec![layer("relu 9", None), layer("relu 1000000000000", Some(67_108_864))]), 200);
        let expected = "extrapolated: relu 1000000000000; elementwise operations are measured up to 67108864 elements";
        assert!(large.contains(expected), "{large}");
        assert!(!text(&prediction(vec![layer("relu 9", None)]), 200).contains("extrapolated"));
    }
}
