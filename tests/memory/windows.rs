//! Threads that the engine moves between the versions of their code again and again: results, counts and reported
//! executions must be as if it never moved them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use iced_x86::{Decoder, DecoderOptions};
use rprof::instrument::{Counted, CountingEngine, Translator};
use rprof::isa::facts::AccessKind;
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, Amount, Executed, MemoryEvidence, Phase};
use rprof::tracee::launch::{Program, Streams, spawn_gated};

use crate::end_to_end::{build, functions};

/// Reports of a run.
#[derive(Default)]
struct Told {
    /// (accesses, bytes) by instruction, whether it stores, and, of all phases together.
    executed: BTreeMap<(u64, bool), (u64, u64)>,
    /// Accesses executed in each phase.
    phases: BTreeMap<&'static str, u64>,
    turns: u64,
    /// Amounts by instruction and phase: as they were reported, and in the end.
    deltas: HashMap<(u64, Phase), u64>,
    ended: HashMap<(u64, Phase), u64>,
}

/// A sink that, if it is restless, wants another phase at every query.
struct Sink {
    restless: bool,
    phase: Phase,
    told: Arc<Mutex<Told>>,
    executed: Vec<Executed>,
    deltas: Vec<Amount>,
    records: u64,
}

impl Sink {
    fn turn(&mut self) {
        if self.restless {
            self.phase = match self.phase {
                Phase::Opening | Phase::Measuring => Phase::Pause,
                Phase::Pause => Phase::Warming,
                Phase::Warming => Phase::Measuring,
            };
            self.told.lock().unwrap().turns += 1;
        }
    }
}

impl AccessSink for Sink {
    fn record(&mut self, _thread: u32, _process: u32, _batch: &[Access]) {
        // A moved thread hands over its buffers, too: it should stay for a while.
        self.records += 1;
        if !self.records.is_multiple_of(3) {
            self.turn();
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn end_phase(&mut self) {
        self.turn();
    }

    fn deltas(&mut self, amounts: &[Amount]) {
        self.deltas.extend(amounts);
    }

    fn executed(&mut self, executed: Executed) {
        self.executed.push(executed);
    }

    fn finish(self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence {
        let mut told = self.told.lock().unwrap();
        for amount in &self.deltas {
            *told.deltas.entry((sites[amount.site as usize].offset, amount.phase)).or_default() += amount.amount;
        }
        for e in &self.executed {
            let amount = if e.strings { e.bytes } else { e.accesses };
            *told.ended.entry((sites[e.site as usize].offset, e.phase)).or_default() += amount;
            let store = matches!(e.kind, AccessKind::Store | AccessKind::Scatter | AccessKind::NtStore);
            let sums = told.executed.entry((sites[e.site as usize].offset, store)).or_default();
            *sums = (sums.0 + e.accesses, sums.1 + e.bytes);
            let phase = match e.phase {
                Phase::Opening => "opening",
                Phase::Pause => "pause",
                Phase::Warming => "warming",
                Phase::Measuring => "measuring",
            };
            *told.phases.entry(phase).or_default() += e.accesses;
        }
        MemoryEvidence::default()
    }
}

fn run(program: &Path, restless: bool) -> (Counted, Told) {
    let told = Arc::new(Mutex::new(Told::default()));
    let sink = Sink {
        restless,
        phase: Phase::Opening,
        told: told.clone(),
        executed: Vec::new(),
        deltas: Vec::new(),
        records: 0,
    };
    let program = Program { path: program.to_owned(), argv: vec![program.as_os_str().to_owned()] };
    let child = spawn_gated(&program, Streams::default()).unwrap();
    let counted = Translator::new().run(child, Some(Box::new(sink)), None).unwrap();
    let told = std::mem::take(&mut *told.lock().unwrap());
    (counted, told)
}

/// Executions of each instruction in `range`.
fn executions(counted: &Counted, range: &std::ops::Range<u64>) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for block in counted.evidence.blocks.iter().filter(|b| range.contains(&b.at.offset)) {
        let times: u64 = block.executions.iter().map(|e| e.1).sum();
        let mut decoder = Decoder::new(64, &block.code, DecoderOptions::NONE);
        while decoder.can_decode() {
            *counts.entry(block.at.offset + decoder.position() as u64).or_default() += times;
            let _ = decoder.decode();
        }
    }
    counts
}

/// Runs within which threads must have been in every phase.
const RUNS: usize = 20;

#[test]
fn moving_threads_between_versions_changes_neither_results_nor_counts() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "phases", &["-O2", "-static"]);
    let native = Command::new(&program).status().unwrap().code();
    let (steady, told_steady) = run(&program, false);
    let ended = |counted: &Counted| libc::WIFEXITED(counted.status).then(|| libc::WEXITSTATUS(counted.status));
    assert_eq!(ended(&steady), native);
    let (mut phases, mut turns, mut from_deltas) = (BTreeMap::<&str, u64>::new(), 0, 0);
    // The moves are random: not every run shows a thread in every phase.
    for _ in 0..RUNS {
        let (restless, told) = run(&program, true);
        assert_eq!(ended(&restless), native);
        is_the_same(&program, (&steady, &told_steady), (&restless, &told));
        is_a_part(&told);
        from_deltas += told.deltas.values().sum::<u64>();
        turns += told.turns;
        told.phases.iter().for_each(|(phase, n)| *phases.entry(phase).or_default() += n);
        if turns > 100 && from_deltas > 1_000_000 && phases.values().filter(|n| **n > 0).count() == 4 {
            return;
        }
    }
    panic!("{turns} turns; accesses by phase: {phases:?}, {from_deltas} told on the way");
}

/// Amounts reported on the way are at most those reported in the end. A thread may be seen between two counters of one block.
fn is_a_part(told: &Told) {
    for (key, amount) in &told.deltas {
        let ended = told.ended.get(key).copied().unwrap_or(0);
        assert!(*amount <= ended + told.turns, "{key:x?}: {amount} on the way, {ended} in the end");
    }
}

/// Executions and accesses of the fixture's functions, in a run without and in one with moved threads.
fn is_the_same(program: &Path, (steady, told_steady): (&Counted, &Told), (restless, told): (&Counted, &Told)) {
    for (name, range) in functions(program).iter().filter(|(name, _)| name.starts_with("work_")) {
        let (expected, found) = (executions(steady, range), executions(restless, range));
        assert!(expected.values().any(|&n| n > 100_000), "{name} was hardly executed");
        assert_eq!(found, expected, "{name}: executions by instruction");
        let accesses = |told: &Told| -> Vec<_> {
            told.executed.iter().filter(|((at, _), _)| range.contains(at)).map(|(k, v)| (*k, *v)).collect()
        };
        assert_eq!(accesses(told), accesses(told_steady), "{name}: accesses by instruction");
    }
}
