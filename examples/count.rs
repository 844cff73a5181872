//! Runs a program under a counting engine and prints totals: `count [--single-step] [--blocks] [--memory]
//! -- PROGRAM [ARGS]`. With `--memory` accesses are collected, too, and their number and bytes are printed.
//! The program's exit status is passed on (128 + N for a signal).

use std::ffi::OsString;

use rprof::instrument::{CountingEngine, SingleStep, Translator};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, MemoryEvidence};
use rprof::tracee::launch::{Program, Streams, find_in_path, spawn_gated};

fn main() {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let split = arguments.iter().position(|a| a == "--").unwrap_or(arguments.len());
    let argv: Vec<OsString> = arguments.split_off(split).into_iter().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|a| a == name);
    let Some(path) = argv.first().and_then(|name| find_in_path(name)) else {
        eprintln!("usage: count [--single-step] [--blocks] -- PROGRAM [ARGS]");
        std::process::exit(127);
    };
    let child = spawn_gated(&Program { path, argv }, Streams::default()).unwrap_or_else(|e| fail(&e));
    let mut engine: Box<dyn CountingEngine> =
        if has("--single-step") { Box::new(SingleStep::new()) } else { Box::new(Translator::new()) };
    let sink = has("--memory").then(|| Box::new(Adder::default()) as Box<dyn AccessSink>);
    let counted = engine.run(child, sink, None).unwrap_or_else(|e| fail(&e));
    let evidence = &counted.evidence;
    let mut instructions = 0;
    for block in &evidence.blocks {
        let mut decoder = iced_x86::Decoder::new(64, &block.code, 0);
        let length = decoder.iter().count() as u64;
        let executions: u64 = block.executions.iter().map(|e| e.1).sum();
        instructions += length * executions;
        if has("--blocks") {
            let module = evidence.modules[block.at.module as usize].file_name();
            eprintln!("{module}+{:#x} {length} {executions}", block.at.offset);
        }
    }
    eprintln!(
        "count: source {} blocks {} instructions {instructions} threads {} wall_s {:.4} cpu_s {:.4} uncounted {:.4}",
        evidence.source,
        evidence.blocks.len(),
        evidence.threads.len(),
        evidence.wall_s,
        evidence.cpu_s,
        evidence.uncounted_share
    );
    for warning in &evidence.warnings {
        eprintln!("count: warning {}: {}", warning.code, warning.text);
    }
    let status = counted.status;
    std::process::exit(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) });
}

/// Adds up its input.
#[derive(Default)]
struct Adder {
    accesses: u64,
    bytes: u64,
    mixed: u64,
}

impl AccessSink for Adder {
    fn record(&mut self, _thread: u32, _process: u32, batch: &[Access]) {
        for access in batch {
            self.accesses += 1;
            self.bytes += u64::from(access.bytes);
            self.mixed = self.mixed.wrapping_add(access.address.wrapping_mul(u64::from(access.bytes) + 1));
        }
    }

    fn finish(self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence {
        eprintln!(
            "count: accesses {} bytes {} addresses {:#x} sites {}",
            self.accesses,
            self.bytes,
            self.mixed,
            sites.len()
        );
        MemoryEvidence::default()
    }
}

fn fail(error: &dyn std::error::Error) -> ! {
    eprintln!("count: {error}");
    std::process::exit(125)
}
