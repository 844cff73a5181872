//! A timed and a counted launch of one program that complete one another: the evidence of the first waits in the rank's folder.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::options::Passes;
use super::output::OutputFolder;
use crate::profile::code::ModuleInfo;
use crate::profile::evidence::counted::CountedEvidence;
use crate::profile::evidence::counters::CounterEvidence;
use crate::profile::evidence::memory::MemoryEvidence;
use crate::profile::evidence::replayed::ReplayedEvidence;
use crate::profile::evidence::timed::TimedEvidence;
use crate::profile::run::Warning;

/// Evidence files of other builds are not read.
const SCHEMA: &str = concat!("rprof-evidence/1 of ", env!("CARGO_PKG_VERSION"));

/// The evidence of one launch in one rank.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Part {
    schema: String,
    timed: Option<TimedEvidence>,
    counters: Option<CounterEvidence>,
    counted: Option<CountedEvidence>,
    memory: Option<MemoryEvidence>,
    replayed: Option<ReplayedEvidence>,
    warnings: Vec<Warning>,
}

fn file_of(passes: Passes) -> String {
    format!("{}.evidence", passes.name())
}

/// Keeps the evidence of a launch that makes one of two passes, and adds that of the other launch if it is there and of the same
/// `program`.
pub fn complete(evidence: &mut Evidence, passes: Passes, folder: &OutputFolder, program: &Path) {
    let Some(other) = passes.complement() else { return };
    keep(evidence, passes, folder);
    match read(&folder.path().join(file_of(other))) {
        Ok(None) => {}
        Ok(Some(part)) if is_of_one_program(evidence, &part, program) => add(evidence, part),
        Ok(Some(_)) => evidence.warnings.push(not_joined(other, "it is of another build of the program")),
        Err(reason) => evidence.warnings.push(not_joined(other, &reason)),
    }
}

fn not_joined(other: Passes, reason: &str) -> Warning {
    Warning::new(
        "launch-not-joined",
        format!("the {} launch into this folder is left out: {reason}", other.name()),
        "the profile has the figures of this launch alone",
        "launch the same program with both passes, one after the other",
    )
}

/// Removes the parts kept in a rank's folder: both launches are joined, and no other will come.
pub fn forget(folder: &Path) {
    for passes in [Passes::Timed, Passes::Counted] {
        // Files that remain cost room alone.
        let _ = std::fs::remove_file(folder.join(file_of(passes)));
    }
}

/// Evidence stays in place, in a form that no other build reads.
fn keep(evidence: &mut Evidence, passes: Passes, folder: &OutputFolder) {
    let part = Part {
        schema: SCHEMA.into(),
        timed: evidence.timed.take(),
        counters: evidence.counters.take(),
        counted: evidence.counted.take(),
        memory: evidence.memory.take(),
        replayed: evidence.replayed.take(),
        warnings: evidence.warnings.clone(),
    };
    let written = rmp_serde::to_vec_named(&part)
        .map_err(|e| e.to_string())
        .and_then(|bytes| folder.write(&file_of(passes), &bytes).map_err(|e| e.to_string()));
    (evidence.timed, evidence.counters, evidence.counted) = (part.timed, part.counters, part.counted);
    (evidence.memory, evidence.replayed) = (part.memory, part.replayed);
    if let Err(reason) = written {
        evidence.warnings.push(Warning::new(
            "evidence-not-kept",
            format!("the evidence of this launch could not be kept: {reason}"),
            "another launch into this folder cannot complete it",
            "make room, or choose another folder with -o",
        ));
    }
}

/// `None`: there is no such launch.
fn read(path: &Path) -> Result<Option<Part>, String> {
    let Ok(bytes) = fs::read(path) else { return Ok(None) };
    let part: Part = rmp_serde::from_slice(&bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    if part.schema == SCHEMA { Ok(Some(part)) } else { Err("another version of rprof wrote it".into()) }
}

/// Whether the file of the program is the same in both launches, as far as both know it.
fn is_of_one_program(evidence: &Evidence, part: &Part, program: &Path) -> bool {
    let build_id = |modules: &[ModuleInfo]| {
        modules.iter().find(|module| Path::new(&module.path) == program).and_then(|module| module.build_id.clone())
    };
    let modules = |timed: &Option<TimedEvidence>, counted: &Option<CountedEvidence>| {
        let timed = timed.as_ref().map(|timed| build_id(&timed.modules));
        timed.or_else(|| counted.as_ref().map(|counted| build_id(&counted.modules))).flatten()
    };
    let own = modules(&evidence.timed, &evidence.counted);
    let other = modules(&part.timed, &part.counted);
    own.is_none() || other.is_none() || own == other
}

fn add(evidence: &mut Evidence, part: Part) {
    evidence.timed = evidence.timed.take().or(part.timed);
    evidence.counters = evidence.counters.take().or(part.counters);
    evidence.counted = evidence.counted.take().or(part.counted);
    evidence.memory = evidence.memory.take().or(part.memory);
    evidence.replayed = evidence.replayed.take().or(part.replayed);
    evidence
        .warnings
        .extend(part.warnings.into_iter().filter(|warning| !evidence.warnings.contains(warning)).collect::<Vec<_>>());
    evidence.no_counts = None;
}
