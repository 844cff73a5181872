//! A real program under the counting engines, with the model as their access sink: bytes of its functions against
//! arithmetic.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use rprof::instrument::{Counted, CountingEngine, SingleStep};
use rprof::memory::{CacheModel, Geometry, LastLevelPolicy, Level, Placement};
use rprof::profile::evidence::memory::{MemoryEvidence, Traffic};
use rprof::target::launch::{Program, Streams, spawn_gated};

/// Elements of the fixture's arrays.
const N: f64 = 4096.0;

/// Caches far smaller than the fixture's arrays of 32 KiB.
fn small() -> Geometry {
    Geometry {
        l1: Level { size: 1 << 10, ways: 4, shared_by: 1 },
        l2: None,
        last: Level { size: 4 << 10, ways: 8, shared_by: 1 },
        policy: LastLevelPolicy::NonInclusive,
        l2_inclusive: false,
        cores: 1,
    }
}

fn build(dir: &Path) -> PathBuf {
    let program = dir.join("streams");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/memory/streams.c");
    let flags = ["-O1", "-static", "-fno-tree-loop-distribute-patterns", "-o"];
    let status = Command::new("cc").args(flags).arg(&program).arg(source).status().unwrap();
    assert!(status.success());
    program
}

/// Address and size of each function, by name.
fn functions(program: &Path) -> HashMap<String, std::ops::Range<u64>> {
    let out = Command::new("nm").args(["-S", "--defined-only"]).arg(program).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let range = |line: &str| {
        let [start, size, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let start = u64::from_str_radix(start, 16).ok()?;
        Some((name.to_owned(), start..start + u64::from_str_radix(size, 16).ok()?))
    };
    text.lines().filter_map(range).collect()
}

fn run(engine: &mut dyn CountingEngine, program: &Path, sink: CacheModel) -> Counted {
    let program = Program { path: program.to_owned(), argv: vec![program.as_os_str().to_owned()] };
    engine.run(spawn_gated(&program, Streams::default()).unwrap(), Some(Box::new(sink))).unwrap()
}

/// Sum of the traffic of the instructions in `range`.
fn in_function(memory: &MemoryEvidence, range: &std::ops::Range<u64>, figure: fn(&Traffic) -> f64) -> f64 {
    memory.sites.iter().filter(|s| range.contains(&s.at.offset)).map(|s| figure(&s.traffic)).sum()
}

#[test]
fn functions_of_a_program_have_the_traffic_that_arithmetic_says() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path());
    let functions = functions(&program);
    let sink = CacheModel::exact(small(), Placement::Identity, Vec::new());
    let counted = run(&mut SingleStep::new(), &program, sink);
    assert!(libc::WIFEXITED(counted.status));
    let memory = counted.memory.unwrap();
    let dram: fn(&Traffic) -> f64 = |t| t.dram_read + t.dram_write;
    let executed: fn(&Traffic) -> f64 = |t| t.l1_read + t.l1_write;
    for (name, dram_expected, executed_expected) in
        [("copy", 24.0, 16.0), ("copy_nt", 16.0, 16.0), ("triad", 32.0, 24.0), ("update", 16.0, 16.0)]
    {
        let range = &functions[name];
        let found = in_function(&memory, range, dram) / N;
        println!("{name}: {found:.3} bytes an element, {dram_expected} expected");
        assert!((found / dram_expected - 1.0).abs() < 0.02, "{name}: {found}");
        let executed = in_function(&memory, range, executed) / N;
        assert!((executed / executed_expected - 1.0).abs() < 0.005, "{name}: {executed}");
    }
    let nt = in_function(&memory, &functions["copy_nt"], |t| t.dram_nt) / N;
    assert!((nt / 8.0 - 1.0).abs() < 0.01, "{nt}");
}
