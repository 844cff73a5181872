//! A real program under the counting engines, with the model as their access sink: bytes of its functions against
//! arithmetic.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use rprof::instrument::{Counted, CountingEngine, SingleStep, Translator};
use rprof::memory::{CacheModel, Geometry, LastLevelPolicy, Level, PageColoring};
use rprof::profile::evidence::memory::{AccessSink, MemoryEvidence, Traffic};
use rprof::tracee::launch::{Program, Streams, spawn_gated};

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

/// Builds `fixtures/memory/NAME.c`.
pub fn build(dir: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let program = dir.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/memory").join(name).with_extension("c");
    let status = Command::new("cc").args(flags).arg("-o").arg(&program).arg(source).status().unwrap();
    assert!(status.success(), "cc cannot build {name}");
    program
}

/// Address and size of each function, by name.
pub fn functions(program: &Path) -> HashMap<String, std::ops::Range<u64>> {
    let out = Command::new("nm").args(["-S", "--defined-only"]).arg(program).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let range = |line: &str| {
        let [start, size, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let start = u64::from_str_radix(start, 16).ok()?;
        Some((name.to_owned(), start..start + u64::from_str_radix(size, 16).ok()?))
    };
    text.lines().filter_map(range).collect()
}

/// Compiler flags of `fixtures/memory/known.c`.
pub const KNOWN: &[&str] = &[
    "-O3",
    "-mavx2",
    "-ffast-math",
    "-static",
    "-fno-tree-loop-distribute-patterns",
    "-fno-loop-interchange",
    "-fno-loop-unroll-and-jam",
];

/// Runs `program` under `engine`, which hands its accesses to `sink`.
pub fn run(
    engine: &mut dyn CountingEngine,
    program: &Path,
    arguments: &[&str],
    sink: impl AccessSink + 'static,
) -> Counted {
    let mut argv = vec![program.as_os_str().to_owned()];
    argv.extend(arguments.iter().map(Into::into));
    let program = Program { path: program.to_owned(), argv };
    engine.run(spawn_gated(&program, Streams::default()).unwrap(), Some(Box::new(sink)), None).unwrap()
}

/// A figure of some traffic.
pub type Figure = fn(&Traffic) -> f64;

/// Sum of the traffic of the instructions in `range`.
pub fn in_function(memory: &MemoryEvidence, range: &std::ops::Range<u64>, figure: Figure) -> f64 {
    memory.sites.iter().filter(|s| range.contains(&s.at.offset)).map(|s| figure(&s.traffic)).sum()
}

#[test]
fn functions_of_a_program_have_the_traffic_that_arithmetic_says() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "streams", &["-O1", "-static", "-fno-tree-loop-distribute-patterns"]);
    let functions = functions(&program);
    let sink = CacheModel::exact(small(), PageColoring::Identity, Vec::new());
    let counted = run(&mut SingleStep::new(), &program, &[], sink);
    assert!(libc::WIFEXITED(counted.status));
    let memory = counted.memory.unwrap();
    let dram: Figure = |t| t.dram_read + t.dram_write;
    let executed: Figure = |t| t.l1_read + t.l1_write;
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

/// In one huge page a stride of 128 KiB is one of frames, too: all lines fall into one set of an L2 with fewer sets. Placed
/// pseudo-randomly they do not.
#[test]
fn the_conflicts_of_the_frames_that_pages_really_have_are_found() {
    const PASSES: f64 = 200.0;
    const MANY_PASSES: f64 = 4e6;
    const LINES: f64 = 16.0;
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "strided", &["-O1", "-static"]);
    let own = Command::new(&program).output().unwrap();
    let own = String::from_utf8_lossy(&own.stdout).trim().to_owned();
    if own != "huge" {
        return println!("SKIPPED: huge-pages: the kernel gave pages that are {own}");
    }
    let walk = functions(&program)["walk"].clone();
    let geometry = || Geometry {
        l2: Some(Level { size: 128 << 10, ways: 4, shared_by: 1 }),
        last: Level { size: 1 << 20, ways: 16, shared_by: 1 },
        ..small()
    };
    let simulated = |model: CacheModel, passes: f64| {
        let counted = run(&mut Translator::new(), &program, &[&passes.to_string()], model);
        assert!(libc::WIFEXITED(counted.status) && libc::WEXITSTATUS(counted.status) == 0);
        let memory = counted.memory.unwrap();
        let missed: Figure = |t| t.l2_misses;
        let conflict: Figure = |t| t.l2_conflict;
        let placed = memory.page_placement.clone();
        (in_function(&memory, &walk, missed), in_function(&memory, &walk, conflict), placed)
    };
    let of_model = || CacheModel::exact(geometry(), PageColoring::SmallPages, Vec::new());
    let (missed, conflict, placed) = simulated(of_model().of_host_processes(), PASSES);
    println!("frames: {missed} misses of L2, {conflict} conflicts; {placed}");
    assert!(missed > 0.95 * PASSES * LINES && missed <= PASSES * LINES + 1.0, "{missed}");
    assert!(conflict > 0.9 * missed, "{conflict}");
    assert!(placed.starts_with("the frames of the page map"), "{placed}");
    let (missed, _, placed) = simulated(of_model(), PASSES);
    assert!(missed <= 2.0 * LINES, "{missed}, {placed}");
    assert!(placed.starts_with("pseudo-random"), "{placed}");
    // The sample has only two of these lines, which have room. Bursts see them all.
    let sampled = CacheModel::sampled(geometry(), PageColoring::SmallPages, Vec::new()).of_host_processes();
    let (missed, conflict, placed) = simulated(sampled, MANY_PASSES);
    println!("sampled: {missed} misses of L2, {conflict} conflicts; {placed}");
    assert!((missed / (MANY_PASSES * LINES) - 1.0).abs() < 0.1 && conflict > 0.9 * missed, "{missed}, {conflict}");
}

/// `fixtures/memory/resident.c`, built.
struct Resident {
    dir: tempfile::TempDir,
    program: PathBuf,
    walk: std::ops::Range<u64>,
}

impl Resident {
    fn build() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = build(dir.path(), "resident", &["-O1", "-static"]);
        let walk = functions(&program)["walk"].clone();
        Self { dir, program, walk }
    }

    /// The share of the lines of its working set that `figure` says the model misses, and the share by the frames that it has in this
    /// run, for a cache of `ways` and `colors`. `None`, after saying why, if the page map hides the frames or the kernel moves pages in
    /// each of a few runs.
    fn missed(
        &self,
        [kib, ways, colors, passes]: [u64; 4],
        model: &dyn Fn() -> CacheModel,
        figure: Figure,
    ) -> Option<(f64, f64)> {
        let lines = (kib << 10) as f64 / 64.0;
        let said = self.dir.path().join("said");
        let numbers = [kib, ways, colors, passes].map(|number| number.to_string());
        let [kib, ways, colors, times] = numbers.each_ref().map(String::as_str);
        let arguments = [kib, ways, colors, times, said.to_str().unwrap()];
        for _ in 0..5 {
            let counted = run(&mut Translator::new(), &self.program, &arguments, model().of_host_processes());
            assert!(libc::WIFEXITED(counted.status) && libc::WEXITSTATUS(counted.status) == 0);
            match std::fs::read_to_string(&said).unwrap().as_str() {
                "hidden" => {
                    println!("SKIPPED: root: this process may not see page frames");
                    return None;
                }
                "moved" => continue,
                share => {
                    let missed = in_function(&counted.memory.unwrap(), &self.walk, figure) / (lines * passes as f64);
                    return Some((missed, share.parse().unwrap()));
                }
            }
        }
        println!("SKIPPED: memory: the kernel moves pages of running programs");
        None
    }
}

/// Frames decide how much L2 holds of a working set about as large as L2: some colours have more pages than L2 has ways.
#[test]
fn working_sets_about_as_large_as_l2_are_missed_as_the_frames_of_their_pages_say() {
    const WAYS: u64 = 16;
    const COLORS: u64 = 16;
    let resident = Resident::build();
    let geometry = Geometry {
        l1: Level { size: 32 << 10, ways: 8, shared_by: 1 },
        l2: Some(Level { size: (COLORS * WAYS) << 12, ways: WAYS as u32, shared_by: 1 }),
        last: Level { size: 8 << 20, ways: 16, shared_by: 1 },
        ..small()
    };
    let model = || CacheModel::sampled(geometry.clone(), PageColoring::SmallPages, Vec::new());
    for kib in [768, 1024, 1280] {
        let Some((missed, share)) = resident.missed([kib, WAYS, COLORS, 8_000], &model, |t| t.l2_misses) else {
            return;
        };
        println!("{kib} KiB: of its lines {missed:.3} are missed, {share:.3} by their frames");
        // The program has other pages, too: they push a page out of a colour that is just full.
        assert!((missed - share).abs() < 0.04, "{kib} KiB: {missed}, by its frames {share}");
    }
}

/// The same holds for the last level, exact and sampled: a working set that would fit misses in the colours that have more pages than
/// ways.
#[test]
fn working_sets_about_as_large_as_the_last_level_are_missed_as_the_frames_of_their_pages_say() {
    const WAYS: u64 = 16;
    const COLORS: u64 = 128;
    let resident = Resident::build();
    for policy in [LastLevelPolicy::NonInclusive, LastLevelPolicy::Victim] {
        let geometry = Geometry {
            l2: Some(Level { size: 256 << 10, ways: 8, shared_by: 1 }),
            last: Level { size: (COLORS * WAYS) << 12, ways: WAYS as u32, shared_by: 1 },
            policy,
            ..small()
        };
        let models: [(&str, u64, &dyn Fn() -> CacheModel); 2] = [
            ("exact", 10, &|| CacheModel::exact(geometry.clone(), PageColoring::SmallPages, Vec::new())),
            ("sampled", 800, &|| CacheModel::sampled(geometry.clone(), PageColoring::SmallPages, Vec::new())),
        ];
        for (name, passes, model) in models {
            let Some((missed, share)) = resident.missed([7168, WAYS, COLORS, passes], model, |t| t.l3_misses) else {
                return;
            };
            // The first pass misses all lines.
            let share = share + (1.0 - share) / passes as f64;
            println!("{policy:?}, {name}: of its lines {missed:.3} are missed, {share:.3} by their frames");
            // Fewer are if L2 holds some of the lines that a victim cache has no room for.
            assert!((-0.2..0.17).contains(&(missed - share)), "{policy:?}, {name}: {missed}, by its frames {share}");
        }
    }
}

/// The engine moves a thread from one version to another in the middle of a `rep`: the work so far belongs to the first version,
/// the rest to the second.
#[test]
fn long_strings_have_their_traffic_in_whatever_parts_they_were_executed() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "blocks", &["-O1", "-static"]);
    let range = &functions(&program)["copy_block"];
    let (mib, times) = (64, 40);
    let geometry = Geometry {
        l2: Some(Level { size: 256 << 10, ways: 8, shared_by: 1 }),
        last: Level { size: 1 << 20, ways: 16, shared_by: 1 },
        ..small()
    };
    let sink = CacheModel::sampled(geometry, PageColoring::SmallPages, Vec::new());
    let arguments = [mib.to_string(), times.to_string()];
    let counted = run(&mut Translator::new(), &program, &arguments.each_ref().map(String::as_str), sink);
    assert!(libc::WIFEXITED(counted.status) && libc::WEXITSTATUS(counted.status) == 0);
    let memory = counted.memory.unwrap();
    let bytes = f64::from(mib << 20) * f64::from(times);
    let figures: [(&str, f64, f64, Figure); 4] = [
        ("L1", 2.0, 1e-6, |t| t.l1_read + t.l1_write),
        ("DRAM read", 2.0, 0.02, |t| t.dram_read),
        ("DRAM write", 1.0, 0.02, |t| t.dram_write),
        ("lines in order", 2.0, 0.05, |t| 64.0 * t.unit_lines),
    ];
    for (name, expected, tolerance, figure) in figures {
        let found = in_function(&memory, range, figure) / bytes;
        assert!((found / expected - 1.0).abs() < tolerance, "{name}: {found} bytes a byte, {expected} expected");
    }
}

#[test]
fn comparisons_of_strings_read_no_further_than_what_they_find() {
    const LENGTH: f64 = 65_000.0;
    const TIMES: f64 = 200.0;
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "compared", &["-O2", "-static"]);
    let at = functions(&program);
    let model = CacheModel::exact(small(), PageColoring::Identity, Vec::new());
    let counted = run(&mut Translator::new(), &program, &["200"], model);
    let memory = counted.memory.unwrap();
    let of = |name: &str, figure: Figure| in_function(&memory, &at[name], figure);
    // To its end, and of two texts up to the middle, whatever the buffer was emptied in.
    for (name, bytes) in [("k_length", LENGTH + 1.0), ("k_equal", 2.0 * (LENGTH / 2.0 + 1.0))] {
        let (read, missed) = (of(name, |t| t.l1_read), of(name, |t| t.dram_read));
        assert!((read / (TIMES * bytes) - 1.0).abs() < 0.001, "{name}: {read} bytes read");
        assert!((missed / (TIMES * bytes) - 1.0).abs() < 0.01, "{name}: {missed} bytes from memory");
    }
}

#[test]
fn a_translated_program_has_the_same_traffic_sampled_as_exact() {
    const LEVELS: [(&str, Figure); 4] = [
        ("L1", |t| t.l1_read + t.l1_write),
        ("L2", |t| t.l2_read + t.l2_write),
        ("L3", |t| t.l3_read + t.l3_write),
        ("DRAM", |t| t.dram_read + t.dram_write),
    ];
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "passes", &["-O1", "-static", "-fno-tree-loop-distribute-patterns"]);
    let functions = functions(&program);
    // The arrays are beyond the last level, and a window of a few million accesses sees several passes.
    let host = || Geometry {
        l2: Some(Level { size: 256 << 10, ways: 8, shared_by: 1 }),
        last: Level { size: 1 << 20, ways: 16, shared_by: 1 },
        cores: 1,
        ..crate::kernels::host(LastLevelPolicy::Victim)
    };
    // All passes are alike. Traffic beyond L2 needs many windows to be seen; in a short run the model sees everything.
    const FEW: u32 = 80;
    const MANY: u32 = 8000;
    let simulated = |passes: u32, model: CacheModel| {
        run(&mut Translator::new(), &program, &[&passes.to_string()], model).memory.unwrap()
    };
    let sampled = |passes| simulated(passes, CacheModel::sampled(host(), PageColoring::SmallPages, Vec::new()));
    let exact = simulated(FEW, CacheModel::exact(host(), PageColoring::SmallPages, Vec::new()));
    let (short, long) = (sampled(FEW), sampled(MANY));
    let all: f64 = exact.sites.iter().map(|s| s.traffic.l1_read + s.traffic.l1_write).sum();
    let mut wrong = Vec::new();
    for name in ["pass_copy", "pass_triad", "pass_update", "pass_gather", "pass_small"] {
        let mut row = format!("{name:<12}");
        for (level, bytes) in LEVELS {
            let (sampled, passes) = if level == "L1" || level == "L2" { (&short, FEW) } else { (&long, MANY) };
            let [exact, found] = [&exact, sampled].map(|memory| in_function(memory, &functions[name], bytes));
            let both = [exact, found * f64::from(FEW) / f64::from(passes)];
            row += &format!("  {level} {:.3e} {:+.1} %", both[0], 100.0 * (both[1] / both[0] - 1.0));
            // A value near zero may have a small absolute error.
            if (both[1] - both[0]).abs() > 0.10 * both[0] + 1e-3 * all {
                wrong.push(format!("{name} {level}: {:.4e} exact, {:.4e} sampled", both[0], both[1]));
            }
        }
        println!("{row}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Traffic of `program`, which takes its number of rounds: exact for the first of `rounds` and sampled for the second, with a last
/// level of `last` bytes.
fn exact_and_sampled(program: &Path, last: u64, rounds: [u32; 2]) -> (MemoryEvidence, MemoryEvidence) {
    let host = || Geometry {
        l1: Level { size: 16 << 10, ways: 8, shared_by: 1 },
        l2: Some(Level { size: 256 << 10, ways: 8, shared_by: 1 }),
        last: Level { size: last, ways: 16, shared_by: 1 },
        ..small()
    };
    let simulated = |rounds: u32, model: CacheModel| {
        run(&mut Translator::new(), program, &[&rounds.to_string()], model).memory.unwrap()
    };
    let exact = simulated(rounds[0], CacheModel::exact(host(), PageColoring::SmallPages, Vec::new()));
    (exact, simulated(rounds[1], CacheModel::sampled(host(), PageColoring::SmallPages, Vec::new())))
}

/// If two instructions write one line, one after the other, the writeback belongs to the second one, in every mode. A line that is
/// written again and again in a last level that holds it goes to memory once.
#[test]
fn lines_that_several_instructions_write_are_written_back_once() {
    const TABLE: f64 = (2 << 20) as f64;
    const FEW: u32 = 4;
    const MANY: u32 = 4000;
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "records", &["-O1", "-static", "-fno-tree-loop-distribute-patterns"]);
    let functions = functions(&program);
    let (exact, sampled) = exact_and_sampled(&program, 8 << 20, [FEW, MANY]);
    let figures: [(&str, Figure); 4] = [
        ("L2 read", |t| t.l2_read),
        ("L2 write", |t| t.l2_write),
        ("L3 read", |t| t.l3_read),
        ("L3 write", |t| t.l3_write),
    ];
    for (level, figure) in figures {
        for name in ["clear", "fill"] {
            let exact = in_function(&exact, &functions[name], figure) / f64::from(FEW);
            let found = in_function(&sampled, &functions[name], figure) / f64::from(MANY);
            println!("{name:<6} {level:<9} {exact:.4e} {:+.1} %", 100.0 * (found / exact - 1.0));
            assert!((found / exact - 1.0).abs() < 0.1, "{name} {level}: {exact:.4e} exact, {found:.4e} sampled");
        }
    }
    let written = |memory: &MemoryEvidence| -> f64 {
        ["clear", "fill"].iter().map(|name| in_function(memory, &functions[*name], |t| t.dram_write)).sum::<f64>()
            / TABLE
    };
    println!("to memory: {:.3} tables exact, {:.3} sampled", written(&exact), written(&sampled));
    assert!((written(&exact) - 1.0).abs() < 0.01 && (written(&sampled) - 1.0).abs() < 0.1);
}

/// Windows see parts of a program in any mixture, and lines that one part wrote leave the caches in another part, in another window.
/// Yet each part has its own bytes: no more written to L2 and L3 than it wrote, and no less.
#[test]
fn parts_that_alternate_within_windows_have_the_bytes_of_their_own() {
    const FEW: u32 = 6;
    const MANY: u32 = 1500;
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "alternate", &["-O1", "-static", "-fno-tree-loop-distribute-patterns"]);
    let functions = functions(&program);
    let (exact, sampled) = exact_and_sampled(&program, 4 << 20, [FEW, MANY]);
    let figures: [(&str, Figure, f64); 5] = [
        ("L2 read", |t| t.l2_read, 0.05),
        ("L2 write", |t| t.l2_write, 0.05),
        ("L3 read", |t| t.l3_read, 0.05),
        ("L3 write", |t| t.l3_write, 0.05),
        ("memory", |t| t.dram_write, 0.15),
    ];
    let mut wrong = Vec::new();
    for name in ["read_all", "update_half", "write_part", "update_part"] {
        for (level, figure, tolerance) in figures {
            let exact = in_function(&exact, &functions[name], figure) / f64::from(FEW);
            let found = in_function(&sampled, &functions[name], figure) / f64::from(MANY);
            println!("{name:<11} {level:<9} {exact:.4e} {:+.1} %", 100.0 * (found / exact - 1.0));
            if (found - exact).abs() > tolerance * exact.max(64.0 * 100.0) {
                wrong.push(format!("{name} {level}: {exact:.4e} exact, {found:.4e} sampled"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An access that begins in a line outside the sample and ends in a sampled line brings the sampled line.
#[test]
fn lines_that_accesses_only_cross_into_are_sampled_like_others() {
    const FEW: u32 = 4;
    const MANY: u32 = 1500;
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "crossing", &["-O1", "-static"]);
    let functions = functions(&program);
    let (exact, sampled) = exact_and_sampled(&program, 1 << 20, [FEW, MANY]);
    let bytes = (8 << 20) as f64;
    let mut wrong = Vec::new();
    // Two lines of four; of two pages two; all.
    let read = [
        ("read_apart", bytes / 2.0),
        ("write_apart", bytes / 2.0),
        ("over_pages", bytes / 64.0),
        ("read_dense", bytes),
    ];
    for (name, expected) in read {
        let of = |memory: &MemoryEvidence, rounds| {
            in_function(memory, &functions[name], |t| t.dram_read) / f64::from(rounds)
        };
        let (exact, found) = (of(&exact, FEW), of(&sampled, MANY));
        println!("{name:<11} {expected:.4e} expected, exact {exact:.4e}, sampled {found:.4e}");
        // The last lines of one function may be the first of the next.
        if (exact / expected - 1.0).abs() > 0.05 || (found / exact - 1.0).abs() > 0.1 {
            wrong.push(format!("{name}: {expected:.4e} expected, exact {exact:.4e}, sampled {found:.4e}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lines_are_told_by_the_kind_of_their_pages() {
    const LINES: f64 = (16 << 20) as f64 / 64.0;
    const FEW: f64 = 2.0;
    const MANY: f64 = 400.0;
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "paged", &["-O1", "-static"]);
    let own = Command::new(&program).arg("0").output().unwrap();
    let own = String::from_utf8_lossy(&own.stdout).trim().to_owned();
    if own != "16384" {
        return println!("SKIPPED: huge-pages: the kernel gave {own} KiB of 16384 on huge pages");
    }
    let functions = functions(&program);
    let models = [
        ("exact", CacheModel::exact(small(), PageColoring::SmallPages, Vec::new()), FEW),
        ("sampled", CacheModel::sampled(small(), PageColoring::SmallPages, Vec::new()), MANY),
    ];
    for (mode, model, passes) in models {
        let memory = run(&mut Translator::new(), &program, &[&passes.to_string()], model.of_host_processes()).memory;
        let memory = memory.unwrap();
        for (name, on_small) in [("read_huge", 0.0), ("read_small", 1.0)] {
            let lines = |figure: Figure| in_function(&memory, &functions[name], figure) / (LINES * passes);
            let (small, huge) = (lines(|t| t.small_page_lines), lines(|t| t.huge_page_lines));
            println!("{mode} {name}: of each line {small:.4} on small pages, {huge:.4} on huge ones");
            assert!((small - on_small).abs() < 0.05 && (huge - (1.0 - on_small)).abs() < 0.05, "{mode} {name}");
        }
    }
}
