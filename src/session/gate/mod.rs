//! `rprof gate`: a counted pass whose cycles are those of the reference core, the same on any host.
//!
//! ```text
//!  environment, addresses, features held still ─▶ counted pass, recorded whole ─▶ bursts replayed on the reference core ─▶ result
//! ```

mod addresses;
mod environment;
mod features;

use std::ffi::OsString;
use std::sync::PoisonError;

use crate::gate::{Conditions, GateBurst, GateResult, SampledBursts};
use crate::instrument::translator::Translator;
use crate::instrument::{Counted, CountingEngine};
use crate::join::{self, join};
use crate::profile::evidence::bursts::BurstSink;
use crate::profile::evidence::replayed::ReplayedBurst;
use crate::profile::{Profile, Run};
use crate::replay::{self, Places, WholeRun, reference};
use crate::symbols::Symbols;
use crate::tracee::foreground::{self, Foreground};
use crate::tracee::launch::{Streams, spawn_gated_in};

use super::SessionError;
use super::end::ProgramEnd;
use super::error::stream;
use super::passes::launch;
use super::preflight::{self, Checked};
use super::progress::Notices;
use addresses::FixedAddresses;
use features::Features;
use reference::{REFERENCE, ReferenceCore};

/// How to run the program.
#[derive(Debug, Clone, Default)]
pub struct GateOptions {
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// Variables that it gets beside the usual few: a name, or a name and a value.
    pub variables: Vec<OsString>,
    /// No notices.
    pub quiet: bool,
}

/// Runs the program, and models its cycles on the reference core.
///
/// # Errors
/// The program cannot be executed or counted, or it fails.
pub fn run(options: &GateOptions) -> Result<GateResult, SessionError> {
    let notices = Notices::new(options.quiet);
    preflight::own_proc()?;
    preflight::own_room()?;
    let checked = preflight::check(&options.program)?;
    if let Some(reason) = &checked.not_countable {
        return Err(SessionError::CannotExecute { path: checked.program.path.clone(), reason: reason.clone() });
    }
    let core = ReferenceCore::embedded().map_err(|error| failed(format!("the reference core: {error}")))?;
    let features = Features::of_host(&core);
    let (counted, places, fixed_addresses) = count(&checked, options, &core, &features, &notices)?;
    let end = ProgramEnd::from_wait_status(counted.status);
    if foreground::interruptions() > 0 {
        return Err(failed("it was interrupted".into()));
    }
    if end != ProgramEnd::Exited(0) {
        return Err(failed(format!("the program ended {end}, and only runs that succeed can be compared")));
    }
    let program = checked.program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let conditions = Conditions {
        core: REFERENCE.into(),
        features: features.told,
        missing_features: features.missing,
        fixed_addresses,
    };
    let (profile, bursts) = modelled(counted, places, core, options, &notices);
    Ok(GateResult::new(&profile, &program, conditions, bursts))
}

/// The counted pass, where its bursts lie, and whether addresses were the same as in every run.
fn count(
    checked: &Checked,
    options: &GateOptions,
    core: &ReferenceCore,
    features: &Features,
    notices: &Notices,
) -> Result<(Counted, Places, bool), SessionError> {
    // Standard output is for the comparison alone.
    let output = std::io::stderr();
    let output = std::os::fd::AsFd::as_fd(&output).try_clone_to_owned().map_err(stream("standard output"))?;
    let streams = Streams { stdout: Some(output), ..Streams::default() };
    let environment = environment::environment(&options.variables);
    let addresses = FixedAddresses::hold();
    let child = spawn_gated_in(&checked.program, environment, streams).map_err(launch)?;
    let are_fixed = addresses.is_some();
    drop(addresses);
    let _foreground = Foreground::hold(child.pid()).map_err(stream("signals"))?;
    let recorder = WholeRun::new(&core.machine);
    let places = recorder.places();
    let recorder: Box<dyn BurstSink> = Box::new(recorder);
    let mut engine = Translator { cpuid: Some(features.cpuid.clone()), ..Translator::default() };
    let spinner = notices.spinner("counting the program's instructions");
    let counted = engine.run(child, None, Some(recorder)).map_err(|error| failed(error.to_string()))?;
    drop(spinner);
    let places = std::mem::take(&mut *places.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((counted, places, are_fixed))
}

/// Replays the bursts, and gives functions their cycles.
fn modelled(
    counted: Counted,
    places: Places,
    core: ReferenceCore,
    options: &GateOptions,
    notices: &Notices,
) -> (Profile, SampledBursts) {
    let _spinner = notices.spinner("replaying bursts of its instructions");
    let bursts = counted.bursts.filter(|evidence| !evidence.bursts.is_empty());
    let all = replay::Options { seconds: f64::INFINITY, what_ifs: false, ..replay::Options::default() };
    let replayed = bursts.map(|bursts| replay::replay(&bursts, None, &core.machine, all));
    let of_burst = |(&(thread, slot), burst): (&(u32, u64), &ReplayedBurst)| GateBurst {
        thread,
        slot,
        cycles: burst.instructions.iter().flat_map(|own| own.cycles).map(f64::from).sum(),
    };
    let bursts = replayed.iter().flat_map(|replayed| places.bursts.iter().zip(&replayed.bursts)).map(of_burst);
    let sampled = SampledBursts { slots: places.slots, bursts: bursts.collect() };
    let evidence =
        join::Evidence { counted: Some(&counted.evidence), replayed: replayed.as_ref(), ..join::Evidence::default() };
    let command = options.program.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let run = Run { command, ..Run::default() };
    (join(&evidence, run, core.machine, &mut Symbols::default(), true), sampled)
}

fn failed(reason: String) -> SessionError {
    SessionError::Pass { pass: "counted", reason }
}
