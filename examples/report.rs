//! `cargo run --example report -- PROFILE FORMAT [WIDTH]`: one report of a stored profile on standard output.

use std::path::Path;
use std::process::ExitCode;

use rprof::report::{Format, View, json, render};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(path), Some(format)) = (args.first(), args.get(1)) else {
        eprintln!("usage: report PROFILE FORMAT [WIDTH]");
        return ExitCode::from(2);
    };
    let Some(format) = Format::ALL.into_iter().find(|f| f.name() == format) else {
        eprintln!("no such format: {format}");
        return ExitCode::from(2);
    };
    let width = args.get(2).and_then(|w| w.parse().ok()).unwrap_or(100);
    match json::read(Path::new(path)).and_then(|p| render(&p, format, &View { width, ..View::default() })) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("rprof: {error}");
            ExitCode::from(125)
        }
    }
}
