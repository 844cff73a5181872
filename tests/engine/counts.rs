//! The translator's counts against the single-step engine's: each instruction of each guest, executions and run-time
//! sums, and the number of memory accesses and their bytes, exactly equal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use rprof::instrument::{Counted, CountingEngine, PlacingSettings, SingleStep, Translator};
use rprof::isa::x86_64::classify;
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, MemoryEvidence};
use rprof::tracee::launch::{Program, Streams, spawn_gated};

use crate::instruction_counts::by_instruction;

/// (accesses, bytes, sum over their addresses)
type Seen = Arc<Mutex<(u64, u64, u64)>>;

struct Adder(Seen);

impl AccessSink for Adder {
    fn record(&mut self, _thread: u32, _process: u32, batch: &[Access]) {
        let mut seen = self.0.lock().unwrap();
        for access in batch {
            seen.0 += 1;
            seen.1 += u64::from(access.bytes);
            // The place on the stack is random.
            let fixed = if access.address < 1 << 32 { access.address } else { access.address & 15 };
            seen.2 = seen.2.wrapping_add(fixed * u64::from(access.bytes));
        }
    }
    fn finish(self: Box<Self>, _sites: &[CodeRef]) -> MemoryEvidence {
        MemoryEvidence::default()
    }
}

fn guest(dir: &Path, name: &str) -> PathBuf {
    guest_with(dir, name, &[])
}

fn guest_with(dir: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/guests").join(name).with_extension("c");
    let program = dir.join(format!("{name}{}", flags.concat()));
    let status = Command::new("cc")
        .args(flags)
        .args(["-O2", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success(), "cc cannot build {name}");
    program
}

fn count(engine: &mut dyn CountingEngine, path: &Path) -> (Counted, (u64, u64, u64)) {
    let program = Program { path: path.into(), argv: vec![path.into()] };
    let child = spawn_gated(&program, Streams::default()).unwrap();
    let seen = Seen::default();
    let counted = engine.run(child, Some(Box::new(Adder(seen.clone()))), None).unwrap();
    let seen = *seen.lock().unwrap();
    (counted, seen)
}

/// Every instruction with a part that is known only at run time has that part: no sum is missing, in any block.
fn sums_are_stated(name: &str, counted: &Counted) {
    for block in &counted.evidence.blocks {
        let mut decoder = Decoder::new(64, &block.code, DecoderOptions::NONE);
        while decoder.can_decode() {
            let offset = decoder.position() as u32;
            if classify(&decoder.decode()).dynamic.is_none() {
                continue;
            }
            for (thread, _) in &block.executions {
                let stated = block.dynamic.iter().any(|d| d.offset == offset && d.thread == *thread);
                assert!(stated, "{name}: no sum of {:#x} + {offset} in thread {thread}", block.at.offset);
            }
        }
    }
}

/// How `name` ended natively, after both engines were found equal.
fn compare(name: &str) -> i32 {
    let dir = tempfile::tempdir().unwrap();
    let program = guest(dir.path(), name);
    let native = Command::new(&program).status().unwrap().code().unwrap();
    let (stepped, seen_stepped) = count(&mut SingleStep::new(), &program);
    let (translated, seen_translated) = count(&mut Translator::new(), &program);
    assert_eq!(libc::WEXITSTATUS(stepped.status), native, "{name}: single-step");
    assert_eq!(libc::WEXITSTATUS(translated.status), native, "{name}: translator");
    sums_are_stated(name, &translated);
    let (expected, found) = (by_instruction(&stepped), by_instruction(&translated));
    assert!(expected.len() > 10, "{name}: only {} instructions", expected.len());
    for (at, counts) in &expected {
        assert_eq!(found.get(at), Some(counts), "{name}: at {at:#x}");
    }
    assert_eq!(found.len(), expected.len(), "{name}: instructions that single-step did not see");
    // Without a sink loops may be counted by their induction registers.
    let program = Program { path: program.clone(), argv: vec![program.into()] };
    for placing in [PlacingSettings::default(), at_once(PlacingSettings::default())] {
        let (child, after) = (spawn_gated(&program, Streams::default()).unwrap(), placing.after);
        let alone = Translator { placing, ..Translator::default() }.run(child, None, None).unwrap();
        assert_eq!(by_instruction(&alone), expected, "{name}: without a sink, blocks placed after {after:?}");
    }
    if !["forks", "fault", "masked_fault", "partial"].contains(&name) {
        assert_eq!(seen_translated, seen_stepped, "{name}: accesses, bytes, addresses");
    }
    assert_eq!(translated.evidence.threads.len(), stepped.evidence.threads.len(), "{name}: threads");
    native
}

macro_rules! guests {
    ($($name:ident)*) => {
        $(#[test] fn $name() { compare(stringify!($name)); })*
    };
}
guests! { loops recursion returns jump_table strings flags stack vectors fault partial forks nested }

/// Hot blocks are placed as soon as can be, and however little they were executed.
fn at_once(settings: PlacingSettings) -> PlacingSettings {
    PlacingSettings { after: Duration::from_millis(2), again: Duration::from_millis(8), worth: 1, ..settings }
}

/// Executions of the instruction with this mnemonic that ran most often.
fn most_executed(counted: &Counted, mnemonic: Mnemonic) -> u64 {
    let mut counts = BTreeMap::new();
    for block in &counted.evidence.blocks {
        let executions: u64 = block.executions.iter().map(|e| e.1).sum();
        let decoder = Decoder::new(64, &block.code, DecoderOptions::NONE);
        let mut offset = 0;
        for instruction in decoder {
            if instruction.mnemonic() == mnemonic {
                *counts.entry(block.at.offset + offset).or_insert(0) += executions;
            }
            offset += instruction.len() as u64;
        }
    }
    counts.values().copied().max().unwrap_or(0)
}

#[test]
fn a_thread_that_is_killed_in_a_loop_has_its_counts() {
    let dir = tempfile::tempdir().unwrap();
    let program = guest(dir.path(), "killed");
    let program = Program { path: program.clone(), argv: vec![program.into()] };
    let counted = Translator::new().run(spawn_gated(&program, Streams::default()).unwrap(), None, None).unwrap();
    assert_eq!(counted.status, 0, "see the guest for what the status says");
    for mnemonic in [Mnemonic::Mulpd, Mnemonic::Imul] {
        let executions = most_executed(&counted, mnemonic);
        // A tenth of a second of it, and far from all of it.
        assert!((100_000..1 << 50).contains(&executions), "{mnemonic:?}: {executions}");
    }
}

/// The translator places blocks anew while the program runs, several times in `many` rounds. The executions of each instruction
/// must follow from those of one round and of two, and the results must be the native ones.
fn rounds_count_alike(name: &str, many: u64) {
    rounds_count_alike_with(name, many, &[], PlacingSettings::default());
}

/// Linked to a place at which addresses need more than 32 bits.
const HIGH: [&str; 2] = ["-fpie", "-Wl,--no-relax,-Ttext-segment=0x7e8080000000"];

/// The same with these compiler flags, of blocks that are placed so, but sooner.
fn rounds_count_alike_with(name: &str, many: u64, flags: &[&str], placing: PlacingSettings) {
    let dir = tempfile::tempdir().unwrap();
    let counts = |rounds: u64, engine: &mut dyn CountingEngine| {
        let rounds_flag = format!("-DROUNDS={rounds}");
        let path = guest_with(dir.path(), name, &[&[rounds_flag.as_str()], flags].concat());
        let program = Program { path: path.clone(), argv: vec![path.into()] };
        let native = Command::new(&program.path).status().unwrap().code();
        let counted = engine.run(spawn_gated(&program, Streams::default()).unwrap(), None, None).unwrap();
        assert_eq!(Some(libc::WEXITSTATUS(counted.status)), native, "{name}: {rounds} rounds");
        assert!(native < Some(60), "{name}: it finds registers wrong");
        by_instruction(&counted)
    };
    let one = counts(1, &mut SingleStep::new());
    let two = counts(2, &mut SingleStep::new());
    let placing = at_once(placing);
    let found = counts(many, &mut Translator { placing, ..Translator::default() });
    assert!(one.len() > 50, "{} instructions", one.len());
    for (at, (executions, _)) in &two {
        let first = one.get(at).map_or(0, |c| c.0);
        let expected = first + (executions - first) * (many - 1);
        assert_eq!(found.get(at).map(|c| c.0), Some(expected), "{name}: at {at:#x}");
    }
    assert_eq!(found.len(), two.len(), "{name}: instructions that one round does not execute");
}

/// Calls of leaves are calls.
fn calling() -> PlacingSettings {
    PlacingSettings { leaf_bytes: 0, ..PlacingSettings::default() }
}

/// Landings spare taken branches, whatever this CPU likes.
fn sparing() -> PlacingSettings {
    PlacingSettings { spare_branches_from: 0, ..calling() }
}

/// The same, and returns share code.
fn short() -> PlacingSettings {
    PlacingSettings { short_code_from: 0, ..sparing() }
}

/// At low and at high addresses, with landings as this CPU likes them and with those that spare taken branches, and with returns
/// that share code.
fn rounds_count_alike_however_they_land(name: &str, many: u64) {
    for placing in [PlacingSettings::default(), calling(), sparing(), short()] {
        rounds_count_alike_with(name, many, &[], placing);
        rounds_count_alike_with(name, many, &HIGH, placing);
    }
}

#[test]
fn rounds_that_outlast_the_placing_of_blocks_count_alike() {
    rounds_count_alike("rounds", 40_000);
}

/// The same if most hot blocks have no counter of their own, are left and entered otherwise from time to time, and fault.
#[test]
fn rounds_with_detours_and_faults_count_alike() {
    rounds_count_alike("flows", 4_000);
}

/// The same if flags are needed behind each way off the hot path and back.
#[test]
fn rounds_that_need_flags_on_detours_count_alike() {
    rounds_count_alike("crossings", 6_000);
}

/// The same of indirect jumps that have a usual target, another one from time to time, and a fault; at addresses of 32 bits
/// and of more.
#[test]
fn rounds_of_jumps_to_usual_targets_count_alike() {
    rounds_count_alike("targets", 10_000);
    rounds_count_alike_with("targets", 10_000, &HIGH, PlacingSettings::default());
}

/// The same of indirect calls.
#[test]
fn rounds_of_calls_of_usual_targets_count_alike() {
    rounds_count_alike_however_they_land("calls", 10_000);
}

/// The same of returns with entries that are another's, and of hot ones.
#[test]
fn rounds_of_returns_that_share_an_entry_count_alike() {
    rounds_count_alike_however_they_land("returns", 60_000);
    rounds_count_alike_with("rounds", 20_000, &[], sparing());
    rounds_count_alike_with("rounds", 20_000, &[], short());
}

/// The same of calls and returns if nothing can be written below the return address, and of returns that fault.
#[test]
fn rounds_on_a_stack_without_room_count_alike() {
    for placing in [PlacingSettings::default(), calling(), sparing(), short()] {
        rounds_count_alike_with("no_room", 2_000, &[], placing);
    }
}

/// The same if RCX stays in its slot behind calls and jumps, and is needed after all.
#[test]
fn rounds_that_leave_rcx_in_its_slot_count_alike() {
    rounds_count_alike_however_they_land("parked", 3_000);
}

/// The same of return addresses that are popped, moved on and replaced.
#[test]
fn rounds_of_code_that_asks_where_it_is_count_alike() {
    rounds_count_alike_however_they_land("places", 5_000);
}

/// The same of leaves that are copied in place of calls: with ways out, ways apart, loops and faults in them, called directly, by
/// register and by way of an indirect jump.
#[test]
fn rounds_of_leaves_count_alike() {
    rounds_count_alike("leaves", 2_000);
    rounds_count_alike_with("leaves", 2_000, &HIGH, PlacingSettings::default());
    let leaf_bytes = PlacingSettings::default().leaf_bytes;
    for placing in [sparing(), short()] {
        rounds_count_alike_with("leaves", 2_000, &[], PlacingSettings { leaf_bytes, ..placing });
    }
}

#[test]
fn transactions() {
    if compare("transactions") == 77 {
        println!("SKIPPED: tsx: transactions (this CPU has none)");
    }
}

/// Signals that come before active lanes were added take none back.
#[test]
fn signals_leave_active_lanes_as_they_are() {
    const PASSES: u64 = 4_000_000;
    let dir = tempfile::tempdir().unwrap();
    let program = guest(dir.path(), "masked_signals");
    let program = Program { path: program.clone(), argv: vec![program.into()] };
    let child = spawn_gated(&program, Streams::default()).unwrap();
    let counted = Translator::new().run(child, None, None).unwrap();
    let status = libc::WEXITSTATUS(counted.status);
    if status == 77 {
        println!("SKIPPED: avx512: active lanes where signals come (this CPU has no AVX-512)");
        return;
    }
    assert_eq!(status, 3, "1: what was carried, 2: signals came");
    let sums: Vec<_> = by_instruction(&counted).into_values().filter(|c| c.1 > 0).collect();
    assert_eq!(sums, [(PASSES, 5 * PASSES); 2]);
}

#[test]
fn masks() {
    for name in ["masks", "masked_fault"] {
        if compare(name) == 77 {
            println!("SKIPPED: avx512: active lanes of {name} (this CPU has no AVX-512)");
        }
    }
}
