//! `rprof mcp`.

use std::path::PathBuf;

use clap::Args;

/// Options of `mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// Folder in which programs run and profiles are; nothing outside of it is read
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
}
