//! `rprof merge PROFILE…` and `rprof merge JOB_FOLDER`.

use std::path::PathBuf;

use clap::Args;

/// Options of `merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The profiles, or the folder of a job, which holds those of its ranks
    #[arg(required = true)]
    pub profiles: Vec<PathBuf>,
    /// Merge the ranks that are there, although others are missing
    #[arg(long)]
    pub partial: bool,
    /// Output folder; an existing one is kept as DIR.N. Without it the result of a job's folder is written into that folder
    #[arg(short, long = "output", value_name = "DIR")]
    pub output: Option<PathBuf>,
}
