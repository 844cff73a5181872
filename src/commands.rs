//! One function per subcommand: from parsed arguments to library calls, and what is printed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use rprof::cli::{demo, diff, doctor, events, machine, merge, report, run};
use rprof::session::{self, Engine, Memory, Passes, RunOptions};

/// `rprof [run]`.
pub fn run(args: run::RunArgs) -> Result<ExitCode> {
    let options = RunOptions {
        program: args.program,
        output: args.output,
        passes: args.passes.map(|p| match p {
            run::PassesArg::Timed => Passes::Timed,
            run::PassesArg::Counted => Passes::Counted,
            run::PassesArg::Both => Passes::Both,
        }),
        memory: match args.memory {
            run::MemoryArg::Off => Memory::Off,
            run::MemoryArg::Sampled => Memory::Sampled,
            run::MemoryArg::Exact => Memory::Exact,
        },
        frequency_hz: args.frequency,
        between: args.between,
        full_names: args.full_names,
        quiet: args.quiet,
        engine: match args.engine {
            run::EngineArg::Translator => Engine::Translator,
            run::EngineArg::SingleStep => Engine::SingleStep,
        },
    };
    let outcome = session::profile(&options)?;
    Ok(ExitCode::from(outcome.end.exit_code()))
}
