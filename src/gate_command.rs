//! `rprof gate`: runs a program on the reference core, or reads a result, and compares it with a base.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use rprof::cli::gate::{GateArgs, GateFormatArg};
use rprof::gate::{self, Comparison, Verdict};
use rprof::session;

use crate::commands::{bad_option, print};

/// `rprof gate`.
pub fn gate(args: GateArgs) -> Result<ExitCode> {
    if args.format == GateFormatArg::Markdown && args.base.is_none() {
        bad_option("--format markdown: it is the form of a comparison; give the other build's result with --base");
    }
    // Before the program runs, which may take long.
    let base = args.base.as_deref().map(gate::read).transpose()?;
    let head = match &args.head {
        Some(path) => gate::read(path)?,
        None => {
            let options = session::gate::GateOptions { program: args.program, variables: args.env, quiet: args.quiet };
            session::gate::run(&options)?
        }
    };
    if let Some(path) = &args.output {
        let json = serde_json::to_string_pretty(&head)? + "\n";
        session::output::write_whole(path, json.as_bytes())?;
    }
    let comparison = base.map(|base| Comparison::new(&base, &head, args.threshold)).transpose()?;
    let text = match (args.format, &comparison) {
        (GateFormatArg::Bencher, _) => {
            let program = head.command.first().map(|program| Path::new(program).file_name().unwrap_or_default());
            let name = args.name.unwrap_or_else(|| program.unwrap_or_default().to_string_lossy().into_owned());
            serde_json::to_string_pretty(&gate::bencher::report(&head, &name))? + "\n"
        }
        (GateFormatArg::Json, Some(comparison)) => serde_json::to_string_pretty(comparison)? + "\n",
        (GateFormatArg::Json, None) => serde_json::to_string_pretty(&head)? + "\n",
        (GateFormatArg::Markdown, Some(comparison)) => gate::markdown::markdown(comparison),
        (_, Some(comparison)) => gate::text::comparison(comparison),
        (_, None) => gate::text::result(&head),
    };
    print(text)?;
    let is_worse = comparison.is_some_and(|comparison| comparison.verdict == Verdict::Regression);
    Ok(ExitCode::from(u8::from(is_worse)))
}
