//! `rprof demo` and the hidden command that it profiles.

use std::path::PathBuf;

use clap::Args;

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Output folder; an existing one is kept as DIR.N
    #[arg(short, long = "output", value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Known kernels of a GPU instead of those of the CPU
    #[arg(long)]
    pub gpu: bool,
    /// Print nothing but the report
    #[arg(long)]
    pub quiet: bool,
}

/// Options of the demo's own kernels.
#[derive(Debug, Args)]
pub struct KernelArgs {
    /// Arguments as `demo::run_kernels` takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<String>,
}
