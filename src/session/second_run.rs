//! The second run of a program: counted, its output sunk and its input replayed.

use crate::instrument::Counted;
use crate::instrument::translator::crash;
use crate::profile::evidence::timed::PlacementSeen;
use crate::profile::machine::Machine;
use crate::profile::run::Warning;
use crate::tracee::foreground;

use super::end::ProgramEnd;
use super::input::Input;
use super::options::RunOptions;
use super::passes::Repeated;
use super::preflight::Checked;
use super::progress::Notices;
use super::{between, passes, sink};

/// Crashes of the counted run are the program's own: the native run ended by the same signal.
fn blame_the_program(warnings: &mut [Warning]) {
    for warning in warnings.iter_mut().filter(|w| w.code == crash::CODE) {
        warning.hint = "the native run ended by the same signal: the cause is in the program".into();
    }
}

/// Runs the program again under the counting engine. The first run ended with the status `end`, had this `input`, and had the CPUs
/// at the placement `seen`. `repeated`: the run may have no effect twice. The error is why there are no counts.
pub fn second_run(
    checked: &Checked,
    repeated: Option<Repeated>,
    options: &RunOptions,
    notices: &Notices,
    (machine, seen): (&Machine, &[PlacementSeen]),
    (end, input): (ProgramEnd, &mut Input),
) -> Result<Counted, String> {
    if let Some(reason) = &checked.not_countable {
        return Err(reason.clone());
    }
    if foreground::interruptions() > 0 {
        return Err("the run was interrupted, so the program was not run again to count it".into());
    }
    sink::refuse_if_cut_short(end)?;
    if let Some(command) = &options.between {
        between::restore(command).map_err(|error| error.to_string())?;
    }
    let spinner = notices.spinner("counting the program's instructions");
    let counted = passes::counted_again(&checked.program, input, repeated, options, (machine, seen));
    drop(spinner);
    let mut counted = counted.map_err(|error| error.to_string())?;
    if foreground::interruptions() > 0 {
        return Err("the counted pass was interrupted".into());
    }
    match ProgramEnd::from_wait_status(counted.status) {
        _ if counted.ended_before.is_some() => Ok(counted),
        second if second == end => {
            if let ProgramEnd::Signalled(_) = end {
                blame_the_program(&mut counted.evidence.warnings);
            }
            Ok(counted)
        }
        second => Err(format!("the second run ended differently: {second} instead of {end}")),
    }
}
