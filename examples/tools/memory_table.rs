//! The known kernels through the memory model: analytic, exact and sampled DRAM bytes, the error of the sample and the
//! cost of both: `cargo run --release --example tools -- memory_table`.

#[allow(dead_code)]
#[path = "../../tests/memory/kernels.rs"]
mod kernels;

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use rprof::memory::{CacheModel, LastLevelPolicy, PageColoring};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, Collection, MemoryEvidence, selected};

/// One kernel through one model.
struct Run {
    evidence: MemoryEvidence,
    /// CPU seconds in the model.
    seconds: f64,
    accesses: u64,
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

fn hand_over(sink: &mut dyn AccessSink, collection: Collection, batch: &[Access]) -> f64 {
    let began = cpu_time();
    match collection {
        Collection::All => sink.record(0, 1, batch),
        Collection::Selected { .. } => sink.record_selected(0, 1, batch),
    }
    (cpu_time() - began).as_secs_f64()
}

/// Runs `kernel` as an engine would that leaves out accesses which `sink` does not want.
fn run(mut sink: Box<dyn AccessSink>, kernel: fn(kernels::Emit)) -> Run {
    let (mut batch, mut seconds, mut accesses) = (Vec::new(), 0.0, 0);
    let mut collection = sink.collect(0);
    kernel(&mut |access| {
        accesses += 1;
        if selected(access.address, collection.mask()) {
            batch.push(access);
        }
        if batch.len() == 4096 {
            seconds += hand_over(sink.as_mut(), collection, &batch);
            batch.clear();
            collection = sink.collect(0);
        }
    });
    seconds += hand_over(sink.as_mut(), collection, &batch);
    let sites: Vec<CodeRef> = (0..16).map(|offset| CodeRef { module: 0, offset }).collect();
    Run { evidence: sink.finish(&sites), seconds, accesses }
}

fn dram(evidence: &MemoryEvidence) -> f64 {
    evidence.sites.iter().map(|s| s.traffic.dram_read + s.traffic.dram_write).sum()
}

pub fn main() {
    let host = || kernels::host(LastLevelPolicy::Victim);
    println!(
        "Caches of 32 KiB, 512 KiB and 4 MiB (victim). DRAM bytes; exact: physical = virtual addresses, beside arithmetic;"
    );
    println!(
        "sampled: pages placed pseudo-randomly, beside exact with the same pages; stated: the error it states itself."
    );
    println!("Cost: CPU nanoseconds in the model per access of the program.");
    println!(
        "{:<26} {:>10} {:>10} {:>8} {:>10} {:>8} {:>8} {:>9} {:>9}",
        "kernel", "analytic", "exact", "off", "sampled", "off", "stated", "exact ns", "sampled"
    );
    for kernel in kernels::all() {
        // Only physically contiguous memory makes the analytic cases exact; samples need placed pages.
        let identity = run(Box::new(CacheModel::exact(host(), PageColoring::Identity, Vec::new())), kernel.run);
        let exact = run(Box::new(CacheModel::exact(host(), PageColoring::SmallPages, Vec::new())), kernel.run);
        let sampled = run(Box::new(CacheModel::sampled(host(), PageColoring::SmallPages, Vec::new())), kernel.run);
        let percent = |ratio: f64| format!("{:+.2} %", 100.0 * (ratio - 1.0));
        let ns = |run: &Run| 1e9 * run.seconds / run.accesses as f64;
        println!(
            "{:<26} {:>10} {:>10.3e} {:>8} {:>10.3e} {:>8} {:>8} {:>9.1} {:>9.2}",
            kernel.name,
            kernel.dram.map_or("-".into(), |d| format!("{d:.3e}")),
            dram(&identity.evidence),
            kernel.dram.map_or("-".into(), |d| percent(dram(&identity.evidence) / d)),
            dram(&sampled.evidence),
            percent(dram(&sampled.evidence) / dram(&exact.evidence)),
            sampled.evidence.error.map_or("-".into(), |e| format!("{:.2} %", 100.0 * e)),
            ns(&exact),
            ns(&sampled),
        );
    }
}
