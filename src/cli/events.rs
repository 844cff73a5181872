//! `rprof events`.

use std::path::PathBuf;

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
    /// Folder with event tables and a sysfs tree to use in place of this CPU's
    #[arg(long, value_name = "DIR", hide = true)]
    pub counters_from: Option<PathBuf>,
}
