//! The timed pass alone: `sample [--ptrace|--perf] [-F HZ] [--stack BYTES] [--quiet] -- PROGRAM [ARGS]`.
//!
//! Prints the heaviest places of code (16 bytes each) as `module+0xoffset` with their callers. For trying the sampler out and for
//! `tests/bench.d/timed.sh`; the command line proper is `rprof --passes timed`.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

use anyhow::{Context, bail};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::timed::TimedEvidence;
use rprof::sample::{SampleOptions, Sampler, run};
use rprof::tracee::launch::{Program, Streams, find_in_path, spawn_gated};

pub fn main() -> anyhow::Result<ExitCode> {
    let mut options = SampleOptions::default();
    let mut quiet = false;
    let mut arguments = std::env::args_os().skip(2);
    while let Some(argument) = arguments.next() {
        let mut number = || -> anyhow::Result<f64> {
            let text = arguments.next().context("a number is missing")?;
            Ok(text.to_string_lossy().parse()?)
        };
        match argument.to_str() {
            Some("--ptrace") => options.sampler = Sampler::Ptrace,
            Some("--perf") => options.sampler = Sampler::Perf,
            Some("--quiet") => quiet = true,
            Some("-F") => options.frequency_hz = Some(number()?),
            Some("--stack") => options.stack_bytes = number()? as u32,
            Some("--") => break,
            _ => bail!("unknown option {argument:?}"),
        }
    }
    let argv: Vec<_> = arguments.collect();
    let name = argv.first().context("no program was given")?;
    let path = find_in_path(name).with_context(|| format!("{name:?} is not in PATH"))?;
    let child = spawn_gated(&Program { path, argv }, Streams::default())?;
    let timed = run(child, &options)?;
    if !quiet {
        print(&timed.evidence);
    }
    let status = timed.status;
    Ok(ExitCode::from(status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(125) as u8))
}

fn print(e: &TimedEvidence) {
    let work: f64 = e.samples.iter().filter(|s| !s.off_cpu).map(|s| s.weight_s).sum();
    eprintln!(
        "{}: {:.3} s elapsed, {:.3} s CPU, {} samples of {work:.3} s at {} Hz, {} threads, {} intervals, {} lost",
        e.source,
        e.wall_s,
        e.cpu_s,
        e.samples.len(),
        e.frequency_hz,
        e.threads.len(),
        e.on_cpu.len(),
        e.lost
    );
    e.warnings.iter().for_each(|w| eprintln!("warning: {} {}", w.text, w.effect));
    let mut places: HashMap<(bool, bool, Vec<CodeRef>), f64> = HashMap::new();
    for s in &e.samples {
        let place = |c: &CodeRef| CodeRef { offset: c.offset & !0xf, ..*c };
        let stack = s.stack.iter().take(4).map(place).collect();
        *places.entry((s.kernel, s.off_cpu, stack)).or_default() += s.weight_s;
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by(|a, b| b.1.total_cmp(&a.1));
    for ((kernel, off_cpu, stack), seconds) in places.into_iter().take(12) {
        let place = |c: &CodeRef| format!("{}+{:#x}", e.modules[c.module as usize].file_name(), c.offset);
        let stack: Vec<String> = stack.iter().map(place).collect();
        let kind = if off_cpu {
            "waiting"
        } else if kernel {
            "kernel"
        } else {
            "user"
        };
        eprintln!("{seconds:9.4} s {kind:7} {}", stack.join(" < "));
    }
    for t in e.threads.iter().take(8) {
        let name = t.name.as_deref().unwrap_or("?");
        eprintln!(
            "thread {} {}/{} {name}: {:.4}–{:.4} s, {:.4} s CPU, {:?} CPUs allowed",
            t.ordinal, t.pid, t.tid, t.start_s, t.end_s, t.cpu_s, t.allowed_cpus
        );
    }
}
