//! `rprof demo`: profiles the kernels that are built into this very binary, and sets beside each the class that it was
//! built for.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::demo::{self, SECONDS_PER_KERNEL, Schedule};
use crate::machine;
use crate::profile::Profile;

use super::options::{GpuCounts, Memory, Passes, RunOptions};
use super::outcome::Outcome;
use super::progress::Notices;
use super::run;
use super::{SessionError, ceilings};

/// The hidden subcommand that runs the kernels.
const KERNELS: &str = "__demo";

/// The one that runs those of a GPU.
const GPU_KERNELS: &str = "__gpu_demo";

/// Profiles the demo.
///
/// # Errors
/// As [`run::profile`], and a host with kernels that cannot be scheduled.
pub fn profile(output: Option<PathBuf>, quiet: bool) -> Result<Outcome, SessionError> {
    let notices = Notices::new(quiet);
    let failed =
        |what: &str, e: &dyn std::fmt::Display| SessionError::Report(format!("cannot run the demo: {what}: {e}"));
    let binary = std::env::current_exe().map_err(|e| failed("this program's own file", &e))?;
    let schedule = {
        let _spinner = notices.spinner("sizing the kernels for this host");
        Schedule::for_demo(SECONDS_PER_KERNEL).map_err(|e| failed("its kernels", &e))?
    };
    let mut program: Vec<OsString> = vec![binary.into(), KERNELS.into()];
    program.extend(schedule.arguments().into_iter().map(OsString::from));
    let options = RunOptions {
        memory: Memory::Sampled,
        // Two hundred samples a kernel place it; each costs the kernel some 13 µs in a virtual machine.
        frequency_hz: Some(800),
        ..RunOptions::of(program, output, quiet)
    };
    ceilings::ahead_of_a_demo(&notices);
    let mut outcome = run::profile(&options)?;
    outcome.profile.run.command = ["rprof", "demo"].map(String::from).into();
    expect(&mut outcome.profile);
    Ok(outcome)
}

/// Profiles the known kernels of a GPU.
///
/// # Errors
/// As [`run::profile`].
pub fn gpu(output: Option<PathBuf>, quiet: bool) -> Result<Outcome, SessionError> {
    let binary = std::env::current_exe()
        .map_err(|e| SessionError::Report(format!("cannot run the demo: this program's own file: {e}")))?;
    let program = vec![binary.into(), GPU_KERNELS.into()];
    let options =
        RunOptions { passes: Some(Passes::Timed), gpu_counts: GpuCounts::On, ..RunOptions::of(program, output, quiet) };
    let mut outcome = run::profile(&options)?;
    outcome.profile.run.command = ["rprof", "demo", "--gpu"].map(String::from).into();
    for kernel in outcome.profile.devices.iter_mut().flat_map(|devices| &mut devices.kernels) {
        let expected = machine::gpu::known::expected(&kernel.symbol);
        kernel.analysis.get_or_insert_default().expected = expected;
    }
    Ok(outcome)
}

/// Fills `expected` of every kernel's function from this host's ceilings.
fn expect(profile: &mut Profile) {
    let classes = demo::expected(&profile.machine);
    for function in &mut profile.functions {
        function.analysis.expected = classes.get(&function.name).copied();
    }
}
