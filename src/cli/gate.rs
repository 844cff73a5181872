//! `rprof gate`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of `gate`.
#[derive(Debug, Args)]
#[command(
    override_usage = "rprof gate [-o FILE] -- PROGRAM [ARGS]...\n       rprof gate --base FILE [OPTIONS] -- PROGRAM [ARGS]...\n       \
                      rprof gate --base FILE --head FILE [OPTIONS]",
    after_help = "Exit status: 0 no regression, 1 a regression, 125 rprof or the program failed or the results cannot be compared, \
                  126 cannot execute, 127 not found, 2 bad option.\n\
                  The program's standard output goes to standard error."
)]
pub struct GateArgs {
    /// Result of the build to compare with: the file that -o wrote
    #[arg(long, value_name = "FILE")]
    pub base: Option<PathBuf>,
    /// Compare this result, instead of running a program
    #[arg(long, value_name = "FILE", requires = "base", conflicts_with_all = ["program", "output"])]
    pub head: Option<PathBuf>,
    /// Write this run's result to a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// More cycles than this part of the base's are a regression
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percentage, allow_hyphen_values = true)]
    pub threshold: f64,
    /// Form of what is printed
    #[arg(long, value_enum, default_value = "text")]
    pub format: GateFormatArg,
    /// Name of the benchmark for --format bencher [default: the program's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Give the program this variable too: a NAME of the environment, or NAME=VALUE (may be repeated)
    #[arg(long, value_name = "NAME", value_parser = clap::builder::OsStringValueParser::new())]
    pub env: Vec<OsString>,
    /// Print nothing but the result
    #[arg(long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "head", value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

fn percentage(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>() {
        Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(percent / 100.0),
        _ => Err("expected a percentage of the base's cycles, 0 or more, such as 1%".into()),
    }
}

/// `--format` of `gate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GateFormatArg {
    /// For a terminal.
    Text,
    /// A comment on a pull request; needs --base.
    Markdown,
    /// For scripts: the comparison, without --base the result.
    Json,
    /// For Bencher (bencher.dev): the result of this run, or of --head.
    Bencher,
}
