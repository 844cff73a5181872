//! Bursts: the records match the program's execution, and recording changes neither the program nor its counts.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use object::{Object, ObjectSymbol};
use rprof::instrument::{Counted, CountingEngine, Translator};
use rprof::isa::facts::AccessKind;
use rprof::isa::x86_64::classify;
use rprof::memory::{CacheModel, Geometry, PageColoring};
use rprof::profile::evidence::bursts::{TraceEntry, TracedAccess, TracedBlock};
use rprof::profile::evidence::memory::AccessSink;

use crate::burst_recorder::{Recorded, Traced};
use crate::guests::{build, counted_by};
use crate::instruction_counts::by_instruction;
use crate::truth::engine;
use crate::truth::program;

/// Engines wait for any child of this process: one at a time.
static ONE_ENGINE: Mutex<()> = Mutex::new(());

/// Rounds of the guest's loop, and elements of its arrays.
const ROUNDS: usize = 257;

/// The sink of the sampled cache model.
fn model() -> Box<dyn AccessSink> {
    let (geometry, warnings) = Geometry::of_host(&[], 2);
    Box::new(CacheModel::sampled(geometry, PageColoring::SmallPages, warnings))
}

/// An execution of a block, its accesses, and the instructions that it consists of.
struct Step<'a> {
    block: &'a TracedBlock,
    accesses: Vec<TracedAccess>,
}

fn steps<'a>(recorded: &'a Recorded, entries: &[TraceEntry]) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    for entry in entries {
        match *entry {
            TraceEntry::Block(number) => {
                steps.push(Step { block: &recorded.blocks[number as usize], accesses: Vec::new() })
            }
            TraceEntry::Access(access) => steps.last_mut().expect("a block comes first").accesses.push(access),
        }
    }
    // Nothing says that the last one was executed to its end.
    steps.pop();
    steps
}

fn instructions(block: &TracedBlock) -> Vec<Instruction> {
    Decoder::with_ip(64, &block.code, block.start, DecoderOptions::NONE).iter().collect()
}

/// Checks that `to` may come after `from`, with the addresses that returns are to go to.
fn check_way(from: &TracedBlock, to: &TracedBlock, returns: &mut Vec<u64>) {
    let last = *instructions(from).last().unwrap();
    let next = from.start + from.code.len() as u64;
    let goes_to = |allowed: &[u64]| {
        assert!(allowed.contains(&to.start), "{last} at {:#x} is followed by {:#x}", last.ip(), to.start);
    };
    match last.flow_control() {
        FlowControl::ConditionalBranch => goes_to(&[last.near_branch_target(), next]),
        FlowControl::UnconditionalBranch => goes_to(&[last.near_branch_target()]),
        FlowControl::Call if last.mnemonic() == Mnemonic::Syscall => goes_to(&[next]),
        FlowControl::Call => {
            returns.push(next);
            goes_to(&[last.near_branch_target()]);
        }
        FlowControl::IndirectCall => returns.push(next),
        FlowControl::Return => {
            if let Some(to) = returns.pop() {
                goes_to(&[to]);
            }
        }
        FlowControl::IndirectBranch => {}
        _ => goes_to(&[next]),
    }
}

/// Checks that the accesses of a step are those of its instructions.
fn check_accesses(step: &Step<'_>) {
    let mut by_offset: BTreeMap<u16, Vec<TracedAccess>> = BTreeMap::new();
    let in_order = step.accesses.windows(2).all(|pair| pair[0].offset <= pair[1].offset);
    assert!(in_order, "{:?}", step.accesses);
    step.accesses.iter().for_each(|access| by_offset.entry(access.offset).or_default().push(*access));
    for instruction in instructions(step.block) {
        let offset = (instruction.ip() - step.block.start) as u16;
        let found = by_offset.remove(&offset).unwrap_or_default();
        let facts = classify(&instruction);
        if facts.dynamic.is_some() || instruction.memory_segment() == Register::GS {
            continue;
        }
        let kinds: Vec<AccessKind> = found.iter().map(|access| access.kind).collect();
        let expected: Vec<AccessKind> = facts.accesses.iter().map(|fact| fact.kind).collect();
        assert_eq!(kinds, expected, "{instruction} at {:#x}", instruction.ip());
        for (access, fact) in found.iter().zip(&facts.accesses) {
            assert_eq!(access.bytes, fact.bytes, "{instruction}");
            assert!((1 << 12..1 << 47).contains(&access.address), "{instruction}: {:#x}", access.address);
        }
        if instruction.is_ip_rel_memory_operand() && instruction.mnemonic() != Mnemonic::Lea {
            let to = instruction.ip_rel_memory_address();
            assert!(found.iter().any(|access| access.address == to), "{instruction}: {found:x?}");
        }
    }
    assert!(by_offset.is_empty(), "no instruction stands at {by_offset:?}");
}

/// Checks all bursts; returns their steps.
fn check(recorded: &Recorded) -> Vec<Vec<Step<'_>>> {
    let bursts: Vec<Vec<Step<'_>>> = recorded.bursts.iter().map(|(_, entries)| steps(recorded, entries)).collect();
    for burst in &bursts {
        let mut returns = Vec::new();
        burst.windows(2).for_each(|pair| check_way(pair[0].block, pair[1].block, &mut returns));
        burst.iter().for_each(check_accesses);
    }
    bursts
}

/// Range of a function in the file.
fn function(program: &Path, name: &str) -> Range<u64> {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbol = file.symbols().find(|s| s.name() == Ok(name)).expect("it has that function");
    symbol.address()..symbol.address() + symbol.size()
}

/// Runs a guest with `arguments` under `engine`; it says and ends as natively.
fn run(
    engine: &mut dyn CountingEngine,
    sink: Option<Box<dyn AccessSink>>,
    program: &Path,
    arguments: &[&str],
) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let native = Command::new(program).args(arguments).output().unwrap();
    let argv: Vec<&str> = std::iter::once(program.to_str().unwrap()).chain(arguments.iter().copied()).collect();
    let (counted, said) = counted_by(engine, sink, dir.path(), &argv);
    let counted = counted.unwrap();
    assert_eq!(said.output, String::from_utf8_lossy(&native.stdout), "{argv:?}");
    assert_eq!(said.errors, String::from_utf8_lossy(&native.stderr), "{argv:?}");
    assert_eq!(counted.status, native.status.into_raw(), "{argv:?}");
    counted
}

#[test]
fn bursts_are_paths_of_the_program_with_its_accesses() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "bursts.c", &[]);
    // On a busy host a second of CPU time has few bursts.
    let is_long = |burst: &&Vec<Step<'_>>| burst.len() > 5_000;
    let mut engine = Traced::new(20_000);
    let (mut counted, mut recorded) = (run(&mut engine, None, &program, &["1000"]), engine.recorded());
    if check(&recorded).iter().filter(is_long).count() < 8 {
        let mut engine = Traced::new(20_000);
        (counted, recorded) = (run(&mut engine, None, &program, &["8000"]), engine.recorded());
    }
    let bursts = check(&recorded);
    let long = bursts.iter().filter(is_long).count();
    assert!(long >= 5, "{long} bursts of {}", bursts.len());

    // The loop of one block, and the instruction that moves a whole array.
    let own = counted.evidence.modules.iter().position(|m| Path::new(&m.path) == program).unwrap() as u32;
    let of = |name: &str| {
        let range = function(&program, name);
        move |step: &Step<'_>| step.block.at.module == own && range.contains(&step.block.at.offset)
    };
    let start = function(&program, "rounds").start;
    let (in_rounds, in_moved) = (of("rounds"), of("moved"));
    let is_loop = |step: &Step<'_>| {
        let last = *instructions(step.block).last().unwrap();
        in_rounds(step) && last.mnemonic() == Mnemonic::Jne && last.near_branch_target() == step.block.start
    };
    let (mut whole, mut moves) = (0, 0);
    for burst in &bursts {
        let mut from = 0;
        for rounds in burst.chunk_by(|a, b| is_loop(a) == is_loop(b)) {
            let (first, last) = (from, from + rounds.len());
            from = last;
            if first == 0 || last == burst.len() || !is_loop(&rounds[0]) {
                continue;
            }
            let before = &burst[first - 1];
            if first == 1 && before.block.at.offset != start {
                // The burst began in the middle of a round.
                assert!(in_rounds(before));
                continue;
            }
            // The first round is in the function's first block.
            assert_eq!(before.block.at.offset, start, "where the loop begins");
            assert_eq!(rounds.len(), ROUNDS - 1, "rounds of the loop");
            let addresses: Vec<u64> =
                std::iter::once(before).chain(rounds).map(|step| step.accesses[0].address).collect();
            assert!(addresses.windows(2).all(|pair| pair[1] == pair[0] + 8), "each reads the next element");
            whole += 1;
        }
        // A burst may end in the middle of the instruction.
        let complete = &burst[..burst.len().saturating_sub(1)];
        for (number, step) in complete.iter().enumerate().filter(|(_, step)| in_moved(step)) {
            let runs: Vec<_> =
                step.accesses.iter().filter(|a| a.bytes as usize == 8 * ROUNDS).map(|a| a.kind).collect();
            if instructions(step.block).iter().any(|i| i.mnemonic() == Mnemonic::Movsq) {
                let place = format!("step {number} of {}: {:x?}", burst.len(), step.accesses);
                assert_eq!(runs, [AccessKind::Load, AccessKind::Store], "one of each for the run: {place}");
                moves += 1;
            }
        }
    }
    assert!(whole >= 5 && moves >= 5, "{whole} times the loop, {moves} times the array");
}

#[test]
fn what_is_counted_is_the_same() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "bursts.c", &[]);
    let own = |counted: &Counted| {
        let own = counted.evidence.modules.iter().position(|m| Path::new(&m.path) == program).unwrap() as u32;
        let mut evidence = counted.evidence.clone();
        evidence.blocks.retain(|block| block.at.module == own);
        by_instruction(&Counted {
            status: 0,
            evidence,
            memory: None,
            bursts: None,
            ended_before: None,
            changed_files: false,
        })
    };
    let expected = own(&run(&mut Translator::new(), None, &program, &["times", "120000"]));
    for sink in [None, Some(model())] {
        let mut engine = Traced::new(5_000);
        let found = own(&run(&mut engine, sink, &program, &["times", "120000"]));
        let bursts = engine.recorded().bursts.len();
        assert!(bursts >= 3, "{bursts} bursts");
        for (at, counts) in &expected {
            assert_eq!(found.get(at), Some(counts), "at {at:#x}");
        }
        assert_eq!(found.len(), expected.len());
    }
}

#[test]
fn a_sink_that_takes_everything_sees_each_counted_instruction_and_the_way_between_them() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "bursts.c", &[]);
    let mut engine = Traced::continuous();
    let counted = run(&mut engine, None, &program, &["20"]);
    let recorded = engine.recorded();
    let mut seen: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for entry in recorded.bursts.iter().flat_map(|(_, entries)| entries) {
        let TraceEntry::Block(number) = entry else { continue };
        let block = &recorded.blocks[*number as usize];
        for instruction in instructions(block) {
            *seen.entry((block.at.module, block.at.offset + instruction.ip() - block.start)).or_default() += 1;
        }
    }
    let mut expected: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for block in counted.evidence.blocks.iter() {
        let executions: u64 = block.executions.iter().map(|(_, executions)| executions).sum();
        for instruction in Decoder::new(64, &block.code, DecoderOptions::NONE).iter().filter(|_| executions > 0) {
            *expected.entry((block.at.module, block.at.offset + instruction.ip())).or_default() += executions;
        }
    }
    assert!(expected.values().sum::<u64>() > 100_000);
    let differ = expected.iter().filter(|(at, executions)| seen.get(at) != Some(executions)).take(5);
    assert_eq!(differ.collect::<Vec<_>>(), Vec::<(&(u32, u64), &u64)>::new());
    assert_eq!(seen.len(), expected.len());
    assert!(check(&recorded).iter().map(Vec::len).sum::<usize>() > 10_000);
}

#[test]
fn flops_are_those_of_the_kernels() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = tempfile::tempdir().unwrap();
    for truth in program::programs().into_iter().filter(|truth| truth.lacks().is_empty()) {
        let program = truth.compile(folder.path(), 2, program::Link::Dynamic, false);
        assert_eq!(engine::flops(&program, &mut Traced::new(2_000)), truth.expected(2), "{}", truth.name);
    }
}

#[test]
fn programs_of_all_kinds_run_as_they_do() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let mut some = 0;
    for (file, flags) in [
        ("signals.c", &[][..]),
        ("threads.c", &["-pthread"]),
        ("processes.c", &["-pthread"]),
        ("exceptions.cc", &[]),
        ("registers.c", &[]),
        ("storm.c", &["-pthread"]),
    ] {
        let program = build(dir.path(), file, flags);
        let mut engine = Traced::new(2_000);
        run(&mut engine, None, &program, &[]);
        let recorded = engine.recorded();
        some += recorded.bursts.len();
        // Code that jumps out of functions returns elsewhere.
        for (_, entries) in &recorded.bursts {
            let steps = steps(&recorded, entries);
            steps.windows(2).for_each(|pair| check_way(pair[0].block, pair[1].block, &mut Vec::new()));
            steps.iter().for_each(check_accesses);
        }
    }
    // They are short; their number depends on the load of the host.
    assert!(some >= 4, "{some} bursts");
}

#[test]
fn a_second_has_many_bursts() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "bursts.c", &[]);
    for sink in [None, Some(model())] {
        let mut engine = Traced::new(100_000);
        run(&mut engine, sink, &program, &["1000"]);
        let bursts = engine.recorded().bursts;
        let long = bursts.iter().filter(|(_, entries)| entries.len() >= 100_000).count();
        // On a busy host they cost more, so that there are fewer, and some are cut short.
        assert!(bursts.len() >= 6 && long >= 3, "{long} long bursts of {}", bursts.len());
    }
}
