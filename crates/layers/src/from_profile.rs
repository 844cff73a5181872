//! The products of a profile as layers.

use super::error::LayersError;
use super::{Layer, Network, Work};
use rprof_profile::Profile;

/// The products that a profile saw, those with most time first.
///
/// # Errors
/// [`LayersError::NoProducts`]
pub fn network(profile: &Profile) -> Result<Network, LayersError> {
    let blas = profile.blas.as_ref().filter(|blas| !blas.products.is_empty()).ok_or(LayersError::NoProducts)?;
    let mut network = Network { threads: blas.threads, ..Network::default() };
    for product in &blas.products {
        let name = format!("{} in {}", product.call, product.caller);
        let Some(shape) = &product.shape else {
            network
                .left_out
                .push(format!("{name}: {} calls of shapes that the profile has put together", product.calls));
            continue;
        };
        if !network.libraries.contains(&product.library) {
            network.libraries.push(product.library.clone());
        }
        let work = Work::Product(shape.clone());
        network.layers.push(Layer { name, work, calls: product.calls, seen_s: product.median_s });
    }
    Ok(network)
}
