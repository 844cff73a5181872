//! D1 and last-level data misses against cachegrind's at the same geometry, on the same program.
//!
//! Cachegrind has two levels with LRU, indexes both by virtual address, knows no non-temporal stores, and sends
//! instruction misses to the last level, too. Of a whole program the accesses come from valgrind's lackey, so that both
//! simulators see the same code; of kernels, each compared for itself, from the translator.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rprof::instrument::Translator;
use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, Geometry, LastLevelPolicy, Level, PageColoring};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, MemoryEvidence};

use crate::end_to_end::{self, build, functions, in_function, run};
use crate::feed::{Feed, sum};

const D1: Level = Level { size: 32 << 10, ways: 8, shared_by: 1 };
const LL: Level = Level { size: 64 << 10, ways: 16, shared_by: 1 };
/// Sites of the trace's loads and stores.
const LOAD: u32 = 0;
const STORE: u32 = 1;

/// Cachegrind's two levels.
fn geometry(last: Level) -> Geometry {
    Geometry { l1: D1, l2: None, last, policy: LastLevelPolicy::NonInclusive, l2_inclusive: false, cores: 1 }
}

/// Runs `program` under lackey and feeds its data accesses to a model of D1 and LL.
fn model(program: &Path) -> [f64; 4] {
    let mut feed = Feed::new(CacheModel::exact(geometry(LL), PageColoring::Identity, Vec::new()));
    let mut child = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(program)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        let (Some(kind), Some((address, bytes))) = (line.get(..3), line.get(3..).and_then(|rest| rest.split_once(',')))
        else {
            continue;
        };
        let (Ok(address), Ok(bytes)) = (u64::from_str_radix(address, 16), bytes.parse()) else { continue };
        let mut access = |site, kind| feed.access(Access { address, bytes, site, kind });
        match kind {
            " L " => access(LOAD, AccessKind::Load),
            " S " => access(STORE, AccessKind::Store),
            " M " => {
                access(LOAD, AccessKind::Load);
                access(STORE, AccessKind::Store);
            }
            _ => {}
        }
    }
    assert!(child.wait().unwrap().success());
    let evidence = feed.finish();
    let by = |wanted: u32, figure: fn(&_) -> f64| sum(&evidence, |site, _| site == u64::from(wanted), figure);
    [by(LOAD, |t| t.l1_misses), by(STORE, |t| t.l1_misses), by(LOAD, |t| t.l3_misses), by(STORE, |t| t.l3_misses)]
}

/// D1 read, D1 write, LL read and LL write misses by function, according to cachegrind; all of them under "".
fn cachegrind(program: &Path, arguments: &[&str], last: Level, dir: &Path) -> BTreeMap<String, [f64; 4]> {
    let out = dir.join("cachegrind.out");
    let level = |l: Level| format!("{},{},64", l.size, l.ways);
    let status = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--I1=32768,8,64"])
        .args([format!("--D1={}", level(D1)), format!("--LL={}", level(last))])
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let text = std::fs::read_to_string(out).unwrap();
    let (mut columns, mut inside) = ([0; 4], String::new());
    let mut misses: BTreeMap<String, [f64; 4]> = BTreeMap::new();
    for line in text.lines() {
        if let Some(events) = line.strip_prefix("events: ") {
            let events: Vec<_> = events.split_whitespace().collect();
            columns = EVENTS.map(|event| events.iter().position(|e| *e == event).unwrap());
        } else if let Some(name) = line.strip_prefix("fn=") {
            inside = name.into();
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            // The line's number comes before its counts.
            let counts: Vec<f64> = line.split_whitespace().skip(1).map(|n| n.parse().unwrap()).collect();
            for name in ["", &inside] {
                let sums = misses.entry(name.into()).or_default();
                (0..4).for_each(|i| sums[i] += counts[columns[i]]);
            }
        }
    }
    misses
}

/// Cachegrind's names of data misses.
const EVENTS: [&str; 4] = ["D1mr", "D1mw", "DLmr", "DLmw"];

fn has_valgrind() -> bool {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        println!("SKIPPED: packages: valgrind is not installed");
    }
    found
}

#[test]
fn data_misses_are_within_one_percent_of_cachegrinds() {
    if !has_valgrind() {
        return;
    }
    compare(&["-O2"]);
    if is_x86_feature_detected!("avx2") {
        compare(&["-O3", "-mavx2"]);
    } else {
        println!("SKIPPED: avx2: no AVX2 for the build with it");
    }
}

fn compare(flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "mixed", flags);
    let (ours, theirs) = (model(&program), cachegrind(&program, &[], LL, dir.path())[""]);
    println!("{flags:?}: D1 read, D1 write, LL read, LL write misses: {ours:?}, cachegrind {theirs:?}");
    for (level, range) in [("D1", 0..2), ("LL", 2..4)] {
        let (ours, theirs): (f64, f64) = (ours[range.clone()].iter().sum(), theirs[range].iter().sum());
        assert!((ours / theirs - 1.0).abs() < 0.01, "{flags:?} {level}: {ours} and {theirs}");
    }
}

/// A model to which non-temporal stores are stores.
struct NoNonTemporal(CacheModel);

impl AccessSink for NoNonTemporal {
    fn record(&mut self, thread: u32, process: u32, batch: &[Access]) {
        let plain = |access: &Access| match access.kind {
            AccessKind::NtStore => Access { kind: AccessKind::Store, ..*access },
            _ => *access,
        };
        self.0.record(thread, process, &batch.iter().map(plain).collect::<Vec<_>>());
    }

    fn finish(self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence {
        Box::new(self.0).finish(sites)
    }
}

#[test]
fn kernels_in_avx2_miss_as_cachegrind_says() {
    if !has_valgrind() {
        return;
    }
    if !is_x86_feature_detected!("avx2") {
        println!("SKIPPED: avx2: no AVX2");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "known", &[&["-DBYTES=262144"], end_to_end::KNOWN].concat());
    // No array fits; columns and planes do.
    let last = Level { size: 96 << 10, ways: 12, shared_by: 1 };
    let theirs = cachegrind(&program, &["all", "2"], last, dir.path());
    let sink = NoNonTemporal(CacheModel::exact(geometry(last), PageColoring::Identity, Vec::new()));
    let memory = run(&mut Translator::new(), &program, &["all", "2"], sink).memory.unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, range) in functions(&program).iter().filter(|(name, _)| name.starts_with("k_")) {
        let theirs = theirs.get(name).copied().unwrap_or_default();
        let ours = [in_function(&memory, range, |t| t.l1_misses), in_function(&memory, range, |t| t.l3_misses)];
        for (level, ours, theirs) in [("D1", ours[0], theirs[0] + theirs[1]), ("LL", ours[1], theirs[2] + theirs[3])] {
            println!("{name:<20} {level} {ours:>8} cachegrind {theirs:>8} {:+.2} %", 100.0 * (ours / theirs - 1.0));
            // A few lines more or less: by the place of the stack, and by the share of the last level that instructions took.
            if (ours - theirs).abs() > 0.01 * theirs + 8.0 {
                wrong.push(format!("{name} {level}: {ours} and {theirs}"));
            }
            compared += usize::from(theirs > 1000.0);
        }
    }
    assert!(compared > 20, "{compared} figures of more than a thousand misses");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
