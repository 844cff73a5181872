//! `rprof merge PROFILE…`.

use std::path::PathBuf;

use clap::Args;

/// Options of `merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The profiles
    #[arg(required = true)]
    pub profiles: Vec<PathBuf>,
    /// Output folder; an existing one is kept as DIR.N
    #[arg(short, long = "output", value_name = "DIR")]
    pub output: Option<PathBuf>,
}
