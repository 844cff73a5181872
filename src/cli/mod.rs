//! The command line (docs/conventions.md, Command line): clap definitions, one file per subcommand; no logic.

pub mod demo;
pub mod diff;
pub mod doctor;
pub mod events;
pub mod gate;
pub mod machine;
pub mod mcp;
pub mod merge;
pub mod predict;
pub mod query;
pub mod report;
pub mod run;
pub mod shell;

use clap::{Parser, Subcommand};

/// `include/rprof.h`.
pub const HEADER: &str = include_str!("../../include/rprof.h");

/// A runtime-oriented roofline profiler: which ceiling of this machine holds each hot function down.
#[derive(Debug, Parser)]
#[command(
    name = "rprof",
    version,
    about,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "rprof [run] [OPTIONS] -- PROGRAM [ARGS]...\n       rprof COMMAND",
    after_help = "Exit status: the program's own; 128+N if signal N ended it; 125 rprof failed, 126 cannot execute, \
                  127 not found, 2 bad option.\n\
                  Signals to rprof: Ctrl-C ends the program, too; SIGTERM and SIGHUP end rprof alone, with a report; SIGKILL \
                  of rprof leaves the program running, too."
)]
pub struct Cli {
    /// The subcommand; without one, rprof profiles a program.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Options of the default command.
    #[command(flatten)]
    pub run: run::RunArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Profile a program (the default)
    Run(run::RunArgs),
    /// Profile built-in kernels that each hit one ceiling
    Demo(demo::DemoArgs),
    /// Measure and draw this host's ceilings
    Machine(machine::MachineArgs),
    /// Draw a report from a profile
    Report(report::ReportArgs),
    /// Answer a question about a profile, for scripts
    Query(query::QueryArgs),
    /// Compare two profiles
    Diff(diff::DiffArgs),
    /// Compare two builds by modelled cycles on a fixed core, the same on any host
    Gate(gate::GateArgs),
    /// Put several ranks or runs into one profile
    Merge(merge::MergeArgs),
    /// Predict the time of layers: of a profile's matrix products, a table or an ONNX model
    Predict(predict::PredictArgs),
    /// Serve an assistant on standard input and output (Model Context Protocol)
    Mcp(mcp::McpArgs),
    /// Try what this host allows, and print the commands that allow more
    Doctor(doctor::DoctorArgs),
    /// The event tables, and the events that this CPU really has
    Events(events::EventsArgs),
    /// Print rprof.h, by which a program marks regions and work
    Header,
    /// Print a completion script
    Completions(shell::CompletionsArgs),
    /// Print the manual page
    Man,
    /// Runs the known kernels of `demo --gpu`
    #[command(name = "__gpu_demo", hide = true)]
    GpuDemoKernels,
    /// Runs the kernel with which CUPTI's counts are checked
    #[command(name = "__gpu_check", hide = true)]
    GpuCheckKernel,
    /// The program that `rprof demo` profiles
    #[command(name = "__demo", hide = true)]
    DemoKernels(demo::KernelArgs),
}
