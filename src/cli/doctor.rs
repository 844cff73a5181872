//! `rprof doctor`.

use clap::Args;

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Machine-readable
    #[arg(long)]
    pub json: bool,
}
