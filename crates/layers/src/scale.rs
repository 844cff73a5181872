//! Another batch: one dimension of the products that have the batch in it, and the elements of the rest.

use std::collections::HashMap;

use super::error::LayersError;
use super::{Layer, Network, Work};
use rprof_profile::blas::Dimensions;

/// The dimension that the batch is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BatchDimension {
    /// m if matrices are stored by rows, n if by columns: there an item is one row, or one column.
    #[default]
    ByOrder,
    /// m
    M,
    /// n
    N,
}

/// The batch asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Items.
    pub batch: u64,
    /// Their position.
    pub dimension: BatchDimension,
}

/// The dimension of `shape` that the batch is in.
pub fn batched(shape: &mut Dimensions, dimension: BatchDimension) -> &mut u64 {
    match dimension {
        BatchDimension::M => &mut shape.m,
        BatchDimension::N => &mut shape.n,
        BatchDimension::ByOrder if shape.is_row_major => &mut shape.m,
        BatchDimension::ByOrder => &mut shape.n,
    }
}

/// The batch of a network that does not say it: the value that takes most of the products' time in that dimension, or most of their FLOPs
/// if no times are known.
pub fn current(network: &Network, dimension: BatchDimension) -> Option<u64> {
    let mut weights: HashMap<u64, f64> = HashMap::new();
    for layer in &network.layers {
        if let Work::Product(shape) = &layer.work {
            let weight = layer.seen_s.unwrap_or(shape.flops()) * layer.calls as f64;
            *weights.entry(*batched(&mut shape.clone(), dimension)).or_default() += weight;
        }
    }
    if network.has_fixed_batch {
        return network.batch;
    }
    let heaviest = weights.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    network.batch.or(heaviest.map(|(batch, _)| batch))
}

/// The network with another batch. Products with a dimension other than the current batch stay as they are. Elementwise layers
/// have elements in proportion.
///
/// # Errors
/// There is nothing to scale, or the new batch does not come out even.
pub fn scale(network: &Network, scale: Scale) -> Result<Network, LayersError> {
    let Scale { batch, dimension } = scale;
    let wrong = |reason: String| LayersError::Scale { batch, reason };
    if network.has_fixed_batch {
        return Err(wrong("a model has its batch as a dimension (hint: --axis NAME=SIZE)".into()));
    }
    let current = current(network, dimension)
        .ok_or_else(|| wrong("the network has no products (hint: give the table a line batch = N)".into()))?;
    let mut scaled = 0;
    let mut layer = |layer: &Layer| {
        let mut layer = layer.clone();
        match &mut layer.work {
            Work::Product(shape) => {
                let size = batched(shape, dimension);
                if *size == current {
                    (*size, layer.seen_s) = (batch, None);
                    scaled += 1;
                }
            }
            Work::Elementwise(_, elements) => {
                let all = u128::from(*elements) * u128::from(batch);
                if all % u128::from(current) != 0 {
                    return Err(wrong(format!(
                        "{} elements of {} are no whole number for each of {current} items",
                        elements, layer.name
                    )));
                }
                *elements = u64::try_from(all / u128::from(current)).unwrap_or(u64::MAX);
            }
        }
        Ok(layer)
    };
    let layers = network.layers.iter().map(&mut layer).collect::<Result<_, _>>()?;
    if scaled == 0 {
        let reason = format!("no product has {current} in that dimension (hint: --batch-dimension m or n)");
        return Err(wrong(reason));
    }
    Ok(Network { layers, batch: Some(batch), ..network.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_machine::products::elementwise::Operation;

    fn product(m: u64, n: u64, is_row_major: bool) -> Layer {
        let transposes = "NN".into();
        let shape = Dimensions { m, n, k: Some(7), transposes, is_row_major, is_double: false, is_complex: false };
        Layer { name: "fc".into(), work: Work::Product(shape), calls: 1, seen_s: None }
    }

    fn network(layers: Vec<Layer>) -> Network {
        Network { layers, ..Network::default() }
    }

    fn sizes(network: &Network) -> Vec<(u64, u64)> {
        let size = |layer: &Layer| match &layer.work {
            Work::Product(shape) => (shape.m, shape.n),
            Work::Elementwise(_, elements) => (*elements, 0),
        };
        network.layers.iter().map(size).collect()
    }

    #[test]
    fn the_batch_is_where_the_order_says() {
        let relu = Layer { work: Work::Elementwise(Operation::Relu, 6400), ..product(0, 0, true) };
        let to = |dimension| Scale { batch: 256, dimension };
        let rows = network(vec![product(128, 50, true), relu, product(64, 12, true)]);
        let scaled = scale(&rows, to(BatchDimension::ByOrder)).unwrap();
        assert_eq!(sizes(&scaled), [(256, 50), (12800, 0), (64, 12)]);
        let columns = network(vec![product(50, 128, false)]);
        assert_eq!(sizes(&scale(&columns, to(BatchDimension::ByOrder)).unwrap()), [(50, 256)]);
        assert_eq!(sizes(&scale(&columns, to(BatchDimension::M)).unwrap()), [(256, 128)]);
    }

    #[test]
    fn what_cannot_be_scaled_is_said() {
        let to = Scale { batch: 256, dimension: BatchDimension::ByOrder };
        let relu = Layer { work: Work::Elementwise(Operation::Relu, 7), ..product(0, 0, true) };
        let odd = scale(&network(vec![product(100, 50, true), relu.clone()]), to);
        assert!(odd.unwrap_err().to_string().contains("no whole number"));
        assert!(scale(&network(vec![relu]), to).unwrap_err().to_string().contains("no products"));
        let other = Network { batch: Some(3), ..network(vec![product(100, 50, true)]) };
        assert!(scale(&other, to).unwrap_err().to_string().contains("no product has 3"));
        let model = Network { has_fixed_batch: true, ..network(vec![product(100, 50, true)]) };
        assert!(scale(&model, to).unwrap_err().to_string().contains("--axis"));
    }
}
