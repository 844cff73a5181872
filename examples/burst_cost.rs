//! Runs a program under the translator with the sampled cache model, without bursts or with bursts whose records are dropped:
//! `burst_cost off|on|alone -- PROGRAM [ARGS]` (`alone`: without the cache model). It writes the cost to standard error as one line.

use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Instant;

use rprof::instrument::{CountingEngine, Translator};
use rprof::memory::{CacheModel, Geometry, PageColoring};
use rprof::profile::evidence::bursts::{BurstEvidence, BurstSink, TraceEntry, TracedBlock};
use rprof::profile::evidence::memory::AccessSink;
use rprof::tracee::launch::{Program, Streams, find_in_path, spawn_gated};

/// Entries of a burst: about 200,000 instructions.
const ENTRIES: usize = 120_000;

/// Counts and drops its input.
struct Counter {
    started: Instant,
    begun: HashMap<u32, (Instant, usize)>,
    blocks: u32,
    bursts: Vec<(f64, f64, usize)>,
}

impl BurstSink for Counter {
    fn block(&mut self, _number: u32, _block: TracedBlock) {
        self.blocks += 1;
    }

    fn begin(&mut self, thread: u32) {
        self.begun.insert(thread, (Instant::now(), 0));
    }

    fn record(&mut self, thread: u32, entries: &[TraceEntry]) {
        if let Some(burst) = self.begun.get_mut(&thread) {
            burst.1 += entries.len();
        }
    }

    fn goes_on(&self, thread: u32) -> bool {
        self.begun.get(&thread).is_some_and(|burst| burst.1 < ENTRIES)
    }

    fn end(&mut self, thread: u32) {
        if let Some((since, entries)) = self.begun.remove(&thread) {
            let at = since.duration_since(self.started).as_secs_f64();
            self.bursts.push((at, since.elapsed().as_secs_f64(), entries));
        }
    }

    fn finish(self: Box<Self>) -> BurstEvidence {
        let entries: usize = self.bursts.iter().map(|burst| burst.2).sum();
        let seconds: f64 = self.bursts.iter().map(|burst| burst.1).sum();
        let long = self.bursts.iter().filter(|burst| burst.2 >= ENTRIES).count();
        eprintln!(
            "bursts {} long {long} blocks {} entries {entries} in {seconds:.4} s: {:.1} ns each; first at {:.3} s",
            self.bursts.len(),
            self.blocks,
            1e9 * seconds / entries.max(1) as f64,
            self.bursts.first().map_or(0.0, |burst| burst.0)
        );
        if std::env::var_os("BURSTS").is_some() {
            for (at, seconds, entries) in &self.bursts {
                eprintln!("  at {at:.4} s: {entries} in {:.3} ms", 1e3 * seconds);
            }
        }
        BurstEvidence::default()
    }
}

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mode = arguments.first().and_then(|m| m.to_str()).unwrap_or_default().to_owned();
    let argv: Vec<OsString> = arguments.into_iter().skip_while(|a| a != "--").skip(1).collect();
    let Some(path) = argv.first().and_then(|name| find_in_path(name)) else {
        eprintln!("usage: burst_cost off|on|alone -- PROGRAM [ARGS]");
        std::process::exit(127);
    };
    let cpus: Vec<usize> = (0..std::thread::available_parallelism().map_or(1, |n| n.get())).collect();
    let (geometry, warnings) = Geometry::of_host(&[], cpus.len() as u32);
    let model = || Box::new(CacheModel::sampled(geometry, PageColoring::SmallPages, warnings)) as Box<dyn AccessSink>;
    let sink = (mode != "alone").then(model);
    let counter = || {
        let started = Instant::now();
        Box::new(Counter { started, begun: HashMap::new(), blocks: 0, bursts: Vec::new() }) as Box<dyn BurstSink>
    };
    let bursts = (mode != "off").then(counter);
    let child = spawn_gated(&Program { path, argv }, Streams::default()).unwrap_or_else(|e| fail(&e));
    let counted = Translator::new().run(child, sink, bursts).unwrap_or_else(|e| fail(&e));
    eprintln!("{mode} wall {:.4} s cpu {:.4} s", counted.evidence.wall_s, counted.evidence.cpu_s);
    let status = counted.status;
    std::process::exit(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) });
}

fn fail(error: &dyn std::error::Error) -> ! {
    eprintln!("burst_cost: {error}");
    std::process::exit(125)
}
