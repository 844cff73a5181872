//! `rprof completions SHELL`.

use clap::Args;

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell
    pub shell: clap_complete::Shell,
}
