//! `rprof query PROFILE …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Options of `query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// A profile.json, or the folder that holds it
    pub profile: PathBuf,
    /// Of the folder of a job: only this rank
    #[arg(long, value_name = "N", global = true)]
    pub rank: Option<u32>,
    /// The question
    #[command(subcommand)]
    pub question: Question,
    /// Answer in JSON: base SI units, null where not measured, lists with their whole length
    #[arg(long, global = true)]
    pub json: bool,
}

/// The question.
#[derive(Debug, Subcommand)]
pub enum Question {
    /// The cause that costs most, where it is, the change that helps, and what that saves
    Verdict,
    /// The functions with most to save
    Top {
        /// Order
        #[arg(long, value_enum, default_value = "saving")]
        by: ByArg,
        /// Functions at most
        #[arg(long, value_name = "N", default_value = "10")]
        limit: usize,
    },
    /// Why a function is held, with every figure and its source
    Explain {
        /// Its name, or a part of it
        name: String,
    },
    /// This host's ceilings
    Ceilings {
        /// How their ids begin, for instance `dram.`
        #[arg(default_value = "")]
        prefix: String,
        /// Ceilings at most
        #[arg(long, value_name = "N", default_value = "60")]
        limit: usize,
    },
    /// The call sites of MPI with most time
    Mpi {
        /// Call sites at most
        #[arg(long, value_name = "N", default_value = "20")]
        limit: usize,
    },
    /// Changes from PROFILE to another one
    Compare {
        /// The later profile.json or folder
        new: PathBuf,
        /// Functions at most
        #[arg(long, value_name = "N", default_value = "20")]
        limit: usize,
    },
}

/// `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// Seconds of the program that the best change saves.
    Saving,
    /// CPU time.
    Time,
    /// CPU time above the bound.
    Lost,
}
