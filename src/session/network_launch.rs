//! The launch that measures the network between the ranks of a profiled job.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::SessionError;
use super::network;
use super::progress::Notices;
use super::{launcher_command, passes};
use crate::machine::network::wanted::{Use, Wanted};
use crate::profile::Profile;
use crate::profile::mpi::{CallSite, SizeClass};
use crate::profile::network::{Network, curve_of};
use crate::profile::run::Warning;
use crate::tracee::foreground;
use crate::tracee::launch::{Program, Streams, spawn_gated};
use crate::tracee::wait::{Event, wait_for};
use crate::tracee::whole_file;

/// The launch may take so long.
const LIMIT: Duration = Duration::from_secs(120);
/// From SIGTERM to SIGKILL.
const TO_END: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// The measurements wanted, and the output of the launcher and its ranks: files in the job's folder.
const WANTED: &str = "network-wanted.json";
const LOG: &str = "network.log";

/// Launches the ranks once more, with `rprof machine --mpi` in place of their program, and puts the result into `profile`: if its ranks
/// called MPI. A failure costs these ceilings alone, and is a warning.
pub fn complete(profile: &mut Profile, launcher: &Program, folder: &Path, notices: &Notices) {
    let Some(wanted) = wanted(profile) else { return };
    notices.say("launches the ranks once more, to measure the network between them");
    let _spinner = notices.spinner("measuring the network between the ranks");
    match measured(&wanted, launcher, folder) {
        Ok(network) => {
            profile.run.warnings.extend(network::library_of_launcher(&network));
            profile.network = Some(network);
        }
        Err(reason) => profile.run.warnings.push(Warning::new(
            "no-network-ceilings",
            format!("the network between the ranks was not measured: {reason}"),
            "what messages could cost at best is not known",
            format!("{} has what the launcher printed", folder.join(LOG).display()),
        )),
    }
}

/// The measurements that the calls in `profile` need. `None`: there were none, or there is no other rank.
fn wanted(profile: &Profile) -> Option<Wanted> {
    let mpi = profile.mpi.as_ref()?;
    let is_several = profile.run.ranks.len() > 1;
    (is_several && !mpi.sites.is_empty()).then(|| Wanted::of(mpi.sites.iter().map(used)))
}

/// Calls between n and 2n bytes need the cost of both.
fn used(site: &CallSite) -> Use {
    let limits = |class: &SizeClass| if class.0 == 0 { vec![0] } else { vec![class.0, 2 * class.0] };
    let mut bytes: Vec<u64> = site.sizes.iter().flat_map(limits).collect();
    if bytes.is_empty() {
        bytes.push(0);
    }
    Use { call: curve_of(&site.call), members: site.members, bytes }
}

fn measured(wanted: &Wanted, launcher: &Program, folder: &Path) -> Result<Network, String> {
    let file = folder.join(WANTED);
    let text = serde_json::to_string_pretty(wanted).map_err(|e| e.to_string())?;
    whole_file::write(&file, text.as_bytes()).map_err(|e| e.to_string())?;
    let binary = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut rank: Vec<OsString> = vec![binary.into(), "machine".into(), "--mpi".into()];
    rank.extend(["--wanted".into(), file.into(), "-o".into(), folder.into(), "--".into()]);
    let argv = launcher_command::with_inserted(&launcher.argv, &rank).ok_or("no program was found in its command")?;
    let ended = run(&Program { path: launcher.path.clone(), argv }, folder).map_err(|e| e.to_string())?;
    let found = network::read(folder);
    found.map_err(|missing| reason(&std::fs::read_to_string(folder.join(LOG)).unwrap_or_default(), ended, missing))
}

/// Why there is no result, from the launcher's output and whether it ended by itself; `missing`: the error of reading the result.
fn reason(log: &str, ended: bool, missing: String) -> String {
    let (progress, errors): (Vec<&str>, Vec<&str>) = log
        .lines()
        .filter_map(|line| line.strip_prefix("rprof: "))
        .partition(|line| line.starts_with("measuring") || *line == network::CONNECTS);
    match (errors.first(), progress.last()) {
        (Some(error), _) => (*error).to_owned(),
        (None, Some(last)) if ended && *last == network::CONNECTS => {
            "it ended before its ranks had exchanged a message: their hosts cannot reach one another (firewall, network \
             interface)"
                .into()
        }
        _ if !ended => format!("it took longer than {} s", LIMIT.as_secs()),
        _ => missing,
    }
}

/// Runs the launcher, its output in a file; false: it was ended, because it took too long or the user wants an end.
fn run(launcher: &Program, folder: &Path) -> Result<bool, SessionError> {
    let path = folder.join(LOG);
    let fail = |source| SessionError::Output { path: path.clone(), source };
    let log = File::create(&path).map_err(fail)?;
    let nothing = || File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from).map_err(fail);
    let streams =
        Streams { stdin: Some(nothing()?), stdout: Some(nothing()?), stderr: Some(log.into()), further: Vec::new() };
    let pid = spawn_gated(launcher, streams).and_then(|child| child.release()).map_err(passes::launch)?;
    let before = foreground::interruptions();
    let end = Instant::now() + LIMIT;
    while Instant::now() < end && foreground::interruptions() == before {
        if has_ended(pid) {
            return Ok(true);
        }
        std::thread::sleep(LOOK);
    }
    // It may have ended meanwhile.
    let _ = kill(pid, Signal::SIGTERM);
    let end = Instant::now() + TO_END;
    while Instant::now() < end && !has_ended(pid) {
        std::thread::sleep(LOOK);
    }
    let _ = kill(pid, Signal::SIGKILL);
    Ok(false)
}

fn has_ended(pid: Pid) -> bool {
    matches!(wait_for(pid, false), Some(Event::Ended(..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_without_a_result_has_a_reason() {
        let of = |log: &str, ended| reason(log, ended, "no file".into());
        let connects = format!("rprof: {}\n", network::CONNECTS);
        let measures = "rprof: measuring the network\n";
        assert_eq!(of("", true), "no file");
        assert_eq!(of(measures, true), "no file");
        assert!(of(&(connects.clone() + measures), false).starts_with("it took longer than "));
        assert!(of(&connects, true).contains("cannot reach one another"));
        assert_eq!(of(&(connects + "=== BAD TERMINATION\nrprof: rank 0: lost\n"), true), "rank 0: lost");
    }
}
