//! D1 and last-level data misses against cachegrind's at the same geometry, on the same program.
//!
//! The accesses come from valgrind's lackey, so that both simulators see the same code. Cachegrind has two levels with
//! LRU, indexes both by virtual address, and sends instruction misses to the last level, too.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, Geometry, LastLevelPolicy, Level, Placement};
use rprof::profile::evidence::memory::Access;

use crate::feed::{Feed, sum};

const D1: Level = Level { size: 32 << 10, ways: 8, shared_by: 1 };
const LL: Level = Level { size: 64 << 10, ways: 16, shared_by: 1 };
/// The site that loads and stores of the trace are booked on.
const LOAD: u32 = 0;
const STORE: u32 = 1;

fn build(dir: &Path, flags: &[&str]) -> PathBuf {
    let program = dir.join("mixed");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/memory/mixed.c");
    let status = Command::new("cc").args(flags).arg("-o").arg(&program).arg(source).status().unwrap();
    assert!(status.success());
    program
}

/// Runs `program` under lackey and feeds its data accesses to a model of D1 and LL.
fn model(program: &Path) -> [f64; 4] {
    let geometry =
        Geometry { l1: D1, l2: None, last: LL, policy: LastLevelPolicy::NonInclusive, l2_inclusive: false, cores: 1 };
    let mut feed = Feed::new(CacheModel::exact(geometry, Placement::Identity, Vec::new()));
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

/// The same four figures by cachegrind.
fn cachegrind(program: &Path, dir: &Path) -> [f64; 4] {
    let out = dir.join("cachegrind.out");
    let level = |l: Level| format!("{},{},64", l.size, l.ways);
    let status = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--I1=32768,8,64"])
        .args([format!("--D1={}", level(D1)), format!("--LL={}", level(LL))])
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(program)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let text = std::fs::read_to_string(out).unwrap();
    let find =
        |key: &str| text.lines().find_map(|l| l.strip_prefix(key)).unwrap().split_whitespace().collect::<Vec<_>>();
    let (events, values) = (find("events:"), find("summary:"));
    ["D1mr", "D1mw", "DLmr", "DLmw"]
        .map(|event| values[events.iter().position(|e| *e == event).unwrap()].parse().unwrap())
}

#[test]
fn data_misses_are_within_one_percent_of_cachegrinds() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("SKIPPED: valgrind is not installed");
        return;
    }
    compare(&["-O2"]);
    if is_x86_feature_detected!("avx2") {
        compare(&["-O3", "-mavx2"]);
    } else {
        println!("SKIPPED: no AVX2 for the build with it");
    }
}

fn compare(flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), flags);
    let (ours, theirs) = (model(&program), cachegrind(&program, dir.path()));
    println!("{flags:?}: D1 read, D1 write, LL read, LL write misses: {ours:?}, cachegrind {theirs:?}");
    for (level, range) in [("D1", 0..2), ("LL", 2..4)] {
        let (ours, theirs): (f64, f64) = (ours[range.clone()].iter().sum(), theirs[range].iter().sum());
        assert!((ours / theirs - 1.0).abs() < 0.01, "{flags:?} {level}: {ours} and {theirs}");
    }
}
