//! The command: parses, calls the library, prints errors, exits.

use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use rprof::cli::{Cli, Command};

mod commands;

/// rprof itself failed (DESIGN section 9).
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = cli.command.unwrap_or(Command::Run(cli.run));
    match dispatch(command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rprof: {error:#}");
            let code = error.downcast_ref::<rprof::session::SessionError>().map_or(FAILED, |e| e.exit_code());
            ExitCode::from(code)
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => commands::run(args),
        Command::Demo(args) => commands::demo(args),
        Command::DemoKernels(args) => commands::demo_kernels(args),
        Command::Machine(args) => commands::machine(args),
        Command::Report(args) => commands::report(args),
        Command::Diff(args) => commands::diff(args),
        Command::Merge(args) => commands::merge(args),
        Command::Doctor(args) => commands::doctor(args),
        Command::Events(args) => commands::events(args),
        Command::Completions(args) => {
            clap_complete::generate(args.shell, &mut Cli::command(), "rprof", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => {
            clap_mangen::Man::new(Cli::command())
                .render(&mut std::io::stdout())
                .context("cannot write the manual page")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
