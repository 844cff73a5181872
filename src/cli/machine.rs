//! `rprof machine`.

use std::path::PathBuf;

use clap::Args;

/// Options of `machine`.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// Only what a first run needs
    #[arg(long)]
    pub quick: bool,
    /// Only the GPUs
    #[arg(long)]
    pub gpu: bool,
    /// Measure again even if cached
    #[arg(long)]
    pub refresh: bool,
    /// Print the profile's "machine" object on standard output
    #[arg(long)]
    pub json: bool,
    /// Write machine.html, machine-roofline.svg and machine-ladder.svg into this folder
    #[arg(short, long = "output", value_name = "DIR")]
    pub output: Option<PathBuf>,
}
