//! `rprof -- mpirun … ./app`: starts the launcher with rprof in front of the program of each rank, and merges the profiles of the ranks.
//! Once, unless the user asks for two passes: nobody can tell what ranks do to one another and to files, so they are not repeated unasked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use crate::on_all_cpus::on_all_cpus;
use crate::profile::Profile;
use crate::profile::run::Warning;
use crate::report::json;
use crate::report::merge::{self, Functions};
use crate::roofline;
use crate::tracee::foreground::{self, Foreground};
use crate::tracee::launch::{Program, Streams, spawn_gated};
use crate::tracee::wait::wait_for_status;

use super::auto::EXPLAINED;
use super::end::ProgramEnd;
use super::error::stream;
use super::input::Input;
use super::launcher_command;
use super::options::{GpuCounts, Passes, RunOptions};
use super::outcome::Outcome;
use super::output::OutputFolder;
use super::progress::Notices;
use super::{SessionError, job, launch_parts, network, network_launch, passes, preflight, rank_calls};

/// Profiles of ranks that are read at the same time.
const AT_ONCE: usize = 64;

/// Profiles the ranks that a launcher starts.
///
/// # Errors
/// The launcher cannot be started, has no program, no rank left a profile, or a folder cannot be written.
pub fn profile(options: &RunOptions) -> Result<Outcome, SessionError> {
    let notices = Notices::new(options.quiet);
    preflight::own_proc()?;
    preflight::own_room()?;
    let checked = preflight::check(&options.program)?;
    if launcher_command::with_inserted(&options.program, &[]).is_none() {
        return Err(without_program(&checked.program)?);
    }
    let folder = OutputFolder::create(options.output.as_deref(), &[&checked.program.path])?;
    let absolute = std::fs::canonicalize(folder.path())
        .map_err(|source| SessionError::Output { path: folder.path().to_owned(), source })?;
    let held = Foreground::hold(Pid::from_raw(0)).map_err(stream("signals"))?;
    let launches: &[Passes] = match options.passes {
        Some(Passes::Both) => &[Passes::Timed, Passes::Counted],
        None | Some(Passes::Auto | Passes::Single) => &[Passes::Single],
        Some(Passes::Timed) => &[Passes::Timed],
        Some(Passes::Counted) => &[Passes::Counted],
    };
    if launches.len() > 1 {
        notices
            .say("launches the ranks twice, so effects on files and network happen twice (--once launches them once)");
    }
    let mut input = Input::classify().map_err(stream("standard input"))?;
    let first = launch(&checked.program, &mut input, (launches[0], launches.len() > 1, true), options, &absolute)?;
    let (mut doubts, mut is_complete) = (Vec::new(), false);
    for &pass in &launches[1..] {
        if foreground::interruptions() > 0 {
            break;
        }
        if let Some(reason) = ended_from_outside(first, &absolute) {
            doubts.push(Warning::new(
                "no-second-launch",
                format!("the ranks were not launched again to count them: {reason}"),
                "times are known, counts are not",
                "--passes counted launches them once and counts",
            ));
            break;
        }
        if let Some(command) = &options.between {
            super::between::restore(command)?;
        }
        let _spinner = notices.spinner("counting the instructions of the ranks");
        let second = launch(&checked.program, &mut input, (pass, true, false), options, &absolute)?;
        is_complete = true;
        if second != first {
            doubts.push(Warning::new(
                "launches-differ",
                format!("the second launch ended differently: {second} instead of {first}"),
                "counts are those of another course of the program than the times",
                "look whether the program can be started twice with the same effect",
            ));
        }
    }
    let mut profile = put_together(folder.path(), true)
        .map_err(|error| SessionError::Ranks { reason: error.to_string(), status: first.exit_code() })?;
    profile.run.warnings.extend(doubts);
    if is_complete {
        let ranks = job::rank_profiles(folder.path());
        ranks.iter().filter_map(|(_, profile)| profile.parent()).for_each(launch_parts::forget);
    }
    if foreground::interruptions() == 0 {
        network_launch::complete(&mut profile, &checked.program, &absolute, &notices);
    }
    roofline::analyse(&mut profile);
    let explained = roofline::explained::explained_share(&profile);
    if launches == [Passes::Single] && explained < EXPLAINED {
        notices.say(&format!(
            "windows explain {:.0} % of the time of the ranks; --passes both launches them once more and counts every instruction",
            100.0 * explained
        ));
    }
    profile.run.command = options.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match first {
        ProgramEnd::Exited(status) => (profile.run.exit_status, profile.run.signal) = (Some(status), None),
        ProgramEnd::Signalled(signal) => (profile.run.exit_status, profile.run.signal) = (None, Some(signal)),
    }
    Ok(Outcome { end: first, profile, folder, rank: None, held })
}

/// Whether the launch that `end`ed so was ended from outside: then a further one would not end.
fn ended_from_outside(end: ProgramEnd, folder: &Path) -> Option<String> {
    match end {
        ProgramEnd::Exited(0) => None,
        ProgramEnd::Exited(_) => job::was_ended(folder),
        ProgramEnd::Signalled(signal) => Some(format!("the launcher was ended by signal {signal}")),
    }
}

/// Whether `options` ask for a launcher's ranks: their program is a launcher.
pub fn is_asked(options: &RunOptions) -> bool {
    options.program.first().is_some_and(|program| launcher_command::is_launcher(program))
}

/// Lets a launcher explain itself that has no program: the error of this run, with its status.
fn without_program(launcher: &Program) -> Result<SessionError, SessionError> {
    let held = Foreground::hold(Pid::from_raw(0)).map_err(stream("signals"))?;
    let end = run_launcher(launcher, Streams::default(), "timed")?;
    drop(held);
    let launcher = launcher.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(SessionError::NoProgram { launcher, status: end.exit_code() })
}

/// Starts the launcher, and returns how it ended. The first launch has our streams.
fn launch(
    launcher: &Program,
    input: &mut Input,
    (pass, is_replayed, is_first): (Passes, bool, bool),
    options: &RunOptions,
    folder: &Path,
) -> Result<ProgramEnd, SessionError> {
    let binary = std::env::current_exe()
        .map_err(|e| SessionError::Pass { pass: pass.name(), reason: format!("this program's own file: {e}") })?;
    let rank = rank_command(binary, pass, options, folder);
    let argv = launcher_command::with_inserted(&launcher.argv, &rank).unwrap_or_else(|| launcher.argv.clone());
    let streams = if is_first {
        let stdin = input.first(is_replayed.then_some(u64::MAX)).map_err(stream("standard input"))?;
        Streams { stdin, ..Streams::default() }
    } else {
        passes::second_streams(input)?
    };
    run_launcher(&Program { path: launcher.path.clone(), argv }, streams, pass.name())
}

/// Runs a launcher to its end.
fn run_launcher(launcher: &Program, streams: Streams, pass: &'static str) -> Result<ProgramEnd, SessionError> {
    let child = spawn_gated(launcher, streams).map_err(passes::launch)?;
    let _foreground = Foreground::hold(child.pid()).map_err(stream("signals"))?;
    let pid = child.release().map_err(passes::launch)?;
    let status = wait_for_status(pid)
        .ok_or_else(|| SessionError::Pass { pass, reason: "the launcher's end was not seen".into() })?;
    Ok(ProgramEnd::from_wait_status(status))
}

/// rprof as a rank is to start it, up to its program.
fn rank_command(binary: PathBuf, pass: Passes, options: &RunOptions, folder: &Path) -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![binary.into(), "run".into(), "--quiet".into(), "--no-merge".into()];
    let mut give = |name: &str, value: OsString| command.extend([name.into(), value]);
    give("-o", folder.into());
    give("--passes", pass.name().into());
    give("--memory", options.memory.name().into());
    if let Some(hz) = options.frequency_hz {
        give("--frequency", hz.to_string().into());
    }
    if pass == Passes::Single {
        give("--budget", format!("{}%", 100.0 * options.budget_share()).into());
    }
    if pass != Passes::Counted {
        let window = [("--from", options.collected.from_s), ("--to", options.collected.to_s)];
        window
            .into_iter()
            .filter_map(|(name, s)| Some((name, s?)))
            .for_each(|(name, s)| give(name, s.to_string().into()));
        if options.gpu_counts == GpuCounts::Off {
            give("--gpu-counts", "off".into());
        }
    }
    if options.full_names {
        command.push("--full-names".into());
    }
    command.push("--".into());
    command
}

/// The merged profile of the ranks in a job's folder.
///
/// # Errors
/// A profile cannot be read, or they do not belong together.
pub fn merged(folder: &Path, partial: bool) -> Result<Profile, SessionError> {
    let mut profile = put_together(folder, partial)?;
    roofline::analyse(&mut profile);
    Ok(profile)
}

/// [`merged`] without its analysis.
fn put_together(folder: &Path, partial: bool) -> Result<Profile, SessionError> {
    let failed = |what: String| SessionError::Report(format!("{}: {what}", folder.display()));
    let ranks = job::rank_profiles(folder);
    if ranks.is_empty() {
        return Err(failed(
            "no rank left a profile; look at what the launcher printed, whether the hosts can reach one another, and whether ranks can \
             write to this folder (after MPI_Abort, Open MPI gives ranks a second: --mca odls_base_sigkill_timeout 30)"
                .into(),
        ));
    }
    let job = job::read(folder);
    let (mut unreadable, mut foreign) = (Vec::new(), None);
    let (mut profiles, mut there) = (Vec::new(), Vec::new());
    let mut functions = Functions::of_ranks();
    // A thousand ranks need not be in memory at once.
    for some in ranks.chunks(AT_ONCE) {
        let read = on_all_cpus(some.iter(), |(_, path)| json::read_rank(path));
        for ((rank, path), read) in some.iter().zip(read) {
            let read = read.map_err(|error| SessionError::Report(error.to_string()));
            match read.and_then(|profile| job::check_rank(&profile, *rank, path, job.as_ref()).map(|()| profile)) {
                Ok(mut profile) => {
                    functions.take(&mut profile);
                    profiles.push(profile);
                    there.push((*rank, path.clone()));
                }
                Err(error) if partial => unreadable.push(format!("rank {rank}: {error}")),
                Err(error @ SessionError::ForeignRank { .. }) => foreign = foreign.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
    }
    match foreign {
        Some(_) if profiles.is_empty() => return Err(job::foreign(folder)),
        Some(error) => return Err(error),
        None => {}
    }
    let ranks = there;
    merge::tell_hosts_apart(&mut profiles);
    rank_calls::compare(&mut profiles, &ranks);
    let mut profile = merge::merge_ranks(profiles, functions, partial).map_err(|e| failed(e.to_string()))?;
    profile.run.warnings.extend(unreadable.into_iter().map(|what| {
        Warning::new(
            "rank-unreadable",
            what,
            "the figures are those of the other ranks",
            "look whether the rank was ended while it wrote",
        )
    }));
    add_network(&mut profile, folder);
    Ok(profile)
}

/// Adds the ceilings of the network that were measured for the job in `folder`, if there are some. Only a measurement of this job's network
/// is in its folder.
pub fn add_network(profile: &mut Profile, folder: &Path) {
    match network::read(folder).and_then(|network| network::of_job(network, &profile.run.ranks)) {
        Ok(network) => profile.network = Some(network),
        Err(_) if !folder.join(network::FILE).exists() => {}
        Err(error) => profile.run.warnings.push(Warning::new(
            "network-unreadable",
            format!("{} is left out: {error}", network::FILE),
            "the network's ceilings are missing, and functions that communicate have no class",
            "measure it again: mpirun … rprof machine --mpi -o FOLDER -- ./app, then rprof merge FOLDER",
        )),
    }
}

/// The folder of the job that all of these `profile.json` are of, as ranks have them: `FOLDER/rank-N/profile.json`.
pub fn folder_of_ranks(profiles: &[PathBuf]) -> Option<&Path> {
    let folder_of = |path: &'_ PathBuf| -> Option<PathBuf> {
        let rank = path.parent()?;
        rank.file_name()?.to_str()?.strip_prefix("rank-")?.parse::<u32>().ok()?;
        Some(rank.parent()?.to_owned())
    };
    let first = folder_of(profiles.first()?)?;
    let is_of_it = |path: &PathBuf| folder_of(path).as_ref() == Some(&first);
    profiles.iter().all(is_of_it).then(|| profiles[0].parent().and_then(Path::parent)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_one_folder_are_of_its_job() {
        let of = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            folder_of_ranks(&paths).map(Path::to_owned)
        };
        let job = Some(PathBuf::from("runs/job"));
        assert_eq!(of(&["runs/job/rank-0/profile.json", "runs/job/rank-1/profile.json"]), job);
        assert_eq!(of(&["runs/job/rank-0/profile.json", "runs/other/rank-1/profile.json"]), None);
        assert_eq!(of(&["runs/job/profile.json", "runs/job/rank-1/profile.json"]), None, "no rank");
        assert_eq!(of(&["rank-x/profile.json"]), None);
        assert_eq!(of(&[]), None);
    }
}
