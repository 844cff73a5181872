//! Work of the demo's kernels: FLOPs and bytes per turn of the inner loop, worked out by hand from the kernels' text,
//! against the counting engine. The kernels themselves declare nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::{Object, ObjectSymbol};
use rprof::instrument::translator::Translator;
use rprof::instrument::{CountingEngine, SingleStep};
use rprof::isa::facts::{AccessKind, Dynamic, InstructionFacts};
use rprof::isa::x86_64::classify::classify;
use rprof::profile::evidence::blocks::BlockCount;
use rprof::profile::evidence::counted::CountedEvidence;
use rprof::tracee::launch::{Program, Streams, spawn_gated};

/// One kernel: vectors of `w` bytes, so w/8 doubles and w/4 singles.
struct Expected {
    kernel: &'static str,
    /// FLOPs, bytes loaded, bytes stored in one turn of the inner loop.
    turn: fn(w: u64) -> [u64; 3],
}

/// With FMA (AVX2, AVX-512).
const EXPECTED: &[Expected] = &[
    Expected { kernel: "peak", turn: |w| [24 * 2 * w / 8, 0, 0] },
    Expected { kernel: "peak_sp", turn: |w| [24 * 2 * w / 4, 0, 0] },
    Expected { kernel: "simd_scalar", turn: |_| [24 * 2, 0, 0] },
    Expected { kernel: "simd_narrow", turn: |_| [24 * 2 * 4, 0, 0] },
    Expected { kernel: "balance_add", turn: |w| [24 * w / 8, 0, 0] },
    Expected { kernel: "balance_mul", turn: |w| [24 * w / 4, 0, 0] },
    Expected { kernel: "add_mul", turn: |w| [24 * w / 8, 0, 0] },
    Expected { kernel: "ilp_chain", turn: |_| [16, 0, 0] },
    Expected { kernel: "ilp_memory", turn: |_| [1, 8, 8] },
    Expected { kernel: "mix_mov", turn: |w| [12 * 2 * w / 8, 0, 0] },
    Expected { kernel: "div", turn: |w| [8 * w / 8, 0, 0] },
    Expected { kernel: "div_sqrt", turn: |_| [8, 0, 0] },
    Expected { kernel: "l1_loads", turn: |w| [8 * w / 8, 16 * w, 0] },
    Expected { kernel: "l1_store", turn: |w| [8 * w / 8, 0, 8 * w] },
    Expected { kernel: "l1_access", turn: |_| [8, 16 * 8, 0] },
    // With the widest vectors in fours.
    Expected { kernel: "l2_read", turn: |w| if w == 64 { [4 * 8, 4 * 64, 0] } else { [8 * w / 8, 8 * w, 0] } },
    Expected { kernel: "l2_copy", turn: |w| [4 * w / 4, 4 * w, 4 * w] },
    Expected { kernel: "int", turn: |_| [0, 0, 0] },
];

/// AVX-512 alone: half of the lanes masked off; vectors of half the width.
const EXPECTED_512: &[Expected] = &[
    Expected { kernel: "simd_masked", turn: |_| [24 * 2 * 4, 0, 0] },
    Expected { kernel: "simd_half", turn: |_| [24 * 2 * 8, 0, 0] },
];

/// SSE2: no FMA, so adds and multiplies in even shares, and no broadcast operand.
const EXPECTED_SSE2: &[Expected] = &[
    Expected { kernel: "peak", turn: |_| [24 * 2, 0, 0] },
    Expected { kernel: "peak_sp", turn: |_| [24 * 4, 0, 0] },
    Expected { kernel: "simd_scalar", turn: |_| [24, 0, 0] },
    Expected { kernel: "balance_add", turn: |_| [24 * 2, 0, 0] },
    Expected { kernel: "balance_mul", turn: |_| [24 * 4, 0, 0] },
    Expected { kernel: "ilp_chain", turn: |_| [16, 0, 0] },
    Expected { kernel: "ilp_two", turn: |_| [16 * 4, 0, 0] },
    Expected { kernel: "ilp_memory", turn: |_| [1, 8, 8] },
    Expected { kernel: "mix_mov", turn: |_| [12 * 2, 0, 0] },
    Expected { kernel: "mix_add", turn: |_| [12 * 2, 0, 0] },
    Expected { kernel: "div", turn: |_| [8 * 2, 0, 0] },
    Expected { kernel: "div_sqrt", turn: |_| [8, 0, 0] },
    Expected { kernel: "l1_loads", turn: |_| [8 * 2, 16 * 16, 0] },
    Expected { kernel: "l1_store", turn: |_| [8 * 2, 0, 8 * 16] },
    Expected { kernel: "l1_access", turn: |_| [8, 16 * 8, 0] },
    Expected { kernel: "l2_copy", turn: |_| [4 * 4, 4 * 16, 4 * 16] },
];

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_rprof"))
}

/// Counts one pass of `kernels`.
fn count(engine: &mut dyn CountingEngine, kernels: &[&Expected], isa: &str) -> CountedEvidence {
    let mut argv: Vec<OsString> = ["rprof", "__demo", "--isa", isa].map(OsString::from).into();
    argv.extend(kernels.iter().map(|k| format!("{}=1", k.kernel).into()));
    let null = Some(fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into());
    let streams = Streams { stdout: null, ..Streams::default() };
    let child = spawn_gated(&Program { path: program(), argv }, streams).unwrap();
    let counted = engine.run(child, None, None).unwrap();
    assert_eq!(counted.status, 0, "the demo ended with {:#x}", counted.status);
    counted.evidence
}

/// Sums over the blocks inside a function, and the executions of its most executed instruction: the turns of the
/// innermost loop.
#[derive(Debug, Default)]
struct Sums {
    flops: u64,
    loaded: u64,
    stored: u64,
    /// By instruction; blocks may overlap.
    executed: BTreeMap<u64, u64>,
}

impl Sums {
    fn add(&mut self, block: &BlockCount) {
        let executions: u64 = block.executions.iter().map(|e| e.1).sum();
        let mut decoder = Decoder::with_ip(64, &block.code, 0, DecoderOptions::NONE);
        while decoder.can_decode() {
            let offset = decoder.ip() as u32;
            *self.executed.entry(block.at.offset + decoder.ip()).or_default() += executions;
            let instruction = decoder.decode();
            if instruction.flow_control() == FlowControl::Return {
                continue; // its load of the return address is no turn's
            }
            let facts = classify(&instruction);
            let lanes = dynamic(block, offset);
            self.flops += flops(&facts, executions, lanes);
            for access in &facts.accesses {
                let bytes = u64::from(access.bytes) * executions;
                match access.kind {
                    AccessKind::Load => self.loaded += bytes,
                    AccessKind::Store | AccessKind::NtStore => self.stored += bytes,
                    other => panic!("unexpected {other:?}"),
                }
            }
        }
    }
}

fn dynamic(block: &BlockCount, offset: u32) -> u64 {
    block.dynamic.iter().filter(|d| d.offset == offset).map(|d| d.sum).sum()
}

fn flops(facts: &InstructionFacts, executions: u64, active_lanes: u64) -> u64 {
    let masked = matches!(facts.dynamic, Some(Dynamic::Mask { .. }));
    let one = |f: &rprof::isa::facts::FlopFact| match masked {
        true => u64::from(f.flops / f.lanes) * active_lanes,
        false => u64::from(f.flops) * executions,
    };
    facts.flops.iter().map(one).sum()
}

fn symbols() -> BTreeMap<String, (u64, u64)> {
    let bytes = fs::read(program()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let demo = |s: &object::Symbol| s.name().is_ok_and(|n| n.starts_with("demo_"));
    file.symbols().filter(demo).map(|s| (s.name().unwrap().into(), (s.address(), s.address() + s.size()))).collect()
}

fn check(engine: &mut dyn CountingEngine, kernels: &[&Expected], isa: &str, w: u64) {
    let evidence = count(engine, kernels, isa);
    let symbols = symbols();
    for Expected { kernel, turn } in kernels {
        let (from, to) = *symbols
            .get(&format!("demo_{kernel}_{isa}"))
            .or_else(|| symbols.get(&format!("demo_{kernel}")))
            .unwrap_or_else(|| panic!("no symbol for {kernel}"));
        let mut sums = Sums::default();
        for block in evidence.blocks.iter().filter(|b| (from..to).contains(&b.at.offset)) {
            if evidence.modules[block.at.module as usize].file_name() == "rprof" {
                sums.add(block);
            }
        }
        let turns = sums.executed.values().copied().max().unwrap_or(0);
        let [flops, loaded, stored] = turn(w).map(|per_turn| per_turn * turns);
        assert!(turns > 10, "{kernel} did not run");
        assert_eq!((sums.flops, sums.loaded, sums.stored), (flops, loaded, stored), "{kernel}, {turns} turns");
    }
}

fn check_on_this_cpu<E: CountingEngine>(engine: fn() -> E) {
    let all = |tables: &[&'static [Expected]]| tables.iter().flat_map(|t| t.iter()).collect::<Vec<_>>();
    check(&mut engine(), &all(&[EXPECTED_SSE2]), "sse2", 16);
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        check(&mut engine(), &all(&[EXPECTED]), "avx2", 32);
    } else {
        println!("SKIPPED: avx2: demo kernels in AVX2: this CPU lacks it");
    }
    if is_x86_feature_detected!("avx512f") {
        check(&mut engine(), &all(&[EXPECTED, EXPECTED_512]), "avx512", 64);
    } else {
        println!("SKIPPED: avx512: demo kernels in AVX-512: this CPU lacks it");
    }
}

#[test]
fn kernels_execute_what_their_text_says() {
    check_on_this_cpu(Translator::new);
}

#[test]
#[ignore = "single-steps for minutes; tests/run --full"]
fn single_stepping_counts_what_their_text_says() {
    check_on_this_cpu(SingleStep::new);
}
