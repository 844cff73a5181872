//! `rprof machine`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Options of `machine`.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// Only the ceilings that a first run needs
    #[arg(long)]
    pub quick: bool,
    /// Only the GPUs
    #[arg(long)]
    pub gpu: bool,
    /// Only the network between the ranks of a job: mpirun -np N rprof machine --mpi [-- ./app]
    #[arg(long, conflicts_with_all = ["quick", "gpu"])]
    pub mpi: bool,
    /// With --mpi: what to measure, as JSON. Internal: rprof gives it to the ranks that it launches
    #[arg(long, value_name = "FILE", requires = "mpi", hide = true)]
    pub wanted: Option<PathBuf>,
    /// Measure again even if cached
    #[arg(long)]
    pub refresh: bool,
    /// Print the profile's "machine" object (with --mpi: "network") on standard output
    #[arg(long)]
    pub json: bool,
    /// Write machine.html, machine-roofline.svg and machine-ladder.svg (with --mpi: network.json) into this folder
    #[arg(short, long = "output", value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// With --mpi: the program whose MPI library is used
    #[arg(last = true, requires = "mpi", value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
