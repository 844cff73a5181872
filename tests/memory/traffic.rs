//! Bytes at each level of known kernels against arithmetic.
//!
//! Tolerance: 5 % of the analytic DRAM traffic for streams (edges of arrays, final flush), 10 % for the others.

use crate::feed::{Feed, dram, simulate, simulate_selecting, sum, total};
use crate::kernels;
use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, LastLevelPolicy, PageColoring};
use rprof::profile::evidence::memory::{Access, Traffic};

const POLICIES: [LastLevelPolicy; 3] =
    [LastLevelPolicy::Victim, LastLevelPolicy::NonInclusive, LastLevelPolicy::Inclusive];

fn model(policy: LastLevelPolicy) -> CacheModel {
    CacheModel::exact(kernels::host(policy), PageColoring::Identity, Vec::new())
}

#[test]
fn dram_bytes_are_what_arithmetic_says() {
    for policy in POLICIES {
        for kernel in kernels::all() {
            let Some(expected) = kernel.dram else { continue };
            let found = dram(&simulate(model(policy), kernel.run));
            let ratio = found / expected;
            println!("{policy:?} {}: {expected:.0} {found:.0} {ratio:.4}", kernel.name);
            let tolerance = if kernel.name.contains("stencil") || kernel.name.contains("matmul") { 0.10 } else { 0.05 };
            // A victim cache adds L2's ways to its own: it keeps a part of the conflicting lines.
            let conflict = kernel.name.contains("8 KiB") || kernel.name.contains("power-of-two");
            if conflict && policy == LastLevelPolicy::Victim {
                assert!(ratio > 0.3 && ratio <= 1.05, "{policy:?} {}: {ratio}", kernel.name);
            } else {
                assert!((ratio - 1.0).abs() < tolerance, "{policy:?} {}: {ratio}", kernel.name);
            }
        }
    }
}

#[test]
fn copy_moves_24_bytes_an_element_and_nt_copy_16() {
    let n = kernels::N as f64;
    let copy = simulate(model(LastLevelPolicy::Victim), kernels::copy);
    assert!((dram(&copy) / n - 24.0).abs() < 0.01, "{}", dram(&copy) / n);
    assert!((total(&copy, |t| t.dram_fill) / n - 8.0).abs() < 0.01);
    // Fills belong to the load and the store, write-backs to the store alone.
    assert!((sum(&copy, |site, _| site == 0, |t| t.dram_read) / n - 8.0).abs() < 0.01);
    assert_eq!(sum(&copy, |site, _| site == 0, |t| t.dram_write), 0.0);
    assert!((sum(&copy, |site, _| site == 1, |t| t.dram_write) / n - 8.0).abs() < 0.01);
    for level in [|t: &_| read_write_l2(t), |t: &_| read_write_l3(t)] {
        assert!((total(&copy, level) / n - 24.0).abs() < 0.01);
    }
    assert_eq!(total(&copy, |t| t.l1_read + t.l1_write), 16.0 * n);

    let nt = simulate(model(LastLevelPolicy::Victim), kernels::copy_nt);
    assert!((dram(&nt) / n - 16.0).abs() < 0.01, "{}", dram(&nt) / n);
    assert_eq!(total(&nt, |t| t.dram_fill), 0.0);
    assert_eq!(total(&nt, |t| t.dram_nt) / n, 8.0);
}

/// Stores to `lines` lines of 64 bytes, in turns over `rows` of them, of `parts` of each line's eight.
fn stores(emit: kernels::Emit, lines: u64, rows: u64, parts: u64) {
    let column = lines / rows;
    for (i, part, row) in (0..column).flat_map(|i| (0..parts).flat_map(move |p| (0..rows).map(move |r| (i, p, r)))) {
        let address = 0x1000_0000 + (row * (column + 1) + i) * 64 + part * 8;
        emit(Access { address, bytes: 8, site: 0, kind: AccessKind::Store });
    }
}

/// Whole lines in blocks of `block` lines. One instruction writes a block, and an access of kind `then` uses it again.
fn blocks_used_again(emit: kernels::Emit, lines: u64, block: u64, then: AccessKind) {
    for i in (0..lines / block).map(|i| i * block) {
        for (kind, site) in [(AccessKind::Store, 0), (then, 1)] {
            for part in i * 8..(i + block) * 8 {
                emit(Access { address: 0x1000_0000 + part * 8, bytes: 8, site, kind });
            }
        }
    }
}

#[test]
fn stores_of_whole_lines_that_nobody_uses_soon_need_no_fill() {
    const LINES: u64 = 1 << 17;
    type Run = fn(kernels::Emit);
    let share = |run: Run, sampled| {
        let host = kernels::host(LastLevelPolicy::Victim);
        let found = match sampled {
            false => simulate(model(LastLevelPolicy::Victim), run),
            true => simulate_selecting(CacheModel::sampled(host, PageColoring::SmallPages, Vec::new()), run),
        };
        let mut all = Traffic::default();
        found.sites.iter().for_each(|site| all.add(&site.traffic));
        let (needless, fills) = (all.needless_fills(), all.dram_fill);
        assert!((fills / (64 * LINES) as f64 - 1.0).abs() < 0.03, "{fills}");
        needless / fills
    };
    let kernels: [(&str, Run, f64); 9] = [
        ("whole lines", |emit| stores(emit, LINES, 1, 8), 1.0),
        ("whole lines of four streams", |emit| stores(emit, LINES, 4, 8), 1.0),
        ("half of each line", |emit| stores(emit, LINES, 1, 4), 0.0),
        ("one word of each line", |emit| stores(emit, LINES, 1, 1), 0.0),
        ("columns", |emit| stores(emit, LINES, 512, 8), 0.0),
        ("whole lines of twelve streams", |emit| stores(emit, LINES, 12, 8), 1.0),
        ("whole lines of forty streams", |emit| stores(emit, LINES, 40, 8), 0.0),
        ("written over in L1", |emit| blocks_used_again(emit, LINES, 128, AccessKind::Store), 0.0),
        ("read again from L2", |emit| blocks_used_again(emit, LINES, 1 << 10, AccessKind::Load), 0.0),
    ];
    for (name, run, expected) in kernels {
        let [exact, sampled] = [false, true].map(|sampled| share(run, sampled));
        println!("{name}: {exact:.4} sampled {sampled:.4}, {expected}");
        assert!((exact - expected).abs() < 0.01 && (sampled - expected).abs() < 0.05, "{name}: {exact} {sampled}");
    }
}

fn read_write_l2(t: &rprof::profile::evidence::memory::Traffic) -> f64 {
    t.l2_read + t.l2_write
}

fn read_write_l3(t: &rprof::profile::evidence::memory::Traffic) -> f64 {
    t.l3_read + t.l3_write
}

#[test]
fn conflict_misses_are_named_and_gone_with_padding() {
    type Run = fn(kernels::Emit);
    let pairs: [(Run, Run); 2] =
        [(kernels::conflict, kernels::conflict_padded), (kernels::transpose_naive, kernels::transpose_padded)];
    for (run, padded) in pairs {
        let plain = simulate(model(LastLevelPolicy::NonInclusive), run);
        let (conflict, capacity) = (total(&plain, |t| t.conflict), total(&plain, |t| t.capacity));
        assert!(conflict > 5.0 * capacity, "conflict {conflict}, capacity {capacity}");
        let padded = simulate(model(LastLevelPolicy::NonInclusive), padded);
        assert!(total(&padded, |t| t.conflict) < 0.01 * conflict);
    }
}

/// 64 lines, again and again: a page apart they fall into one set of L1; a line more, and each into its own.
fn in_l1(stride: u64, emit: kernels::Emit) {
    for i in 0..4_000_000u64 {
        emit(Access { address: 0x1000_0000 + i % 64 * stride, bytes: 8, site: 0, kind: AccessKind::Load });
    }
}

/// 2,048 lines, again and again, in L2: on every eighth set of it, or evenly.
fn in_l2(stride: u64, emit: kernels::Emit) {
    for i in 0..4_000_000u64 {
        emit(Access { address: 0x1000_0000 + i % 2048 * stride, bytes: 8, site: 0, kind: AccessKind::Load });
    }
}

#[test]
fn conflicts_in_private_caches_are_named_exact_and_sampled_and_gone_with_padding() {
    type Run = fn(kernels::Emit);
    type Figure = fn(&rprof::profile::evidence::memory::Traffic) -> f64;
    let cases: [(Run, Run, Figure, Figure); 2] = [
        (|e| in_l1(4096, e), |e| in_l1(4096 + 64, e), |t| t.l1_conflict, |t| t.l1_misses),
        (|e| in_l2(512, e), |e| in_l2(512 + 64, e), |t| t.l2_conflict, |t| t.l2_misses),
    ];
    for (run, padded, conflicts, misses) in cases {
        for sampled in [false, true] {
            let simulated = |run| {
                let host = kernels::host(LastLevelPolicy::Victim);
                match sampled {
                    false => simulate(CacheModel::exact(host, PageColoring::SmallPages, Vec::new()), run),
                    true => simulate_selecting(CacheModel::sampled(host, PageColoring::SmallPages, Vec::new()), run),
                }
            };
            let (plain, padded) = (simulated(run), simulated(padded));
            let (named, all) = (total(&plain, conflicts), total(&plain, misses));
            println!("sampled {sampled}: {named} conflicts of {all} misses; padded {}", total(&padded, conflicts));
            assert!(named > 0.95 * all && all > 3_900_000.0, "sampled {sampled}: {named} of {all}");
            assert!(total(&padded, conflicts) < 0.01 * named, "sampled {sampled}: {}", total(&padded, conflicts));
        }
    }
}

#[test]
fn a_line_is_written_back_once_however_often_it_is_read_afterwards() {
    // 2 MiB: in the last level, not in L2. Written once by site 0, then read five times by site 1.
    let lines = (2u64 << 20) / 64;
    for policy in POLICIES {
        let mut feed = Feed::new(model(policy));
        for pass in 0..6 {
            for i in 0..lines {
                let (site, kind) = if pass == 0 { (0, AccessKind::Store) } else { (1, AccessKind::Load) };
                feed.access(Access { address: 0x1000_0000 + i * 64, bytes: 8, site, kind });
            }
        }
        let evidence = feed.finish();
        let bytes = 64.0 * lines as f64;
        assert_eq!(total(&evidence, |t| t.l3_write), bytes, "{policy:?}");
        assert_eq!(total(&evidence, |t| t.dram_write), bytes, "{policy:?}");
        assert_eq!(sum(&evidence, |site, _| site == 1, |t| t.l3_read), 5.0 * bytes, "{policy:?}");
    }
}

#[test]
fn a_working_set_beyond_the_cache_misses_for_capacity() {
    let run = |emit: kernels::Emit| {
        for _ in 0..4 {
            for i in 0..3 * (4u64 << 20) / 64 {
                emit(Access { address: 0x1000_0000 + i * 64, bytes: 8, site: 0, kind: AccessKind::Load });
            }
        }
    };
    let evidence = simulate(model(LastLevelPolicy::NonInclusive), run);
    let lines = 3.0 * (4 << 20) as f64 / 64.0;
    assert_eq!(total(&evidence, |t| t.compulsory), lines);
    assert_eq!(total(&evidence, |t| t.capacity), 3.0 * lines);
    assert_eq!(total(&evidence, |t| t.conflict), 0.0);
    assert!(total(&evidence, |t| t.unit_lines) > 3.99 * lines);
}

#[test]
fn orders_are_told_apart() {
    let shares = |run: fn(kernels::Emit)| {
        let e = simulate(model(LastLevelPolicy::Victim), run);
        let all = total(&e, |t| t.unit_lines + t.strided_lines + t.random_lines + t.gathered_lines);
        [total(&e, |t| t.unit_lines) / all, total(&e, |t| t.strided_lines) / all, total(&e, |t| t.gathered_lines) / all]
    };
    assert!(shares(kernels::copy)[0] > 0.98);
    assert!(shares(kernels::conflict)[1] > 0.95);
    let spmv = kernels::all().into_iter().find(|k| k.name == "spmv").unwrap();
    assert!(shares(spmv.run)[2] > 0.5);
}

/// Coherence misses of two threads that each store `rounds` times to the addresses of `place`.
fn coherence(place: fn(thread: u64, i: u64) -> u64, kind: AccessKind) -> f64 {
    let mut feed = Feed::new(model(LastLevelPolicy::Victim));
    for round in 0..20u64 {
        for thread in 0..2 {
            let batch: Vec<_> = (0..2000)
                .map(|i| Access { address: 0x10_0000 + place(thread, round * 2000 + i), bytes: 8, site: 0, kind })
                .collect();
            feed.record(thread as u32, &batch);
        }
    }
    total(&feed.finish(), |t| t.coherence)
}

#[test]
fn false_sharing_shared_reads_and_private_data_give_three_answers() {
    let false_sharing = coherence(|thread, _| thread * 8, AccessKind::Store);
    let shared_read = coherence(|_, i| i % 512 * 8, AccessKind::Load);
    let private = coherence(|thread, i| thread * 0x10_0000 + i % 512 * 8, AccessKind::Store);
    assert!(false_sharing > 1000.0, "{false_sharing}");
    assert_eq!((shared_read, private), (0.0, 0.0));
}

#[test]
fn data_handed_from_core_to_core_does_not_come_from_memory() {
    for policy in POLICIES {
        let mut feed = Feed::new(model(policy));
        let access = |i: u64, kind| Access { address: 0x10_0000 + i * 64, bytes: 8, site: 0, kind };
        let stores: Vec<_> = (0..100).map(|i| access(i, AccessKind::Store)).collect();
        let loads: Vec<_> = (0..100).map(|i| access(i, AccessKind::Load)).collect();
        feed.record(0, &stores);
        feed.record(1, &loads);
        let evidence = feed.finish();
        assert_eq!(sum(&evidence, |_, thread| thread == 1, |t| t.dram_read), 0.0, "{policy:?}");
        assert_eq!(sum(&evidence, |_, thread| thread == 1, |t| t.l3_read), 6400.0, "{policy:?}");
        assert_eq!(total(&evidence, |t| t.dram_write), 6400.0, "{policy:?}");
    }
}
