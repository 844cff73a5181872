//! `rprof diff OLD NEW`.

use std::path::PathBuf;

use clap::Args;

/// Options of `diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The earlier profile
    pub old: PathBuf,
    /// The later profile
    pub new: PathBuf,
    /// Exit with 1 if this holds for any function, for instance `time_s>5%` (may be repeated)
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
}
