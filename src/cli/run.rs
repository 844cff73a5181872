//! `rprof [run] [options] -- PROGRAM [ARGS]`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Output folder; an existing one is kept as DIR.N
    #[arg(short, long = "output", value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Which passes to run [default: auto]
    #[arg(long, value_enum)]
    pub passes: Option<PassesArg>,
    /// Run the program once: the same as --passes single
    #[arg(long, conflicts_with_all = ["passes", "pid"])]
    pub once: bool,
    /// Run the program natively, and try changes of its hot loops in throw-away copies of it; the program itself stays as it is
    #[arg(long = "try", conflicts_with_all = ["once", "pid", "delay", "duration", "from", "to"])]
    pub tries: bool,
    /// Run a program again to count it only if it took less than so many seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds, allow_negative_numbers = true)]
    pub repeat_below: f64,
    /// How much windows may slow the program down, as a percentage [default: 5 %, or 1 s if that is more; copies: 20 %, or 3 s]
    #[arg(long, value_name = "PERCENT", value_parser = percentage, allow_negative_numbers = true)]
    pub budget: Option<f64>,
    /// Profile this running process instead of a program, until Ctrl-C, its end, or for --duration; it runs on unchanged
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "passes")]
    pub pid: Option<i32>,
    /// Begin to collect after so many seconds; the program runs from the start
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, conflicts_with = "from")]
    pub delay: Option<f64>,
    /// Collect for so many seconds; the program runs on
    #[arg(long, value_name = "S", value_parser = some_seconds, allow_negative_numbers = true, conflicts_with = "to")]
    pub duration: Option<f64>,
    /// Memory traffic: off, simulated on sampled cache sets, or exactly, which takes a hundred times as long as the program and more
    #[arg(long, value_enum, default_value = "sampled")]
    pub memory: MemoryArg,
    /// Samples per second and thread [default: 1000, lowered so that sampling costs less than 1 %]
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub frequency: Option<u32>,
    /// Report only functions whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    pub function: Option<String>,
    /// Report only from this second of the timed pass
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub from: Option<f64>,
    /// Report only up to this second of the timed pass
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub to: Option<f64>,
    /// Place of load-imbalance ceilings: below the roof or below tlp
    #[arg(long, value_enum, default_value = "roof")]
    pub imbalance: ImbalanceArg,
    /// Precision of the roof that is drawn
    #[arg(long, value_enum, default_value = "mixed")]
    pub precision: PrecisionArg,
    /// Print names at full length
    #[arg(long)]
    pub full_names: bool,
    /// Run the program twice, with this shell command between, which restores state
    #[arg(long, value_name = "CMD")]
    pub between: Option<OsString>,
    /// Run the program natively again to count the work of its GPU kernels, where counters are permitted
    #[arg(long, value_enum, default_value = "auto")]
    pub gpu_counts: GpuCountsArg,
    /// Print nothing but the report
    #[arg(long)]
    pub quiet: bool,
    /// Of a launcher's ranks: leave merging to `rprof merge`
    #[arg(long)]
    pub no_merge: bool,
    /// Counting engine of the counted pass
    #[arg(long, value_enum, default_value = "translator", hide = true)]
    pub engine: EngineArg,
    /// Folder with event tables and a sysfs tree to use in place of this CPU's
    #[arg(long, value_name = "DIR", hide = true)]
    pub counters_from: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "pid", conflicts_with = "pid", value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s >= 0.0 && s.is_finite() => Ok(s),
        _ => Err("expected seconds from the start of the run, 0 or more".into()),
    }
}

fn some_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s.is_finite() => Ok(s),
        _ => Err("expected a number of seconds above 0".into()),
    }
}

impl RunArgs {
    /// Whether a program is visited while it runs.
    pub fn visits(&self) -> bool {
        self.pid.is_some() || self.tries || matches!(self.passes, None | Some(PassesArg::Auto | PassesArg::Single))
    }
}

fn percentage(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("expected more than 0 % and at most 100 %; --passes timed counts nothing".into()),
    }
}

/// `--passes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PassesArg {
    /// Native and sampled, counted in windows after 10 s; what ended before and is not explained runs once more, counted.
    Auto,
    /// One run: native and sampled, counted in short windows.
    Single,
    /// Native, sampled.
    Timed,
    /// Under the counting engine, which is exact; nothing is timed.
    Counted,
    /// Two runs: timed, then counted, which is exact.
    Both,
}

/// `--gpu-counts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GpuCountsArg {
    /// Beside a counted pass, if the program launches kernels.
    Auto,
    /// Whatever the passes, if the program launches kernels.
    On,
    /// As `on`, and in one run more the bytes that multiprocessors receive from L2.
    L2,
    /// Never.
    Off,
}

/// `--memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryArg {
    /// No bytes.
    Off,
    /// Sampled cache sets.
    Sampled,
    /// Every access.
    Exact,
}

/// `--imbalance`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImbalanceArg {
    /// Figure A2.
    Roof,
    /// Figure A3.
    Tlp,
}

/// `--precision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrecisionArg {
    /// Double.
    Dp,
    /// Single.
    Sp,
    /// Each function its own.
    Mixed,
    /// Instructions, whether they compute or not.
    Instructions,
}

/// `--engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// The translator.
    Translator,
    /// The oracle.
    SingleStep,
}
