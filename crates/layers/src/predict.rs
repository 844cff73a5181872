//! T = Σ calls · f: every layer measured at its own shape, equal ones once.
//!
//! If f was measured, min{peak, operational intensity · bandwidth} is not used: f contains the memory.

use std::collections::HashMap;

use serde::Serialize;

use super::error::LayersError;
use super::scale::{self, BatchDimension, Scale};
use super::{Layer, Network, Work};
use rprof_machine::products::blas::{Blas, USUAL};
use rprof_machine::products::elementwise::{self, Operation};
use rprof_model::products::peak;
use rprof_profile::Machine;
use rprof_profile::blas::Dimensions;

/// Batches that are tried besides the network's own, as its multiples.
const LARGER: [u64; 2] = [2, 4];

/// How to predict.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings<'s> {
    /// The host's ceilings, for shares of the peak.
    pub machine: Option<&'s Machine>,
    /// The batch's position.
    pub dimension: BatchDimension,
}

/// The predicted time of a network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// In the network's order.
    pub layers: Vec<LayerPrediction>,
    /// Seconds of all layers.
    pub seconds: f64,
    /// The library that products were measured with; `null`: there is none.
    pub library: Option<String>,
    /// Its threads; `null`: as many as it takes by itself.
    pub threads: Option<u32>,
    /// Items at once.
    pub batch: Option<u64>,
    /// (batch, seconds of all layers an item), the network's own batch first.
    pub by_batch: Vec<(u64, f64)>,
    /// Layers that are not predicted.
    pub left_out: Vec<String>,
}

/// The predicted time of a layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerPrediction {
    /// Its name.
    pub name: String,
    /// Its shape: `128 × 50 × 784 NN`, or `relu 6400`.
    pub work: String,
    /// Calls.
    pub calls: u64,
    /// Seconds of a call.
    pub seconds: f64,
    /// Elements that were measured instead, and `seconds` extrapolated from; `null`: the layer was measured at its own size.
    pub extrapolated_from: Option<u64>,
    /// Of all layers' seconds.
    pub share: f64,
    /// Of the peak of the library's threads; `null` for elementwise layers, and without known ceilings.
    pub of_peak: Option<f64>,
    /// Seconds of a call that the profile saw; `null`: none, or of another shape.
    pub seen_s: Option<f64>,
    /// Seconds an item with four times the batch / with this one; `null` if the layer does not depend on the batch.
    pub with_larger_batch: Option<f64>,
}

/// Times that were measured already.
struct Measured {
    blas: Option<Blas>,
    /// By shape and footprint.
    products: HashMap<(Dimensions, u64), f64>,
    /// By operation, elements and footprint.
    elementwise: HashMap<(Operation, u64, u64), f64>,
}

impl Measured {
    fn seconds(&mut self, layer: &Layer, footprint: u64) -> Result<f64, LayersError> {
        match (&layer.work, &mut self.blas) {
            (Work::Product(shape), Some(blas)) => {
                let key = (shape.clone(), footprint);
                if let Some(known) = self.products.get(&key) {
                    return Ok(*known);
                }
                let failed = |source| LayersError::Measure { layer: layer.name.clone(), source };
                let seconds = blas.seconds(shape, footprint).map_err(failed)?;
                self.products.insert(key, seconds);
                Ok(seconds)
            }
            // A network with products has a library.
            (Work::Product(_), None) => Ok(f64::NAN),
            (Work::Elementwise(operation, elements), _) => {
                let key = (*operation, *elements, footprint);
                Ok(*self
                    .elementwise
                    .entry(key)
                    .or_insert_with(|| elementwise::seconds(*operation, *elements, footprint)))
            }
        }
    }

    /// Seconds of each layer's call.
    fn all(&mut self, network: &Network) -> Result<Vec<f64>, LayersError> {
        let footprint = network.footprint();
        network.layers.iter().map(|layer| self.seconds(layer, footprint)).collect()
    }
}

fn sum(network: &Network, seconds: &[f64]) -> f64 {
    network.layers.iter().zip(seconds).map(|(layer, s)| layer.calls as f64 * s).sum()
}

/// Measures every layer of `network`, and those of larger batches.
///
/// # Errors
/// Nothing is left to predict, no library can be loaded, or a product cannot be measured.
pub fn predict(network: &Network, settings: Settings<'_>) -> Result<Prediction, LayersError> {
    if network.layers.is_empty() {
        return Err(LayersError::Nothing(network.left_out.clone()));
    }
    let has_products = network.layers.iter().any(|layer| matches!(layer.work, Work::Product(_)));
    let libraries = match network.libraries.is_empty() {
        true => USUAL.map(String::from).to_vec(),
        false => network.libraries.clone(),
    };
    let blas = if has_products { Some(Blas::open(&libraries, network.threads)?) } else { None };
    let library = blas.as_ref().map(|blas| blas.path.clone());
    let mut measured = Measured { blas, products: HashMap::new(), elementwise: HashMap::new() };
    let seconds = measured.all(network)?;
    let all = sum(network, &seconds);
    let batch = scale::current(network, settings.dimension);
    let mut by_batch: Vec<(u64, f64)> = batch.map(|batch| (batch, all / batch as f64)).into_iter().collect();
    let mut larger = None;
    for factor in LARGER {
        // A batch that cannot be scaled or measured is only no advice.
        let Some(to) = batch.and_then(|batch| batch.checked_mul(factor)) else { break };
        let scale = Scale { batch: to, dimension: settings.dimension };
        let Ok(scaled) = scale::scale(network, scale) else { break };
        if scaled.layers.iter().any(|layer| extrapolated_from(&layer.work).is_some()) {
            break;
        }
        let Ok(found) = measured.all(&scaled) else { break };
        by_batch.push((to, sum(&scaled, &found) / to as f64));
        larger = Some((factor, scaled, found));
    }
    let row = |(i, layer): (usize, &Layer)| {
        let with_larger_batch = larger.as_ref().and_then(|(factor, scaled, found)| {
            (scaled.layers[i].work != layer.work).then(|| found[i] / *factor as f64 / seconds[i])
        });
        let of_peak = match &layer.work {
            Work::Product(shape) => {
                let threads = network.threads.or(settings.machine.map(|machine| machine.cores)).unwrap_or(1);
                let peak = settings.machine.and_then(|machine| peak(shape, machine, threads));
                peak.map(|peak| shape.flops() / seconds[i] / peak)
            }
            Work::Elementwise(..) => None,
        };
        LayerPrediction {
            name: layer.name.clone(),
            work: work(&layer.work),
            calls: layer.calls,
            seconds: seconds[i],
            extrapolated_from: extrapolated_from(&layer.work),
            share: if all > 0.0 { layer.calls as f64 * seconds[i] / all } else { 0.0 },
            of_peak,
            seen_s: layer.seen_s,
            with_larger_batch,
        }
    };
    Ok(Prediction {
        layers: network.layers.iter().enumerate().map(row).collect(),
        seconds: all,
        library,
        threads: network.threads,
        batch,
        by_batch,
        left_out: network.left_out.clone(),
    })
}

/// The elements that are measured instead of those of `work`; `None`: as many as it has.
fn extrapolated_from(work: &Work) -> Option<u64> {
    matches!(work, Work::Elementwise(_, elements) if *elements > elementwise::MOST).then_some(elementwise::MOST)
}

fn work(work: &Work) -> String {
    match work {
        Work::Product(shape) => shape.to_string(),
        Work::Elementwise(operation, elements) => format!("{} {elements}", operation.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_by_calls_and_shares_are_of_all() {
        let layer = |elements, calls| Layer {
            name: format!("relu {elements}"),
            work: Work::Elementwise(Operation::Relu, elements),
            calls,
            seen_s: None,
        };
        let network = Network { layers: vec![layer(1000, 3), layer(100_000, 1)], ..Network::default() };
        let found = predict(&network, Settings::default()).unwrap();
        let of = |i: usize| found.layers[i].calls as f64 * found.layers[i].seconds;
        assert!((found.seconds - of(0) - of(1)).abs() < 1e-15 && of(1) > of(0));
        assert!((found.layers.iter().map(|l| l.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!((found.library, found.batch, found.by_batch.len()), (None, None, 0));
        let nothing = predict(&Network { left_out: vec!["Softmax".into()], ..Network::default() }, Settings::default());
        assert_eq!(nothing.unwrap_err().to_string(), "no layer can be predicted: Softmax");
    }

    #[test]
    fn arrays_that_are_too_large_to_measure_are_extrapolated_and_it_is_said() {
        let of = |elements| extrapolated_from(&Work::Elementwise(Operation::Relu, elements));
        assert_eq!((of(1 << 26), of((1 << 26) + 1), of(1_000_000_000_000)), (None, Some(1 << 26), Some(1 << 26)));
    }
}
