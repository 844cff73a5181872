//! `rprof events`.

use clap::Args;

/// Options of `events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Run kernels with known operations through every event that this CPU has
    #[arg(long)]
    pub check: bool,
    /// Machine-readable
    #[arg(long)]
    pub json: bool,
}
