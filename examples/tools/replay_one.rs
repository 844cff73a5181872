//! Replays one program through the core model: `replay_one [--machine FILE] [-F HZ] [--function NAME] -- PROGRAM [ARGS]`.
//!
//! Runs the program twice: sampled, for the seconds of its functions, and counted, with sampled memory and bursts. Prints for each hot
//! function cycles per instruction, measured (seconds × clock / instructions) and replayed, their distance, and the largest causes.
//! With `--function` it also prints that function's instructions: cycles an execution, measured and replayed, and the largest causes.
//! FILE is the output of `rprof machine --json`; without it the host's ceilings are loaded or measured.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::time::Instant;

use anyhow::{Context, bail};
use rprof::instrument::{Counted, CountingEngine, Translator};
use rprof::join::Resolver;
use rprof::machine::{Effort, Quiet, Request, load_or_measure};
use rprof::memory::{CacheModel, Geometry, PageColoring};
use rprof::profile::Machine;
use rprof::profile::account::Cause;
use rprof::profile::code::{CodeRef, ModuleInfo};
use rprof::profile::evidence::replayed::ReplayedEvidence;
use rprof::profile::evidence::timed::TimedEvidence;
use rprof::replay::{Options, Recorder, replay};
use rprof::sample::{SampleOptions, run};
use rprof::symbols::Symbols;
use rprof::tracee::launch::{Program, Streams, find_in_path, spawn_gated};

/// Measured and replayed figures of a function.
#[derive(Default)]
struct Function {
    name: String,
    seconds: f64,
    instructions: u64,
    replayed: u64,
    bursts: u32,
    causes: [f64; Cause::ALL.len()],
    changed: Vec<f64>,
}

/// Functions by module and start.
#[derive(Default)]
struct Functions {
    symbols: Symbols,
    by_start: HashMap<(String, u64), Function>,
}

impl Functions {
    fn at(&mut self, modules: &[ModuleInfo], at: CodeRef) -> &mut Function {
        let module = &modules[at.module as usize];
        let found = self.symbols.function(module, at.offset);
        let function = self.by_start.entry((module.identity().to_owned(), found.start)).or_default();
        if function.name.is_empty() {
            function.name = found.name.to_string();
        }
        function
    }

    fn add_time(&mut self, timed: &TimedEvidence) {
        for sample in timed.samples.iter().filter(|sample| !sample.kernel && !sample.off_cpu) {
            if let Some(at) = sample.stack.first() {
                self.at(&timed.modules, *at).seconds += sample.weight_s;
            }
        }
    }

    fn add_counts(&mut self, counted: &Counted) {
        for block in &counted.evidence.blocks {
            let executions: u64 = block.executions.iter().map(|of| of.1).sum();
            for instruction in &mut iced_x86::Decoder::new(64, &block.code, 0) {
                let at = CodeRef { offset: block.at.offset + instruction.ip(), ..block.at };
                self.at(&counted.evidence.modules, at).instructions += executions;
            }
        }
    }

    fn add_replay(&mut self, modules: &[ModuleInfo], replayed: &ReplayedEvidence) {
        for burst in &replayed.bursts {
            let mut met = Vec::new();
            for instruction in &burst.instructions {
                let function = self.at(modules, instruction.at);
                function.replayed += u64::from(instruction.executed);
                for (sum, own) in function.causes.iter_mut().zip(instruction.cycles) {
                    *sum += f64::from(own);
                }
                function.changed.resize(replayed.what_ifs.len(), 0.0);
                for (sum, own) in function.changed.iter_mut().zip(&instruction.changed) {
                    *sum += f64::from(*own);
                }
                if !met.contains(&function.name) {
                    met.push(function.name.clone());
                    function.bursts += 1;
                }
            }
        }
    }
}

pub fn main() -> anyhow::Result<()> {
    let (mut file, mut options, mut inside) = (None, SampleOptions::default(), None);
    let mut arguments = std::env::args_os().skip(2);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("a value is missing");
        match argument.to_str() {
            Some("--machine") => file = Some(value()?),
            Some("--function") => inside = Some(value()?.to_string_lossy().into_owned()),
            Some("-F") => options.frequency_hz = Some(value()?.to_string_lossy().parse()?),
            Some("--") => break,
            _ => bail!("unknown option {argument:?}"),
        }
    }
    let argv: Vec<OsString> = arguments.collect();
    let name = argv.first().context("no program was given")?;
    let path = find_in_path(name).with_context(|| format!("{name:?} is not in PATH"))?;
    let machine: Machine = match file {
        Some(file) => serde_json::from_str(&std::fs::read_to_string(file)?)?,
        None => load_or_measure(&Request::new(Effort::Full), &mut Quiet::default())?,
    };
    let clock_hz = machine.ceiling("issue", 1).and_then(|issue| issue.clock_hz).context("the clock is not known")?;
    let start = || spawn_gated(&Program { path: path.clone(), argv: argv.clone() }, Streams::default());
    let timed = run(start()?, &options)?;
    let (geometry, mut warnings) = Geometry::of_host(&machine.caches, machine.cores);
    let (geometry, warning) = geometry.as_measured(&machine);
    warnings.extend(warning);
    let model = CacheModel::sampled(geometry, PageColoring::SmallPages, warnings);
    let recorder = Recorder::new(&machine);
    let counted = Translator::new().run(start()?, Some(Box::new(model)), Some(Box::new(recorder)))?;
    let bursts = counted.bursts.as_ref().context("no bursts")?;
    let begun = Instant::now();
    let replayed = replay(bursts, counted.memory.as_ref(), &machine, Options::default());
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{} bursts, {} replayed with {} changes in {took:.3} s",
        bursts.bursts.len(),
        replayed.bursts.len(),
        replayed.what_ifs.len()
    );
    let mut functions = Functions::default();
    functions.add_time(&timed.evidence);
    functions.add_counts(&counted);
    functions.add_replay(&counted.evidence.modules, &replayed);
    if let Some(name) = inside {
        print_instructions(&name, &mut functions, (&timed.evidence, &counted, &replayed), clock_hz);
    }
    print(functions, &replayed, clock_hz);
    Ok(())
}

/// An instruction: seconds of samples, executions, executions replayed, cycles replayed by cause.
type Instruction = (f64, u64, u64, [f64; Cause::ALL.len()]);

fn print_instructions(
    name: &str,
    functions: &mut Functions,
    (timed, counted, replayed): (&TimedEvidence, &Counted, &ReplayedEvidence),
    clock_hz: f64,
) {
    let mut all: BTreeMap<(String, u64), (Instruction, String)> = BTreeMap::new();
    let mut key = |modules: &[ModuleInfo], at: CodeRef| {
        let inside = functions.at(modules, at).name == name;
        inside.then(|| (modules[at.module as usize].identity().to_owned(), at.offset))
    };
    for sample in timed.samples.iter().filter(|sample| !sample.kernel && !sample.off_cpu) {
        if let Some(key) = sample.stack.first().and_then(|at| key(&timed.modules, *at)) {
            all.entry(key).or_default().0.0 += sample.weight_s;
        }
    }
    for block in &counted.evidence.blocks {
        let executions: u64 = block.executions.iter().map(|of| of.1).sum();
        for instruction in &mut iced_x86::Decoder::new(64, &block.code, 0) {
            let at = CodeRef { offset: block.at.offset + instruction.ip(), ..block.at };
            if let Some(key) = key(&counted.evidence.modules, at) {
                let (own, text) = all.entry(key).or_default();
                (own.1, *text) = (own.1 + executions, instruction.to_string());
            }
        }
    }
    for instruction in replayed.bursts.iter().flat_map(|burst| &burst.instructions) {
        if let Some(key) = key(&counted.evidence.modules, instruction.at) {
            let (own, _) = all.entry(key).or_default();
            own.2 += u64::from(instruction.executed);
            own.3.iter_mut().zip(instruction.cycles).for_each(|(sum, cycles)| *sum += f64::from(cycles));
        }
    }
    for ((_, offset), ((seconds, executions, replayed, causes), text)) in &all {
        let cycles: f64 = causes.iter().sum();
        let mut sorted: Vec<(f64, Cause)> = causes.iter().copied().zip(Cause::ALL).collect();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
        let top: Vec<String> = sorted
            .iter()
            .take(3)
            .filter(|(own, _)| *own > 0.1 * cycles)
            .map(|(own, cause)| format!("{} {:.0} %", cause.name(), 100.0 * own / cycles))
            .collect();
        println!(
            "{offset:8x} {executions:12} {:8.2} {:8.2}  {text:48} {}",
            seconds * clock_hz / *executions as f64,
            cycles / *replayed as f64,
            top.join(", ")
        );
    }
}

fn print(functions: Functions, replayed: &ReplayedEvidence, clock_hz: f64) {
    let mut functions: Vec<Function> = functions.by_start.into_values().collect();
    functions.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let all: f64 = functions.iter().map(|function| function.seconds).sum();
    for function in functions.iter().filter(|function| function.seconds > 0.02 * all) {
        let cycles: f64 = function.causes.iter().sum();
        let model = cycles / function.replayed as f64;
        let measured = function.seconds * clock_hz / function.instructions as f64;
        let mut causes: Vec<(f64, Cause)> = function.causes.iter().copied().zip(Cause::ALL).collect();
        causes.sort_by(|a, b| b.0.total_cmp(&a.0));
        let top = causes.iter().take(4).filter(|(own, _)| *own > 0.02 * cycles);
        let top: Vec<String> =
            top.map(|(own, cause)| format!("{} {:.0} %", cause.name(), 100.0 * own / cycles)).collect();
        let changes = replayed.what_ifs.iter().zip(&function.changed);
        let left: Vec<String> =
            changes.map(|(change, own)| format!("{change:?} {:+.0} %", 100.0 * (own / cycles - 1.0))).collect();
        println!(
            "{:32} {:8.3} s  measured {measured:.3} replayed {model:.3} ({:+.0} %)  bursts {}  {}",
            function.name,
            function.seconds,
            100.0 * (model / measured - 1.0),
            function.bursts,
            top.join(", ")
        );
        println!("{:32} {}", "", left.join(", "));
    }
}
