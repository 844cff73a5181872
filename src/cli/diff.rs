//! `rprof diff OLD NEW`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of `diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The earlier profile
    pub old: PathBuf,
    /// The later profile
    pub new: PathBuf,
    /// Form of the comparison
    #[arg(long, value_enum, default_value = "text")]
    pub format: DiffFormatArg,
    /// Exit with 1 if this holds for any function, for instance `time_s>5%` (may be repeated)
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
}

/// `--format` of `diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormatArg {
    /// A table of the functions whose time differs.
    Text,
    /// A flame graph of NEW, coloured by the difference.
    Flamegraph,
}
