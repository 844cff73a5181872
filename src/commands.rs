//! One function per subcommand: from parsed arguments to library calls, and what is printed.

use std::path::Path;
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
    finish(session::profile(&options)?)
}

/// `rprof doctor`.
pub fn doctor(args: doctor::DoctorArgs) -> Result<ExitCode> {
    let diagnosis = rprof::counters::doctor::examine_this_host();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&diagnosis)?);
    } else {
        print!("{}", rprof::counters::listing::doctor_text(&diagnosis));
    }
    Ok(ExitCode::SUCCESS)
}

/// `rprof events`.
pub fn events(args: events::EventsArgs) -> Result<ExitCode> {
    let mut listing = rprof::counters::listing::list(Path::new("/sys"));
    let certificates = if args.check { session::known_work::check(&mut listing) } else { Vec::new() };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&listing)?);
    } else {
        print!("{}", rprof::counters::listing::events_text(&listing));
    }
    Ok(ExitCode::from(u8::from(rprof::counters::check::any_refuted(&certificates))))
}

/// `rprof __demo`: what `rprof demo` profiles.
pub fn demo_kernels(args: demo::KernelArgs) -> Result<ExitCode> {
    rprof::demo::run_kernels(&args.args)?;
    Ok(ExitCode::SUCCESS)
}

/// `rprof demo`.
pub fn demo(args: demo::DemoArgs) -> Result<ExitCode> {
    finish(session::demo::profile(args.output, args.quiet)?)
}

/// Writes the report files, prints the report, and hands on the program's exit status.
fn finish(outcome: session::Outcome) -> Result<ExitCode> {
    outcome.folder.write("profile.json", serde_json::to_string_pretty(&outcome.profile)?.as_bytes())?;
    Ok(ExitCode::from(outcome.end.exit_code()))
}

/// `rprof machine`.
pub fn machine(args: machine::MachineArgs) -> Result<ExitCode> {
    let options = session::ceilings::MachineOptions { quick: args.quick, refresh: args.refresh, quiet: false };
    let (machine, warnings) = session::ceilings::measure(options)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&machine)?);
    }
    for warning in warnings {
        eprintln!("rprof: {} ({}; {})", warning.text, warning.effect, warning.hint);
    }
    Ok(ExitCode::SUCCESS)
}
pub fn report(_args: report::ReportArgs) -> Result<ExitCode> {
    bail!("not built yet")
}
pub fn diff(_args: diff::DiffArgs) -> Result<ExitCode> {
    bail!("not built yet")
}
pub fn merge(_args: merge::MergeArgs) -> Result<ExitCode> {
    bail!("not built yet")
}
