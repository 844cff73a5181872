//! The cost of counting the kernels of a GPU: `gpu_cost --yard RPROF` for those of `rprof demo --gpu`, or
//! `gpu_cost SECONDS PROGRAM [ARGUMENT…]` for a program for which each group of metrics may take so many seconds more.
//!
//! Each group is counted in runs of its own, of which the shorter one counts. (Of a program the tensor operations beside the bytes, which say
//! which kernels have any; then the cost of the bytes is taken off.) Prints a line for each figure and ends with 1 where one is
//! above its limit.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use rprof::device::groups::{Group, groups};
use rprof::device::log::Record;
use rprof::device::{Injection, Log, Purpose};
use rprof::machine::Effort;
use rprof::machine::gpu::{GpuRequest, facts};

/// Runs of one kind.
const RUNS: usize = 2;

/// Limits on the cost of a group.
struct Limits {
    /// Its name.
    group: &'static str,
    /// Seconds of a process that launches one kernel.
    fixed_s: f64,
    /// Seconds of the known kernels together.
    whole_s: f64,
    /// Seconds of one launch of these, and times that its kernel may take.
    launch: (f64, f64),
}

/// In the order of [`groups`].
const LIMITS: [Limits; 3] = [
    Limits { group: "bytes", fixed_s: 0.6, whole_s: 1.0, launch: (0.002, 0.0) },
    Limits { group: "FLOPs", fixed_s: 0.6, whole_s: 1.0, launch: (0.004, 20.0) },
    Limits { group: "tensor operations", fixed_s: 0.69, whole_s: 3.0, launch: (0.09, 0.0) },
];

/// A run of a program.
struct Run {
    seconds: f64,
    status: ExitStatus,
    logs: Vec<Log>,
}

/// The shorter run of `program`, with the collector in it if it has a purpose.
fn run(program: &[&str], purpose: Option<&Purpose>) -> Result<Run, String> {
    let [name, arguments @ ..] = program else { return Err("no program".into()) };
    let mut shortest: Option<Run> = None;
    for _ in 0..RUNS {
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let injection = match purpose {
            Some(purpose) => Some(
                Injection::new(&std::env::temp_dir(), Path::new(name), purpose)
                    .map_err(|error| format!("writing the collector: {error}"))?,
            ),
            None => None,
        };
        if let Some(injection) = &injection {
            command.envs(injection.variables().iter().cloned());
        }
        let begin = Instant::now();
        let status = command.status().map_err(|error| format!("{name}: {error}"))?;
        let seconds = begin.elapsed().as_secs_f64();
        let logs = injection.as_ref().map(Injection::logs).unwrap_or_default();
        if shortest.as_ref().is_none_or(|other| seconds < other.seconds) {
            shortest = Some(Run { seconds, status, logs });
        }
    }
    shortest.ok_or_else(|| "no run".into())
}

fn records(run: &Run) -> impl Iterator<Item = &Record> {
    run.logs.iter().flat_map(|log| &log.records)
}

/// Launches that were counted.
fn counted(run: &Run) -> usize {
    records(run).filter(|record| matches!(record, Record::Range { .. })).count()
}

/// Seconds of one launch of each kernel in a run that traced, all together.
fn one_of_each(run: &Run) -> f64 {
    let mut seconds: BTreeMap<u32, f64> = BTreeMap::new();
    for record in records(run) {
        if let Record::Kernel { name, span, .. } = record {
            seconds.entry(*name).or_insert_with(|| span.seconds());
        }
    }
    seconds.values().sum()
}

/// A line; whether `seen` is at most `asked`.
fn at_most(what: &str, seen_s: f64, asked_s: f64) -> bool {
    let right = seen_s <= asked_s;
    println!("{what}: {:.1} ms, asked at most {:.1}{}", 1e3 * seen_s, 1e3 * asked_s, if right { "" } else { " WRONG" });
    right
}

/// The run that counts `groups`, which ends like `plain`; it must have counted something.
fn counting(program: &[&str], groups: Vec<Group>, plain: &Run) -> Result<Run, String> {
    let counting = run(program, Some(&Purpose::Count(groups)))?;
    match counting.status == plain.status {
        true if counted(&counting) > 0 => Ok(counting),
        true => Err(format!("{program:?}: nothing was counted (see rprof doctor)")),
        false => Err(format!("{program:?} ended with {} instead of {}", counting.status, plain.status)),
    }
}

/// The known kernels, and the one of the start-up check.
fn of_yard(rprof: &str, groups: &[Group]) -> Result<bool, String> {
    let (one, all) = ([rprof, "__gpu_check"], [rprof, "__gpu_demo"]);
    let (plain_one, plain_all) = (run(&one, None)?, run(&all, None)?);
    let kernels_s = one_of_each(&run(&all, Some(&Purpose::Trace))?);
    let mut right = true;
    for (group, Limits { group: name, fixed_s, whole_s, launch: (each_s, times) }) in groups.iter().zip(&LIMITS) {
        // No group waits for the counts of another one.
        let alone = || vec![Group { condition: None, ..group.clone() }];
        let fixed = counting(&one, alone(), &plain_one)?.seconds - plain_one.seconds;
        let whole = counting(&all, alone(), &plain_all)?;
        let n = counted(&whole) as f64;
        let more = whole.seconds - plain_all.seconds;
        right &= at_most(&format!("{name}: fixed cost of a process"), fixed, *fixed_s);
        right &= at_most(&format!("{name}: known kernels, {n} launches counted"), more, *whole_s);
        let asked = each_s + times * kernels_s / n;
        right &= at_most(&format!("{name}: a launch beyond the fixed cost, mean"), (more - fixed) / n, asked);
    }
    Ok(right)
}

/// Any program.
fn of_program(program: &[&str], asked_s: f64, groups: &[Group]) -> Result<bool, String> {
    let plain = run(program, None)?;
    let mut right = true;
    let mut bytes_s = plain.seconds;
    for (n, (group, Limits { group: name, .. })) in groups.iter().zip(&LIMITS).enumerate() {
        // A condition is a metric of the first group.
        let depends = group.condition.is_some();
        let together: Vec<Group> = groups.iter().take(usize::from(depends)).chain([group]).cloned().collect();
        let counting = counting(program, together, &plain)?;
        let before_s = if depends { bytes_s } else { plain.seconds };
        if n == 0 {
            bytes_s = counting.seconds;
        }
        let what = format!("{name}: {} counts of the program's launches", counted(&counting));
        right &= at_most(&what, counting.seconds - before_s, asked_s);
    }
    Ok(right)
}

fn compare(arguments: &[&str]) -> Result<bool, String> {
    let gpus = facts(&GpuRequest::new(Effort::Quick)).map_err(|error| error.to_string())?;
    let gpu = gpus.and_then(|gpus| gpus.into_iter().next()).ok_or("there is no GPU")?;
    let groups = groups(gpu.capability.0, gpu.capability.1);
    match arguments {
        ["--yard", rprof] => of_yard(rprof, &groups),
        [seconds, program @ ..] if !program.is_empty() => {
            let asked_s = seconds.parse::<f64>().map_err(|_| format!("{seconds}: a number of seconds is asked for"))?;
            of_program(program, asked_s, &groups)
        }
        _ => Err("usage: gpu_cost --yard RPROF | gpu_cost SECONDS PROGRAM [ARGUMENT…]".into()),
    }
}

pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match compare(&arguments) {
        Ok(right) => ExitCode::from(u8::from(!right)),
        Err(error) => {
            eprintln!("gpu_cost: {error}");
            ExitCode::from(2)
        }
    }
}
