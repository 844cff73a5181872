//! The command: parses, calls the library, prints errors, exits.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use rprof::cli::{Cli, Command};
use rprof::session::SessionError;
use rprof::tracee::own_stack::{self, Heap};

mod commands;
mod gate_command;
mod given;

/// rprof itself failed (docs/conventions.md, Command line).
const FAILED: u8 = 125;
/// Commands that read profiles, on all CPUs, and run no program.
const READING: [&str; 5] = ["merge", "report", "query", "diff", "predict"];

fn main() -> ExitCode {
    // Before anything else takes memory.
    rprof::tracee::own_limits::lift();
    let reads = std::env::args_os().nth(1).is_some_and(|command| READING.iter().any(|known| command == *known));
    own_stack::run(work, if reads { Heap::OfEachThread } else { Heap::Shared })
}

/// Parses the arguments and runs the subcommand.
fn work() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Run(args) if args.visits() => rprof::session::keeper::apart(move || settle(commands::run(args))),
        command => dispatch(command).unwrap_or_else(|error| ExitCode::from(failed(&error))),
    }
}

/// The exit status of a command, after its error was printed.
fn settle(result: anyhow::Result<u8>) -> u8 {
    result.unwrap_or_else(|error| failed(&error))
}

/// Prints an error; returns its exit status.
fn failed(error: &anyhow::Error) -> u8 {
    let known = error.downcast_ref::<SessionError>();
    if !matches!(known, Some(SessionError::Silent)) {
        let _ = writeln!(std::io::stderr(), "rprof: {}", one_line(error));
    }
    known.map_or(FAILED, |e| e.exit_code())
}

/// An error in the arguments as one line; help and version as they are.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    let what = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let what = what.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let line = what.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
    let _ = writeln!(std::io::stderr(), "rprof: {}; see rprof --help", line.trim_start_matches("error: "));
    ExitCode::from(error.exit_code() as u8)
}

/// The error and its causes. Errors of the library name their cause themselves, so it is not said twice; names may hold
/// any character, so the line is kept one.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !line.contains(&cause) {
            line += if line.is_empty() { "" } else { ": " };
            line += &cause;
        }
    }
    line.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => commands::run(args).map(ExitCode::from),
        Command::Demo(args) => commands::demo(args).map(ExitCode::from),
        Command::DemoKernels(args) => commands::demo_kernels(args),
        Command::GpuDemoKernels => commands::gpu_demo_kernels(),
        Command::GpuCheckKernel => commands::gpu_check_kernel(),
        Command::Machine(args) => commands::machine(args),
        Command::Report(args) => commands::report(args),
        Command::Query(args) => commands::query(args),
        Command::Diff(args) => commands::diff(args),
        Command::Gate(args) => gate_command::gate(args),
        Command::Merge(args) => commands::merge(args),
        Command::Predict(args) => commands::predict(args),
        Command::Mcp(args) => commands::mcp(args),
        Command::Doctor(args) => commands::doctor(args),
        Command::Events(args) => commands::events(args),
        Command::Header => {
            commands::print(rprof::cli::HEADER)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions(args) => {
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "rprof", &mut script);
            commands::print(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).context("cannot make the manual page")?;
            commands::print(&page)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
