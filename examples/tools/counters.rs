//! Counts a program's hardware events and nothing else, to measure the cost of counting:
//! `counters [--hz HZ] [--from DIR] -- PROGRAM [ARGS]`. DIR has event tables and a sysfs tree (see `--counters-from` of
//! rprof); without it this CPU's own are taken. The counts go to standard error.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::sys::wait::waitpid;
use rprof::counters::collect::plan::{Plan, tables_of};
use rprof::counters::collect::{CollectOptions, Collector};
use rprof::counters::kernel::Linux;
use rprof::counters::trust::Verdict;
use rprof::counters::{cpu, group, pmu, table, tables};
use rprof::tracee::launch::{Program, Streams, spawn_gated};

pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("counters: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (mut hz, mut from) = (1000.0, None);
    let mut arguments = std::env::args_os().skip(2);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--hz") => {
                hz = arguments.next().and_then(|a| a.to_str()?.parse().ok()).ok_or("--hz needs a number")?
            }
            Some("--from") => from = Some(PathBuf::from(arguments.next().ok_or("--from needs a folder")?)),
            Some("--") => break,
            _ => return Err("usage: counters [--hz HZ] [--from DIR] -- PROGRAM [ARGS]".into()),
        }
    }
    let argv: Vec<OsString> = arguments.collect();
    let path = PathBuf::from(argv.first().ok_or("no program")?);
    let (tables, sysfs) = match from {
        Some(folder) => (tables::from_folder(&folder)?, folder.join("sysfs")),
        None => {
            let id = cpu::identify(Path::new("/sys")).ok_or("this CPU does not identify itself")?;
            (tables_of(&tables::all()?, &id), PathBuf::from("/sys"))
        }
    };
    let unchecked = |_: &table::Event, _: &pmu::Pmu| Verdict::NotChecked { why: "not asked for".into() };
    let plan = Plan::new(&tables, &pmu::list(&sysfs), group::nmi_watchdog(Path::new("/proc")), unchecked);
    let cpus = std::thread::available_parallelism()?.get() as u32;
    let child = spawn_gated(&Program { path, argv }, Streams::default())?;
    let options = CollectOptions { frequency_hz: hz, cpus, sums_alone: false };
    let collector = Collector::arm(Linux, plan, child.pid().as_raw(), options);
    let pid = child.release()?;
    waitpid(pid, None)?;
    let evidence = collector.finish();
    for event in &evidence.events {
        match &event.total {
            Ok(total) => eprintln!("{} {} {}", event.name, total.value * event.weight, event.unit),
            Err(reason) => eprintln!("{} not measured, because {reason}", event.name),
        }
    }
    eprintln!("{} readings", evidence.readings.len());
    Ok(())
}
