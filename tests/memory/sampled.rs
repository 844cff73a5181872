//! Sampled traffic against exact traffic of the same kernels.

use crate::end_to_end::Figure;
use crate::feed::{dram, simulate, simulate_selecting, simulate_timed, sum, total};
use crate::kernels;
use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, LastLevelPolicy, PageColoring};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, Executed, MemoryEvidence, Phase, Traffic};

/// A level's name, its traffic in bytes, and the relative error allowed.
type Level = (&'static str, Figure, f64);

const LEVELS: [Level; 4] = [
    ("L1", |t| t.l1_read + t.l1_write, 1e-9),
    ("L2", |t| t.l2_read + t.l2_write, 0.10),
    ("L3", |t| t.l3_read + t.l3_write, 0.10),
    ("DRAM", |t| t.dram_read + t.dram_write, 0.10),
];

/// A stated error below this is taken for this.
const LEAST_STATED: f64 = 0.005;
/// A larger stated error is useless: it covers everything.
const MOST_STATED: f64 = 0.25;

fn both(placement: PageColoring, run: impl Fn(kernels::Emit)) -> (MemoryEvidence, MemoryEvidence) {
    let host = || kernels::host(LastLevelPolicy::Victim);
    let exact = simulate(CacheModel::exact(host(), placement, Vec::new()), &run);
    let sampled = simulate_selecting(CacheModel::sampled(host(), placement, Vec::new()), &run);
    (exact, sampled)
}

#[test]
fn sampled_traffic_is_within_ten_percent_of_exact() {
    let mut wrong = Vec::new();
    for kernel in kernels::all() {
        let (exact, sampled) = both(PageColoring::SmallPages, kernel.run);
        assert_eq!((exact.mode.as_str(), sampled.mode.as_str()), ("exact", "sampled"));
        let mut row = format!("{:<26}", kernel.name);
        for (level, bytes, tolerance) in LEVELS {
            let (exact, sampled) = (total(&exact, bytes), total(&sampled, bytes));
            row += &format!(" {level} {exact:.3e} {:+.2} %", 100.0 * (sampled / exact - 1.0));
            if (sampled / exact - 1.0).abs() > tolerance {
                wrong.push(format!("{} {level}: {exact:.4e} exact, {sampled:.4e} sampled", kernel.name));
            }
        }
        let stated = sampled.error.unwrap_or_else(|| panic!("{}: no error is stated", kernel.name));
        println!("{row}  stated error {:.2} %", 100.0 * stated);
        let off = (dram(&sampled) / dram(&exact) - 1.0).abs();
        // A standard error, from fewer lines than a certain one would need; smaller stated errors count as `LEAST_STATED`.
        if off > 3.0 * stated.max(LEAST_STATED) || stated > MOST_STATED {
            wrong.push(format!("{} is off by {off:.4}, stated {stated:.4}", kernel.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One instruction goes through memory for a while, so that each access takes long, and then again and again through an array
/// that stays in L1: windows are as long in the one as in the other, pauses are not.
#[test]
fn phases_of_different_speeds_have_their_parts() {
    const FAST: u64 = 8;
    const SLOW: u64 = 256;
    const FAR: u64 = 0x4000_0000;
    const NEAR: u64 = 0x1000;
    fn walk(emit: kernels::Emit) {
        for _ in 0..3 {
            for i in 0..12_000_000 {
                emit(Access { address: FAR + i % (1 << 21) * 8, bytes: 8, site: 0, kind: AccessKind::Load });
            }
            for i in 0..120_000_000 {
                emit(Access { address: NEAR + i % 2048 * 8, bytes: 8, site: 0, kind: AccessKind::Load });
            }
        }
    }
    let model = || CacheModel::sampled(kernels::host(LastLevelPolicy::Victim), PageColoring::SmallPages, Vec::new());
    let evidence = simulate_timed(model(), walk, |access| if access.address >= FAR { SLOW } else { FAST });
    let lines = 3.0 * 12e6 / 8.0;
    for (name, figure) in
        [("L1", (|t| t.l1_misses) as fn(&Traffic) -> f64), ("L2", |t| t.l2_misses), ("L3", |t| t.l3_misses)]
    {
        let found = total(&evidence, figure) / lines;
        println!("{name}: {found:.3} of the lines that come from memory");
        assert!((found - 1.0).abs() < 0.25, "{name}: {found}");
    }
}

#[test]
fn strides_are_sampled_evenly() {
    fn walk(lines: u64, stride: u64, emit: kernels::Emit) {
        for _ in 0..(6u64 << 17) / lines {
            for i in 0..lines {
                emit(Access { address: 0x4000_0000 + i * stride, bytes: 8, site: 0, kind: AccessKind::Load });
            }
        }
    }
    const MANY: u64 = 1 << 17;
    const FEW: u64 = 1 << 14;
    // Powers of two, of more lines than the last level holds; and columns of matrices with rows that are a page and some lines
    // longer, or two, or a MiB: of more lines, and of twice as many as L2 holds.
    let walks = [1024, 2048, 4096, 8192, 65536, 4160, 4224, 8256].map(|stride| (MANY, stride)).into_iter();
    let walks = walks.chain([4160, 4224, 4352, 8256, (1 << 20) + 64].map(|stride| (FEW, stride)));
    let mut wrong = Vec::new();
    for (lines, stride) in walks {
        let (exact, sampled) = both(PageColoring::SmallPages, |emit| walk(lines, stride, emit));
        let ratio = |figure: Figure| total(&sampled, figure) / total(&exact, figure);
        let (l2, last) = (ratio(|t| t.l2_misses), ratio(|t| t.l3_misses));
        println!("{stride:>8} bytes: misses of L2 {l2:.3}, of the last level {last:.3} of exact");
        let allowed = if stride.is_power_of_two() { 0.05 } else { 0.1 };
        if (l2 - 1.0).abs() > allowed || (last - 1.0).abs() > allowed {
            wrong.push(format!("{stride} bytes: L2 {l2}, last level {last}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sampled_misses_keep_their_kinds_and_owners() {
    let (_, sampled) = both(PageColoring::SmallPages, kernels::copy_nt);
    assert_eq!(sum(&sampled, |site, _| site == 0, |t| t.dram_write), 0.0);
    assert_eq!(sum(&sampled, |site, _| site == 1, |t| t.dram_read), 0.0);
    let nt = sum(&sampled, |site, _| site == 1, |t| t.dram_nt);
    assert!((nt / (8.0 * kernels::N as f64) - 1.0).abs() < 0.02, "{nt}");

    let (exact, sampled) = both(PageColoring::SmallPages, kernels::transpose_naive);
    let share = |e: &MemoryEvidence| total(e, |t| t.conflict) / total(e, |t| t.l3_misses);
    assert!((share(&exact) - share(&sampled)).abs() < 0.05, "{} {}", share(&exact), share(&sampled));
}

#[test]
fn a_sampled_model_that_is_given_everything_counts_l1_exactly() {
    let host = || kernels::host(LastLevelPolicy::Victim);
    let exact = simulate(CacheModel::exact(host(), PageColoring::SmallPages, Vec::new()), kernels::copy);
    let sampled = simulate(CacheModel::sampled(host(), PageColoring::SmallPages, Vec::new()), kernels::copy);
    assert_eq!(total(&sampled, |t| t.l2_read), total(&exact, |t| t.l2_read));
    assert_eq!(total(&sampled, |t| t.l1_read), total(&exact, |t| t.l1_read));
    assert!((dram(&sampled) / dram(&exact) - 1.0).abs() < 0.02);
}

#[test]
fn what_was_found_as_it_was_before_a_pause_is_stated() {
    /// Goes round `bytes`, which the last level holds, touching each word `times` times.
    fn rounds(bytes: u64, rounds: u64, times: u64, emit: kernels::Emit) {
        for i in 0..rounds * bytes / 8 * times {
            let address = 0x4000_0000 + i / times % (bytes / 8) * 8;
            emit(Access { address, bytes: 8, site: 0, kind: AccessKind::Load });
        }
    }
    let stale = |run: fn(kernels::Emit)| {
        let (_, sampled) = both(PageColoring::SmallPages, run);
        total(&sampled, |t| t.stale_lines) / total(&sampled, |t| t.l2_misses)
    };
    // Before a window measures it goes round several times, or not even once.
    let (often, rarely) = (stale(|e| rounds(3 << 20, 80, 1, e)), stale(|e| rounds(1 << 20, 2, 200, e)));
    assert!(often < 0.01 && rarely > 0.3, "{often} {rarely}");
}

#[test]
fn what_only_a_warm_up_saw_is_told_from_it() {
    /// Goes round 1 MiB; when the first pause is about to end, reads lines from memory for a while, which is too short for a
    /// window to measure it.
    fn briefly_from_memory(emit: kernels::Emit) {
        let load = |site, address| Access { address, bytes: 8, site, kind: AccessKind::Load };
        for i in 0..32u64 << 20 {
            emit(match i.checked_sub(FIRST) {
                Some(line) if line < LINES => load(1, 0x8000_0000 + 64 * line),
                _ => load(0, 0x4000_0000 + 8 * i % (1 << 20)),
            });
        }
    }
    const FIRST: u64 = 23_700_000;
    const LINES: u64 = 900_000;
    let (_, sampled) = both(PageColoring::SmallPages, briefly_from_memory);
    let of_one = |figure: fn(&Traffic) -> f64| sum(&sampled, |site, _| site == 1, figure);
    let read = of_one(|t| t.dram_read) / (64 * LINES) as f64;
    assert!((read - 1.0).abs() < 0.1, "{read}");
    assert_eq!(of_one(|t| t.unseen), 0.0);
    let seen = of_one(|t| t.seen_lines) / LINES as f64;
    assert!(seen < 0.9 / 32.0, "all of it was seen: the first pause ends elsewhere ({seen})");
}

/// Strings that are long enough for the opening to end before the sink asks the engine to leave anything out.
#[test]
fn what_was_never_collected_in_part_stands_for_the_pause_behind_it() {
    const STRINGS: u64 = 4096;
    const ALL: u64 = 10 * STRINGS;
    const BYTES: u64 = 64 << 10;
    let mut model = CacheModel::sampled(kernels::host(LastLevelPolicy::Victim), PageColoring::SmallPages, Vec::new());
    let string = |i: u64| Access {
        address: 0x4000_0000 + i % 1024 * BYTES,
        bytes: BYTES as u32,
        site: 0,
        kind: AccessKind::Load,
    };
    model.record(0, 1, &(0..STRINGS).map(string).collect::<Vec<_>>());
    while model.work() {}
    assert_eq!(model.phase(), Phase::Pause);
    model.enter(0, Phase::Pause);
    for (phase, strings) in [(Phase::Opening, STRINGS), (Phase::Pause, ALL - STRINGS)] {
        let (accesses, bytes, kind) = (strings, strings * BYTES, AccessKind::Load);
        model.executed(Executed { thread: 0, site: 0, phase, kind, accesses, bytes, strings: true });
    }
    let evidence = Box::new(model).finish(&[CodeRef { module: 0, offset: 0 }]);
    let lines = (ALL * BYTES / 64) as f64;
    let figures: [Figure; 4] = [|t| t.l1_misses, |t| t.unit_lines, |t| t.l2_read / 64.0, |t| t.dram_read / 64.0];
    for (i, figure) in figures.into_iter().enumerate() {
        let ratio = total(&evidence, figure) / lines;
        assert!((ratio - 1.0).abs() < 0.01, "figure {i}: {ratio} of all lines");
    }
}

#[test]
fn what_a_program_writes_is_written_back_also_if_it_ends_in_its_first_pause() {
    /// Fills an array, which almost ends the program's start, then another one again and again: less of it than the last
    /// level holds before the first pause begins, more than that in it.
    fn fill_and_write(emit: kernels::Emit) {
        const FIRST: u64 = 0x4000_0000;
        const SECOND: u64 = 0x8000_0000;
        let store = |site, address| Access { address, bytes: 8, site, kind: AccessKind::Store };
        (0..31 << 17).for_each(|i| emit(store(0, FIRST + 8 * i)));
        (0..16 << 17).for_each(|i| emit(store(1, SECOND + 16 * i % (16 << 20))));
    }
    let (exact, sampled) = both(PageColoring::SmallPages, fill_and_write);
    assert!(sampled.warnings.iter().any(|w| w.code == "memory-opening"), "it ends in another phase");
    for site in [0, 1] {
        let [exact, sampled] = [&exact, &sampled].map(|e| sum(e, |s, _| s == site, |t| t.dram_write));
        // The model does not see lines leave L2 that L2 holds when the pause begins.
        assert!((sampled / exact - 1.0).abs() < 0.2, "site {site}: {exact:.4e} exact, {sampled:.4e} sampled");
    }
}

#[test]
fn what_rests_on_one_window_is_told() {
    let warned = |millions: u64| {
        let model = CacheModel::sampled(kernels::host(LastLevelPolicy::Victim), PageColoring::SmallPages, Vec::new());
        let sampled = simulate_selecting(model, |emit| {
            let access = |word| Access { address: 0x4000_0000 + word * 8, bytes: 8, site: 0, kind: AccessKind::Load };
            (0..millions << 20).for_each(|i| emit(access(i & 0x3f_ffff)));
        });
        let of = |code: &str| sampled.warnings.iter().any(|w| w.code == code);
        (of("memory-opening"), of("memory-window"))
    };
    // A program that is longer and longer ends before the first window, after it, and after several.
    let seen: Vec<_> = (1..8).map(|n| warned(4 * n * n)).collect();
    assert!(seen.contains(&(false, true)), "{seen:?}");
    assert_eq!(seen.last(), Some(&(false, false)), "{seen:?}");
    assert!(seen.iter().all(|both| *both != (true, true)), "{seen:?}");
}

/// An array of not much more than the last level, written pass after pass: after a pause the model still has lines of the last
/// window, which a warm-up writes again, and which had gone to memory long before.
#[test]
fn what_a_pause_drove_out_of_the_last_level_was_written_back() {
    const LINES: u64 = 3 << 15;
    fn update(emit: kernels::Emit) {
        for _ in 0..PASSES {
            for word in 0..LINES * 8 {
                for kind in [AccessKind::Load, AccessKind::Store] {
                    let site = u32::from(kind == AccessKind::Store);
                    emit(Access { address: 0x4000_0000 + word * 8, bytes: 8, site, kind });
                }
            }
        }
    }
    const PASSES: u64 = 160;
    let host = kernels::host(LastLevelPolicy::Victim);
    assert_eq!(LINES * 64 * 2, host.last.size * 3, "one and a half last levels");
    let sampled = simulate_selecting(CacheModel::sampled(host, PageColoring::SmallPages, Vec::new()), update);
    let all = (PASSES * LINES * 64) as f64;
    for (name, bytes) in [("read", total(&sampled, |t| t.dram_read)), ("written", total(&sampled, |t| t.dram_write))] {
        assert!((bytes / all - 1.0).abs() < 0.05, "{name}: {:.3} of what went through", bytes / all);
    }
}

/// A set beyond L2 that is written again and again beside a stream that replaces the last level's lines: the set never leaves it.
#[test]
fn what_is_written_within_a_turnover_stays_in_the_last_level() {
    const HOT_LINES: u64 = 3 << 13;
    fn hot_beside_stream(emit: kernels::Emit) {
        let mut far = 0;
        for i in 0..24_000_000u64 {
            let hot = 0x2000_0000 + i * 0x9e5 % HOT_LINES * 64;
            emit(Access { address: hot, bytes: 8, site: 0, kind: AccessKind::Load });
            emit(Access { address: hot, bytes: 8, site: 1, kind: AccessKind::Store });
            if i % 4 == 0 {
                emit(Access { address: 0x4000_0000 + far % (1 << 28), bytes: 8, site: 2, kind: AccessKind::Load });
                far += 64;
            }
        }
    }
    let (exact, sampled) = both(PageColoring::SmallPages, hot_beside_stream);
    let [exact, left, sampled] = [
        sum(&exact, |site, _| site == 1, |t| t.dram_write),
        sum(&sampled, |site, _| site == 1, |t| t.l3_write),
        sum(&sampled, |site, _| site == 1, |t| t.dram_write),
    ];
    assert!(exact < 0.02 * left, "{exact:.3e} of {left:.3e} bytes go to memory: the set is not hot");
    assert!((sampled - exact).abs() < 0.03 * left, "{sampled:.3e} sampled, {exact:.3e} exact of {left:.3e}");
}

#[test]
fn the_error_of_the_model_on_ceiling_kernels_is_kept() {
    let (exact, sampled) = both(PageColoring::SmallPages, kernels::copy);
    for evidence in [&exact, &sampled] {
        let worst = evidence.calibration.iter().map(|(_, ratio)| (ratio - 1.0).abs()).fold(0.0, f64::max);
        assert!(evidence.calibration.len() == 8 && evidence.error.unwrap() >= worst, "{:?}", evidence.calibration);
        assert!(worst < 0.05, "{:?}", evidence.calibration);
    }
}
