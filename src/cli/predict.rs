//! `rprof predict`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of `predict`.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// A profile with matrix products, a table of layers (.toml) or a model (.onnx)
    pub input: PathBuf,
    /// With another batch
    #[arg(long, value_name = "batch=N", value_parser = batch)]
    pub scale: Option<u64>,
    /// The dimension of products that the batch is in [default: m of matrices stored by rows, n of others]
    #[arg(long, value_name = "DIMENSION")]
    pub batch_dimension: Option<DimensionArg>,
    /// The BLAS to measure with [default: the profile's, else the first that is found]
    #[arg(long, value_name = "PATH")]
    pub blas: Option<String>,
    /// Threads of the BLAS [default: as in the profile, else its own choice]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// The size of a free dimension of a model; may be repeated
    #[arg(long, value_name = "NAME=SIZE", value_parser = axis)]
    pub axis: Vec<(String, u64)>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// m or n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DimensionArg {
    M,
    N,
}

fn batch(text: &str) -> Result<u64, String> {
    match axis(text)? {
        (name, size) if name == "batch" => Ok(size),
        (name, _) => Err(format!("only batch can be scaled, not {name}")),
    }
}

fn axis(text: &str) -> Result<(String, u64), String> {
    let parts = text.split_once('=').and_then(|(name, size)| Some((name, size.parse::<u64>().ok()?)));
    match parts {
        Some((name, size)) if size > 0 && size < 1 << 40 => Ok((name.to_owned(), size)),
        _ => Err("expected NAME=SIZE with a size from 1 on".into()),
    }
}
