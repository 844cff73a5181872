//! Programs with threads and with unusual address spaces under the translator, with an exact model and a sampled one.

use rprof::instrument::Translator;
use rprof::memory::{CacheModel, LastLevelPolicy, PageColoring};

use rprof::profile::evidence::memory::MemoryEvidence;

use crate::end_to_end::{build, functions, in_function, run};
use crate::kernels;

fn exact() -> CacheModel {
    CacheModel::exact(kernels::host(LastLevelPolicy::Victim), PageColoring::SmallPages, Vec::new())
}

fn sampled() -> CacheModel {
    CacheModel::sampled(kernels::host(LastLevelPolicy::Victim), PageColoring::HugePages, Vec::new())
}

/// Runs; at least one must see a function.
const RUNS: usize = 5;

/// Checks that a level's misses and bytes do not exceed those of the level before it, and coherence misses not the misses.
fn is_possible(memory: &MemoryEvidence) {
    for site in &memory.sites {
        let t = site.traffic;
        let fits = |less: f64, more: f64| less <= more * (1.0 + 1e-9) + 1e-6;
        assert!(fits(t.coherence, t.l1_misses) && fits(t.coherence, t.l2_misses), "{}: {t:?}", memory.mode);
        assert!(fits(t.l2_misses, t.l1_misses), "{}: {t:?}", memory.mode);
        assert!(fits(t.l3_read, t.l2_read) && fits(t.l3_write - t.dram_nt, t.l2_write), "{}: {t:?}", memory.mode);
    }
}

#[test]
fn sharing_of_three_kinds_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "sharing", &["-O1", "-pthread"]);
    let functions = functions(&program);
    for sink in [exact, sampled] {
        // Coherence misses, and lines from memory.
        let figures = |mode: &str| {
            let range = &functions[&format!("work_{mode}")];
            // A sample may not have looked while the function ran, and says so. One line that it reads a pointer from may be in none.
            let seen = |memory: &MemoryEvidence| {
                in_function(memory, range, |t| t.unseen) < 0.01 * in_function(memory, range, |t| t.l1_read + t.l1_write)
            };
            let memory = (0..RUNS)
                .map(|_| run(&mut Translator::new(), &program, &[mode], sink()).memory.unwrap())
                .find(seen)
                .unwrap_or_else(|| panic!("{RUNS} samples did not see work_{mode}"));
            is_possible(&memory);
            let figure = |figure| in_function(&memory, range, figure);
            (memory.mode.clone(), figure(|t| t.coherence), figure(|t| t.l3_misses))
        };
        let [(mode, false_sharing, false_lines), (_, readonly, readonly_lines), (_, private, private_lines)] =
            ["false", "readonly", "private"].map(figures);
        println!(
            "{mode}: coherence misses: false sharing {false_sharing}, shared read-only {readonly}, private {private}"
        );
        println!("{mode}: lines from memory: {false_lines}, {readonly_lines}, {private_lines}");
        assert!(false_sharing >= 100.0 * private.max(1.0) && false_sharing >= 100.0 * readonly.max(1.0));
        // One array's lines, or two arrays'. A sample is extrapolated from the part that it saw.
        let (array, off) = ((256 << 10) as f64 / 64.0, if mode == "exact" { 0.05 } else { 0.5 });
        assert!((readonly_lines / array - 1.0).abs() < off && (private_lines / array - 2.0).abs() < 2.0 * off);
    }
}

#[test]
fn sparse_memory_many_mappings_and_huge_pages_are_simulated() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "footprint", &["-O1"]);
    let functions = functions(&program);
    let gib = if std::env::var_os("RPROF_FULL").is_some() { 10 } else { 1 };
    let memory = |sink: CacheModel| {
        let counted = run(&mut Translator::new(), &program, &[&gib.to_string()], sink);
        assert!(libc::WIFEXITED(counted.status) && libc::WEXITSTATUS(counted.status) == 0);
        counted.memory.unwrap()
    };
    let sparse = 262_144.0 * f64::from(gib);
    let evidence = memory(exact());
    for (name, lines) in [("touch_sparse", sparse), ("touch_mappings", 4096.0), ("touch_huge", 131_072.0)] {
        let found = in_function(&evidence, &functions[name], |t| t.compulsory);
        println!("exact {name}: {found} lines, {lines} expected");
        assert!((found / lines - 1.0).abs() < 0.001, "{name}: {found}");
    }
    // The model reports bytes that no window of a sampled run saw as unseen. It sees the first function from its start.
    let evidence = memory(sampled());
    let found = in_function(&evidence, &functions["touch_sparse"], |t| t.compulsory);
    println!("sampled touch_sparse: {found} lines, {sparse} expected, stated error {:?}", evidence.error);
    assert!((found / sparse - 1.0).abs() < 0.1, "{found}");
    let pages = evidence.pages.union(evidence.pages.sites.iter());
    println!(
        "sampled: at least {:.0} pages, {sparse} and some thousands expected, error {:?}",
        pages.pages, pages.error
    );
    assert!(pages.pages < (1.05 + 3.0 * pages.error.unwrap_or(0.0)) * (sparse + 4096.0 + 2048.0), "{pages:?}");
    for site in &evidence.sites {
        let t = site.traffic;
        assert!(t.unseen == 0.0 || (t.unseen, t.l1_misses, t.dram_read) == (t.l1_read + t.l1_write, 0.0, 0.0), "{t:?}");
    }
}

#[test]
fn functions_that_run_within_one_pause_are_seen() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "turns", &["-O2"]);
    let turns = functions(&program);
    // With a core of its own a window lasts no longer than with others beside it: it waits for processor time.
    let memory = run(&mut Translator::new(), &program, &[], sampled()).memory.unwrap();
    let mut unseen = Vec::new();
    for (name, range) in turns.iter().filter(|(name, _)| name.starts_with("turn_")) {
        let share = in_function(&memory, range, |t| t.unseen) / in_function(&memory, range, |t| t.l1_read);
        if share > 0.01 {
            unseen.push(format!("{name}: {:.0} % of its bytes", 100.0 * share));
        }
    }
    assert!(unseen.is_empty(), "no window saw {}", unseen.join(", "));
}
