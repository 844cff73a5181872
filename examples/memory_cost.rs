//! Runs a program under the translator with a cache model: `memory_cost off|sampled|exact -- PROGRAM [ARGS]`. Its
//! traffic at each level goes to standard error as one line; the program's own output is left alone.

use std::ffi::OsString;

use rprof::instrument::{CountingEngine, Translator};
use rprof::memory::{CacheModel, Geometry, PageColoring};
use rprof::profile::evidence::memory::{AccessSink, MemoryEvidence, Traffic};
use rprof::tracee::launch::{Program, Streams, find_in_path, spawn_gated};

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mode = arguments.first().and_then(|m| m.to_str()).unwrap_or_default().to_owned();
    let argv: Vec<OsString> = arguments.into_iter().skip_while(|a| a != "--").skip(1).collect();
    let Some(path) = argv.first().and_then(|name| find_in_path(name)) else {
        eprintln!("usage: memory_cost off|sampled|exact -- PROGRAM [ARGS]");
        std::process::exit(127);
    };
    let cpus: Vec<usize> = (0..std::thread::available_parallelism().map_or(1, |n| n.get())).collect();
    let (geometry, warnings) = Geometry::of_host(&[], cpus.len() as u32);
    let sink: Option<Box<dyn AccessSink>> = match mode.as_str() {
        "exact" => Some(Box::new(CacheModel::exact(geometry, PageColoring::SmallPages, warnings))),
        "sampled" => Some(Box::new(CacheModel::sampled(geometry, PageColoring::SmallPages, warnings))),
        _ => None,
    };
    let child = spawn_gated(&Program { path, argv }, Streams::default()).unwrap_or_else(|e| fail(&e));
    let counted = Translator::new().run(child, sink, None).unwrap_or_else(|e| fail(&e));
    if let Some(memory) = &counted.memory {
        print(memory);
    }
    let status = counted.status;
    std::process::exit(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) });
}

fn print(memory: &MemoryEvidence) {
    let mut total = Traffic::default();
    memory.sites.iter().for_each(|s| total.add(&s.traffic));
    eprintln!(
        "traffic {} l1 {:.4e} l2 {:.4e} l3 {:.4e} dram {:.4e} sites {} error {:?}",
        memory.mode,
        total.l1_read + total.l1_write,
        total.l2_read + total.l2_write,
        total.l3_read + total.l3_write,
        total.dram_read + total.dram_write,
        memory.sites.len(),
        memory.error
    );
}

fn fail(error: &dyn std::error::Error) -> ! {
    eprintln!("memory_cost: {error}");
    std::process::exit(125)
}
