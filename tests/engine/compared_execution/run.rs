//! Executes a generated program natively and under the engines, and compares.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use iced_x86::Instruction;
use rprof::instrument::{Counted, CountingEngine, PlacingSettings, SingleStep, Translator};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, MemoryEvidence};
use rprof::tracee::launch::{Program, Streams, spawn_gated};

use super::guest::{self, RECORD};
use super::isa;
use super::snippet::listing;
use crate::instruction_counts::{Counts, by_instruction};

/// How a program ended, natively and translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With its records written.
    Normally,
    /// By this signal.
    BySignal(i32),
}

/// Reference for a translated program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The state that the native run leaves.
    Native,
    /// That, and its counts one instruction at a time.
    Steps,
    /// That, and the same with enough rounds that the translator places its blocks.
    StepsAndRounds,
}

/// A difference between two runs.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Difference {
    /// In words.
    pub text: String,
}

const STEPPED: &str = "single-stepped";
static ALONE: Mutex<()> = Mutex::new(());

/// Takes addresses and drops them: the translator then writes code that reports accesses.
struct Sink;

impl AccessSink for Sink {
    fn record(&mut self, _thread: u32, _process: u32, _batch: &[Access]) {}
    fn finish(self: Box<Self>, _sites: &[CodeRef]) -> MemoryEvidence {
        MemoryEvidence::default()
    }
}

/// Runs the program made of `snippets` natively, translated, and translated with its accesses reported, and otherwise
/// as `against` says.
pub fn compare(snippets: &[Vec<Instruction>], seed: u64, against: Against) -> Result<Ended, Difference> {
    // A child of another thread would hold the new program open for writing for a moment, and the kernel would refuse to execute it.
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("guest");
    let mask = guest::state_mask(&isa::flags());
    guest::write(&path, snippets, seed, mask, 1);
    let expected = natively(&path);
    let (translated, found) = counted(&mut Translator::new(), &path, None)?;
    same("translated", snippets, &found, &expected)?;
    let (_, found) = counted(&mut Translator::new(), &path, Some(Box::new(Sink)))?;
    same("translated with accesses", snippets, &found, &expected)?;
    if against != Against::Native {
        let (stepped, found) = counted(&mut SingleStep::new(), &path, None)?;
        same(STEPPED, snippets, &found, &expected)?;
        let (oracle, found) = (by_instruction(&stepped), by_instruction(&translated));
        let wrong = oracle.keys().chain(found.keys()).find(|at| found.get(at) != oracle.get(at));
        if let Some(&at) = wrong {
            let near =
                |counts: &Counts| format!("{:x?}", counts.range(at.saturating_sub(16)..at + 16).collect::<Vec<_>>());
            let text =
                format!("counts at {at:#x}: {}, single-stepped {}\n{}", near(&found), near(&oracle), all(snippets));
            return Err(Difference { text });
        }
        if against == Against::StepsAndRounds && !libc::WIFSIGNALED(expected.0) {
            rounds(&path, &oracle, snippets, |rounds| guest::write(&path, snippets, seed, mask, rounds))?;
        }
    }
    Ok(match libc::WIFSIGNALED(expected.0) {
        true => Ended::BySignal(libc::WTERMSIG(expected.0)),
        false => Ended::Normally,
    })
}

/// Native time of all rounds, about: several placings. `cpuid` alone may take a hundred microseconds in a guest.
const ALL_ROUNDS: Duration = Duration::from_millis(30);

/// Number of rounds that take that time, from the time of some of them.
fn how_many(path: &Path, write: &impl Fn(u32)) -> u32 {
    const SOME: u32 = 100;
    write(SOME);
    let begin = Instant::now();
    natively(path);
    let one = begin.elapsed() / SOME;
    (ALL_ROUNDS.as_nanos() / one.as_nanos().max(1)).clamp(100, 20_000) as u32
}

/// Compares runs with enough rounds that the translator places hot blocks several times. The final state must be the same, and the
/// executions of every instruction must follow from those of one round (`once`) and of two.
fn rounds(path: &Path, once: &Counts, snippets: &[Vec<Instruction>], write: impl Fn(u32)) -> Result<(), Difference> {
    write(2);
    let twice = by_instruction(&counted(&mut SingleStep::new(), path, None)?.0);
    let many = how_many(path, &write);
    write(many);
    let expected = natively(path);
    let placing = PlacingSettings::default();
    let placing =
        PlacingSettings { after: Duration::from_millis(2), again: Duration::from_millis(6), worth: 1, ..placing };
    let (translated, found) = counted(&mut Translator { placing, ..Translator::default() }, path, None)?;
    same(&format!("in {many} rounds"), snippets, &found, &expected)?;
    let found = by_instruction(&translated);
    for (at, second) in &twice {
        let first = once.get(at).copied().unwrap_or_default();
        let after_all = |first: u64, second: u64| first + (second - first) * u64::from(many - 1);
        let expected = (after_all(first.0, second.0), after_all(first.1, second.1));
        let found = found.get(at).copied().unwrap_or_default();
        if found != expected {
            let text = format!("at {at:#x} in {many} rounds: {found:?}, not {expected:?}\n{}", all(snippets));
            return Err(Difference { text });
        }
    }
    Ok(())
}

/// (wait status, standard output) natively.
fn natively(path: &Path) -> (i32, Vec<u8>) {
    let native = Command::new(path).output().expect("the program is executable");
    (native.status.into_raw() & !0x80, native.stdout)
}

/// (wait status, standard output) under an engine.
fn counted(
    engine: &mut dyn CountingEngine,
    path: &Path,
    sink: Option<Box<dyn AccessSink>>,
) -> Result<(Counted, (i32, Vec<u8>)), Difference> {
    let out = path.with_extension("out");
    let streams = Streams { stdout: Some(File::create(&out).unwrap().into()), ..Streams::default() };
    let program = Program { path: path.into(), argv: vec![path.into()] };
    let child = spawn_gated(&program, streams).unwrap();
    let counted = engine.run(child, sink, None).map_err(|e| Difference { text: e.to_string() })?;
    let ended = (counted.status & !0x80, std::fs::read(out).unwrap());
    Ok((counted, ended))
}

fn same(
    how: &str,
    snippets: &[Vec<Instruction>],
    found: &(i32, Vec<u8>),
    expected: &(i32, Vec<u8>),
) -> Result<(), Difference> {
    if found.0 != expected.0 || found.1.len() != expected.1.len() {
        let text = format!("{how}: wait status {:#x}, natively {:#x}\n{}", found.0, expected.0, all(snippets));
        return Err(Difference { text });
    }
    for (n, (found, expected)) in found.1.chunks(RECORD).zip(expected.1.chunks(RECORD)).enumerate() {
        if let Some(difference) = guest::difference(found, expected, how == STEPPED) {
            let text = format!("{how}, snippet {n}: {difference}\n{}", listing(&snippets[n]));
            return Err(Difference { text });
        }
    }
    Ok(())
}

/// Those of `snippets` that end their program with a signal, executed natively and without the others.
pub fn faulting(snippets: &[Vec<Instruction>], seed: u64) -> String {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("guest");
    let mut text = String::new();
    for (n, snippet) in snippets.iter().enumerate() {
        let mut alone = vec![vec![]; snippets.len()];
        alone[n].clone_from(snippet);
        guest::write(&path, &alone, seed, guest::state_mask(&isa::flags()), 1);
        let ended = Command::new(&path).output().expect("the program is executable").status;
        if let Some(signal) = ended.signal() {
            text += &format!("signal {signal}\n{}", listing(snippet));
        }
    }
    text
}

fn all(snippets: &[Vec<Instruction>]) -> String {
    snippets.iter().enumerate().map(|(n, s)| format!("  snippet {n}\n{}", listing(s))).collect()
}
