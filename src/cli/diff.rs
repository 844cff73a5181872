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
    /// Of the folders of two jobs: only this rank
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Form of the comparison
    #[arg(long, value_enum, default_value = "text")]
    pub format: DiffFormatArg,
    /// Exit with 1 if this holds, for instance `instructions>1%`, `time(NAME)>5%`, `class(NAME)`, `program.flops>0%` (may be
    /// repeated; all forms: docs/ci.md)
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `--format` of `diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormatArg {
    /// A table of the functions that changed.
    Text,
    /// The same, short enough for a pull request.
    Md,
    /// For scripts.
    Json,
    /// A page with both profiles on one roofline.
    Html,
    /// A flame graph of NEW, coloured by the difference.
    Flamegraph,
}
