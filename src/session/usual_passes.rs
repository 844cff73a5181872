//! Which passes are made if the user names none: `auto`, unless an option or the environment asks for others.

use std::fmt;

use super::options::{Engine, Memory, Passes, RunOptions};
use super::preflight::Checked;

/// Why a program runs twice though the user did not say so.
#[derive(Debug, PartialEq, Eq)]
pub enum WhyTwice {
    /// The user restores state between two runs.
    Between,
    /// The user wants every access simulated, which windows cannot.
    ExactMemory,
    /// The oracle has no windows.
    SingleStep,
    /// The user wants the work of the GPU's kernels counted, which takes further runs.
    GpuCounts,
}

impl fmt::Display for WhyTwice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyTwice::Between => f.write_str("--between restores state between two runs"),
            WhyTwice::ExactMemory => f.write_str("--memory exact simulates every access"),
            WhyTwice::SingleStep => f.write_str("--engine single-step counts every instruction"),
            WhyTwice::GpuCounts => f.write_str("--gpu-counts counts the GPU's kernels in runs of their own"),
        }
    }
}

/// In the environment, with 1: a program is never run again.
const ONCE: &str = "RPROF_ONCE";

/// The passes for `options` without `--passes`, and why there are two.
pub fn of(options: &RunOptions, checked: &Checked) -> (Passes, Option<WhyTwice>) {
    if checked.not_countable.is_some() || options.tries {
        return (Passes::Timed, None);
    }
    let asked = match options {
        RunOptions { between: Some(_), .. } => Some(WhyTwice::Between),
        RunOptions { memory: Memory::Exact, .. } => Some(WhyTwice::ExactMemory),
        RunOptions { engine: Engine::SingleStep, .. } => Some(WhyTwice::SingleStep),
        RunOptions { gpu_counts, .. } if gpu_counts.is_asked_for() => Some(WhyTwice::GpuCounts),
        _ => None,
    };
    match asked {
        Some(why) => (Passes::Both, Some(why)),
        None if options.collected.is_part() || std::env::var_os(ONCE).is_some_and(|value| value == "1") => {
            (Passes::Single, None)
        }
        None => (Passes::Auto, None),
    }
}
