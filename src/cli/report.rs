//! `rprof report PROFILE --format …`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use crate::report::Format;

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A profile.json, or the folder that holds it
    #[arg(required_unless_present = "perf")]
    pub profile: Option<PathBuf>,
    /// Instead of a profile: a recording of perf record -g, whose functions get time and no counts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "rank"])]
    pub perf: Option<PathBuf>,
    /// Of the folder of a job: only this rank
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Form of the report
    #[arg(long, value_parser = format(), default_value = "text")]
    pub format: Format,
    /// With --format flamegraph: the meaning of the widths
    #[arg(long, value_enum, default_value = "time")]
    pub by: FlamesArg,
    /// Write to this file instead of standard output
    #[arg(short, long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Report everything about the function of this name, or those whose name matches this regular expression; with --format svg, draw
    /// its own ceilings
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// Report everything: all columns, what holds each hot function, memory, counters, warnings
    #[arg(long)]
    pub all: bool,
    /// Place of load-imbalance ceilings: below the roof or below tlp
    #[arg(long, value_enum, default_value = "roof")]
    pub imbalance: super::run::ImbalanceArg,
    /// Precision of the roof that is drawn
    #[arg(long, value_enum, default_value = "mixed")]
    pub precision: super::run::PrecisionArg,
    /// Print names at full length
    #[arg(long)]
    pub full_names: bool,
}

/// `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FlamesArg {
    /// CPU time.
    Time,
    /// CPU time above the bound of each function.
    Lost,
}

/// Reads the name of a format.
fn format() -> impl TypedValueParser<Value = Format> {
    let named = |name: String| Format::ALL.into_iter().find(|format| format.name() == name).expect("a possible value");
    PossibleValuesParser::new(Format::ALL.map(Format::name)).map(named)
}
