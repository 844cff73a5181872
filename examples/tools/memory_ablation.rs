//! What each estimator of the sampled memory model is worth:
//! `memory_ablation CACHES FUNCTION[,FUNCTION…] EXACT_PASSES PASSES PROGRAM [ARGUMENT…]`.
//!
//! CACHES: `host`, or KiB of L1, L2 and the last level such as `16,256,4096`. The number of passes is the program's last argument. Runs
//! EXACT_PASSES through the exact model, then PASSES once through the sampled model as it is and, fed with the very same windows, through
//! models that lack one estimator each. Prints a line for every function and level: the exact bytes a pass, the error that the whole model
//! states, and in percent how far off it is and each of the others are. Of compulsory misses: their share, and percentage points.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use rprof::instrument::{Counted, CountingEngine, Translator};
use rprof::join::{Evidence, join};
use rprof::memory::{CacheModel, Estimator, Geometry, Level, PageColoring};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::data::Allocation;
use rprof::profile::evidence::memory::{Access, AccessSink, Amount, Collection, Executed, MemoryEvidence, Phase};
use rprof::profile::function::Bytes;
use rprof::profile::{Machine, Run};
use rprof::symbols::Symbols;
use rprof::tracee::launch::{Program, Streams, find_in_path, spawn_gated};

/// Several models that get the same accesses; the first one decides which.
struct Beside {
    models: Vec<Box<dyn AccessSink>>,
    evidence: Arc<Mutex<Vec<MemoryEvidence>>>,
}

impl Beside {
    fn each(&mut self, f: impl FnMut(&mut Box<dyn AccessSink>)) {
        self.models.iter_mut().for_each(f);
    }
}

impl AccessSink for Beside {
    fn record(&mut self, thread: u32, process: u32, batch: &[Access]) {
        self.each(|model| model.record(thread, process, batch));
    }

    fn record_selected(&mut self, thread: u32, process: u32, batch: &[Access]) {
        self.each(|model| model.record_selected(thread, process, batch));
    }

    fn work(&mut self) -> bool {
        let more: Vec<bool> = self.models.iter_mut().map(|model| model.work()).collect();
        more.contains(&true)
    }

    fn catch_up(&mut self) {
        self.each(|model| model.catch_up());
    }

    fn is_behind(&self) -> bool {
        self.models.iter().any(|model| model.is_behind())
    }

    fn collect(&mut self, thread: u32) -> Collection {
        let wanted: Vec<Collection> = self.models.iter_mut().map(|model| model.collect(thread)).collect();
        assert!(wanted.iter().all(|w| *w == wanted[0]), "the models want different accesses");
        wanted[0]
    }

    fn phase(&self) -> Phase {
        self.models[0].phase()
    }

    fn enter(&mut self, thread: u32, phase: Phase) {
        self.each(|model| model.enter(thread, phase));
    }

    fn ended(&mut self, thread: u32) {
        self.each(|model| model.ended(thread));
    }

    fn ending(&mut self) {
        self.each(|model| model.ending());
    }

    fn end_phase(&mut self) {
        self.each(|model| model.end_phase());
    }

    fn deltas(&mut self, amounts: &[Amount]) {
        self.each(|model| model.deltas(amounts));
    }

    fn executed(&mut self, executed: Executed) {
        self.each(|model| model.executed(executed));
    }

    fn allocated(&mut self, process: u32, allocation: Allocation) {
        self.each(|model| model.allocated(process, allocation.clone()));
    }

    fn forked(&mut self, parent: u32, child: u32) {
        self.each(|model| model.forked(parent, child));
    }

    fn unmapped(&mut self, process: u32, from: u64, to: u64) {
        self.each(|model| model.unmapped(process, from, to));
    }

    fn finish(self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence {
        let all: Vec<MemoryEvidence> = self.models.into_iter().map(|model| model.finish(sites)).collect();
        if let Ok(mut evidence) = self.evidence.lock() {
            *evidence = all;
        }
        MemoryEvidence::default()
    }
}

/// Figures of a function.
struct Figures {
    /// By level: bytes a pass, stated error.
    levels: [(&'static str, (f64, Option<f64>)); 3],
    /// Share of compulsory misses among those of the last level.
    first: f64,
}

pub fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let [caches, functions, exact_passes, passes, command @ ..] = arguments.as_slice() else {
        anyhow::bail!("usage: memory_ablation CACHES FUNCTION[,FUNCTION…] EXACT_PASSES PASSES PROGRAM [ARGUMENT…]");
    };
    let geometry = geometry(caches)?;
    let coloring = PageColoring::of_host();
    let sampled = || CacheModel::sampled(geometry.clone(), coloring, Vec::new()).of_host_processes();

    let exact = CacheModel::exact(geometry.clone(), coloring, Vec::new()).of_host_processes();
    let exact = run(vec![Box::new(exact)], command, exact_passes)?;
    let mut models: Vec<Box<dyn AccessSink>> = vec![Box::new(sampled())];
    for estimator in Estimator::ALL {
        models.push(Box::new(sampled().without(estimator)));
    }
    let (counted, evidence) = run(models, command, passes)?;
    for function in functions.split(',') {
        let truth = figures(&exact.0, &exact.1[0], function, exact_passes.parse()?)?;
        let all: Vec<Figures> = evidence
            .iter()
            .map(|memory| figures(&counted, memory, function, passes.parse()?))
            .collect::<anyhow::Result<_>>()?;
        print(function, &truth, &all);
    }
    Ok(())
}

/// The caches to simulate.
fn geometry(caches: &str) -> anyhow::Result<Geometry> {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get()) as u32;
    let (host, _) = Geometry::of_host(&[], cpus);
    if caches == "host" {
        return Ok(host);
    }
    let sizes: Vec<u64> = caches.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let [l1, l2, last] = sizes[..] else { anyhow::bail!("{caches} is not three sizes in KiB, such as 16,256,4096") };
    let level = |kib: u64, ways| Level { size: kib << 10, ways, shared_by: 1 };
    Ok(Geometry { l1: level(l1, 8), l2: Some(level(l2, 8)), last: level(last, 16), ..host })
}

/// A line for each level.
fn print(function: &str, truth: &Figures, all: &[Figures]) {
    for (level, (name, (exact, _))) in truth.levels.iter().enumerate() {
        let off = |figures: &Figures| format!("{:+.2}", 100.0 * (figures.levels[level].1.0 / exact - 1.0));
        let stated = all[0].levels[level].1.1.map_or("-".into(), |error| format!("{:.2}", 100.0 * error));
        println!("{function} {name} {exact:.4e} {stated} {}", all.iter().map(off).collect::<Vec<_>>().join(" "));
    }
    let off = |figures: &Figures| format!("{:+.2}", 100.0 * (figures.first - truth.first));
    println!("{function} compulsory {:.4} - {}", truth.first, all.iter().map(off).collect::<Vec<_>>().join(" "));
}

/// Counts `command` with a number of `passes` for `models`; its counts and the evidence of each model.
fn run(
    models: Vec<Box<dyn AccessSink>>,
    command: &[String],
    passes: &str,
) -> anyhow::Result<(Counted, Vec<MemoryEvidence>)> {
    let argv: Vec<OsString> = command.iter().map(String::as_str).chain([passes]).map(OsString::from).collect();
    let path = find_in_path(&argv[0]).ok_or_else(|| anyhow::anyhow!("there is no program {}", argv[0].display()))?;
    let null = || std::fs::File::options().write(true).open("/dev/null");
    let streams = Streams { stdout: Some(null()?.into()), stderr: Some(null()?.into()), ..Streams::default() };
    let evidence = Arc::new(Mutex::new(Vec::new()));
    let sink = Beside { models, evidence: evidence.clone() };
    let child = spawn_gated(&Program { path, argv }, streams)?;
    let counted = Translator::new().run(child, Some(Box::new(sink)), None)?;
    let evidence = std::mem::take(&mut *evidence.lock().map_err(|_| anyhow::anyhow!("a model panicked"))?);
    Ok((counted, evidence))
}

/// The figures of the function called `name`, divided by `passes`.
fn figures(counted: &Counted, memory: &MemoryEvidence, name: &str, passes: f64) -> anyhow::Result<Figures> {
    let evidence = Evidence { counted: Some(&counted.evidence), memory: Some(memory), ..Evidence::default() };
    let profile = join(&evidence, Run::default(), Machine::default(), &mut Symbols::default(), false);
    let found = profile.functions.iter().find(|f| f.name == name);
    let f = found.ok_or_else(|| anyhow::anyhow!("the program has no function {name}"))?;
    let bytes = |level: fn(&Bytes) -> Option<u64>, source: &str| {
        let bytes = f.bytes.as_ref().and_then(level).map_or(f64::NAN, |bytes| bytes as f64 / passes);
        (bytes, f.source.get(source).and_then(|source| source.error))
    };
    let first = f.misses.as_ref().and_then(|m| Some((m.compulsory?, m.compulsory? + m.capacity? + m.conflict?)));
    Ok(Figures {
        levels: [
            ("l2", bytes(|b| b.l2, "bytes.l2")),
            ("l3", bytes(|b| b.l3, "bytes.l3")),
            ("dram", bytes(|b| b.dram, "bytes.dram")),
        ],
        first: first.map_or(f64::NAN, |(first, all)| first as f64 / all.max(1) as f64),
    })
}
