//! A table of layers, as TOML: a line a layer.
//!
//! ```toml
//! batch = 128
//! layers = [
//!     { name = "fc1", gemm = [128, 50, 784] },
//!     { relu = 6400 },
//! ]
//! ```

use std::path::Path;

use serde::Deserialize;

use super::error::LayersError;
use super::{Layer, Network, Work};
use rprof_machine::products::elementwise::Operation;
use rprof_profile::blas::Dimensions;

/// Larger dimensions are mistakes.
const MOST: u64 = 1 << 40;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    batch: Option<u64>,
    blas: Option<String>,
    threads: Option<u32>,
    layers: Vec<Line>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: Option<String>,
    calls: Option<u64>,
    /// m, n, k of single precision.
    gemm: Option<[u64; 3]>,
    /// The same of double precision.
    dgemm: Option<[u64; 3]>,
    relu: Option<u64>,
    sigmoid: Option<u64>,
    exp: Option<u64>,
    tanh: Option<u64>,
    add: Option<u64>,
}

/// Most threads of a BLAS.
const MOST_THREADS: u32 = 4096;

/// The layers of `text`, which is the content of `path`.
pub fn network(path: &Path, text: &str) -> Result<Network, LayersError> {
    let wrong = |reason: String| LayersError::Table { path: path.to_owned(), reason };
    let table: Table = toml::from_str(text).map_err(|e| {
        let line = e.span().map(|span| text[..span.start].matches('\n').count() + 1);
        let at = line.map_or_else(String::new, |line| format!("line {line}: "));
        wrong(format!("{at}{}", e.message().replace('\n', " ")))
    })?;
    if table.layers.is_empty() || table.batch == Some(0) || table.threads == Some(0) {
        return Err(wrong("it has no layers, or a batch or threads of 0".into()));
    }
    if let Some(threads) = table.threads.filter(|threads| *threads > MOST_THREADS) {
        return Err(wrong(format!("{threads} threads are more than the {MOST_THREADS} that are measured")));
    }
    let layer = |(i, line): (usize, Line)| {
        let (kind, work) = line.work().map_err(|reason| wrong(format!("layer {}: {reason}", i + 1)))?;
        let name = line.name.unwrap_or_else(|| format!("{kind} {}", i + 1));
        Ok(Layer { name, work, calls: line.calls.unwrap_or(1), seen_s: None })
    };
    Ok(Network {
        layers: table.layers.into_iter().enumerate().map(layer).collect::<Result<_, LayersError>>()?,
        batch: table.batch,
        has_fixed_batch: false,
        left_out: Vec::new(),
        libraries: table.blas.into_iter().collect(),
        threads: table.threads,
    })
}

impl Line {
    /// The kind of a layer and its work.
    fn work(&self) -> Result<(&'static str, Work), String> {
        let products = [("gemm", false, self.gemm), ("dgemm", true, self.dgemm)];
        let elementwise = Operation::ALL.map(|operation| {
            let elements = match operation {
                Operation::Relu => self.relu,
                Operation::Sigmoid => self.sigmoid,
                Operation::Exp => self.exp,
                Operation::Tanh => self.tanh,
                Operation::Add => self.add,
            };
            elements.map(|elements| (operation.name(), Work::Elementwise(operation, elements)))
        });
        let product = |(name, is_double, sizes): (&'static str, bool, Option<[u64; 3]>)| {
            let [m, n, k] = sizes?;
            let transposes = "NN".to_owned();
            let shape = Dimensions { m, n, k: Some(k), transposes, is_row_major: true, is_double, is_complex: false };
            Some((name, Work::Product(shape)))
        };
        let mut all = products.into_iter().filter_map(product).chain(elementwise.into_iter().flatten());
        let (Some((name, work)), None) = (all.next(), all.next()) else {
            return Err("it needs exactly one of gemm, dgemm, relu, sigmoid, exp, tanh, add".into());
        };
        let sizes = match &work {
            Work::Product(shape) => vec![shape.m, shape.n, shape.k.unwrap_or(1)],
            Work::Elementwise(_, elements) => vec![*elements],
        };
        if self.calls == Some(0) {
            return Err(format!("{name} with calls = 0; leave out what is never called"));
        }
        match sizes.iter().find(|size| !(1..=MOST).contains(*size)) {
            Some(size) => Err(format!("{name} with a size of {size}, which is not from 1 to {MOST}")),
            None => Ok((name, work)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Network, String> {
        network(Path::new("net.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_line_is_a_layer() {
        let network =
            read("batch = 8\nlayers = [\n{ name = \"fc\", gemm = [8, 50, 784] },\n{ relu = 400, calls = 2 },\n]")
                .unwrap();
        assert_eq!((network.batch, network.layers.len()), (Some(8), 2));
        assert_eq!(network.layers[0].name, "fc");
        assert_eq!(
            network.layers[1],
            Layer { name: "relu 2".into(), work: Work::Elementwise(Operation::Relu, 400), calls: 2, seen_s: None }
        );
    }

    #[test]
    fn mistakes_are_one_line_with_their_place() {
        for (text, part) in [
            ("layers = [{ gemm = [0, 1, 2] }]", "layer 1: gemm with a size of 0"),
            ("layers = [{ gemm = [1, 1, 1000000000000000] }]", "a size of 1000000000000000"),
            ("layers = [{ relu = 0 }]", "relu with a size of 0"),
            ("layers = [{ gemm = [1, 1, 2], calls = 0 }]", "gemm with calls = 0"),
            ("layers = [{ dgemm = [1, -1, 2] }]", "-1"),
            ("threads = 5000\nlayers = [{ relu = 1 }]", "5000 threads"),
            ("layers = [\n{ gemm = [1, 2] }]", "line 2"),
            ("layers = [{ relu = 1, exp = 2 }]", "exactly one of"),
            ("layers = [{ softmax = 1 }]", "softmax"),
            ("layers = []", "no layers"),
            ("gemm 1 2 3", "line 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.contains(part) && !error.contains('\n') && error.starts_with("net.toml: "),
                "{text}: {error}"
            );
        }
    }
}
