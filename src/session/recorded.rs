//! A profile of a program that `perf record` has recorded: its time by function beside this host's ceilings. Nothing was counted.

use std::ffi::OsString;
use std::path::Path;

use crate::profile::Profile;
use crate::profile::run::Warning;
use crate::sample::perf_data;

use super::SessionError;
use super::evidence::Evidence;
use super::options::RunOptions;
use super::progress::Notices;
use super::{assemble, ceilings};

/// Joins the recording `path` with the ceilings of this host.
///
/// # Errors
/// It is no recording of perf, or has no usable samples.
pub fn profile(path: &Path, full_names: bool) -> Result<Profile, SessionError> {
    let recording =
        perf_data::read(path).map_err(|error| SessionError::Report(format!("{}: {error}", path.display())))?;
    let mut evidence = Evidence {
        no_counts: Some("perf recorded samples, and no counts; rprof -- ./app counts".into()),
        ..Evidence::default()
    };
    evidence.warnings.push(Warning::new(
        "recorded-by-perf",
        "the samples are those of a recording by perf; ceilings are those of this host, now",
        "functions have time, and no counts, classes by counts or savings by them; a recording of another host has other ceilings",
        "rprof -- ./app profiles the program itself",
    ));
    let machine = ceilings::for_a_run(&Notices::new(false), &mut evidence.warnings);
    evidence.timed = Some(recording.evidence);
    let program: Vec<OsString> = recording.command.into_iter().map(OsString::from).collect();
    let options = RunOptions { full_names, ..RunOptions::of(program, None, false) };
    Ok(assemble::profile(&options, None, None, machine, evidence))
}
