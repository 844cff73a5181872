//! The folder of a job of many ranks: `rank-N/` for each, and `job.json`, which names the job they belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::SessionError;
use super::error::JobProblem;
use super::launcher::{self, LaunchedRank};
use super::options::Passes;
use super::output::{self, OutputFolder};
use crate::profile::Profile;
use crate::profile::run::Rank;
use crate::tracee::boot::boot_id;
use crate::tracee::whole_file;

/// Its name in the job's folder.
pub const JOB_FILE: &str = "job.json";
const SCHEMA: &str = "rprof-job/1";

/// The jobs that a folder holds ranks of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFile {
    /// `rprof-job/1`.
    pub schema: String,
    /// The launches, in order: one, or two that complete one another.
    pub launches: Vec<Launch>,
    /// Ranks of each; `null` if the launcher does not say.
    pub ranks: Option<u32>,
    /// Program and arguments of the rank that came first.
    pub command: Vec<String>,
    /// Those of other ranks, if they differ (`mpirun … : …`).
    #[serde(default)]
    pub other_commands: BTreeSet<Vec<String>>,
}

/// One start of all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The launcher's name for it; `null` if there is none.
    pub job: Option<String>,
    /// `single`, `timed`, `counted` or `both`.
    pub passes: String,
    /// Ranks that have started, by the boot of their host's kernel.
    #[serde(default)]
    pub started: BTreeMap<String, BTreeSet<u32>>,
    /// Ranks with written profiles.
    #[serde(default)]
    pub finished: BTreeSet<u32>,
}

impl JobFile {
    /// Whether `launch` is among its launches.
    fn has(&self, launch: &Launch) -> bool {
        self.launches.iter().any(|known| known.is(launch))
    }

    /// Whether one of its ranks started this program with these arguments.
    fn is_of(&self, command: &Vec<String>) -> bool {
        self.command == *command || self.other_commands.contains(command)
    }
}

impl Launch {
    /// Whether both are the same launch.
    fn is(&self, other: &Launch) -> bool {
        (&self.job, &self.passes) == (&other.job, &other.passes)
    }
}

/// A launch as one of its ranks knows it.
#[derive(Debug, Clone, Copy)]
pub struct Launching<'a> {
    /// The rank.
    pub rank: &'a LaunchedRank,
    /// The passes that it makes.
    pub passes: Passes,
    /// Program and arguments.
    pub command: &'a [std::ffi::OsString],
}

impl Launching<'_> {
    fn launch(&self) -> Launch {
        let (started, finished) = (BTreeMap::new(), BTreeSet::new());
        Launch { job: self.rank.job.clone(), passes: self.passes.name().into(), started, finished }
    }

    fn command(&self) -> Vec<String> {
        self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// Whether this launch belongs to `known`, and `job.json` with it. `None`: it is another job.
    fn joins(&self, known: &JobFile) -> Option<JobFile> {
        let launch = self.launch();
        if known.has(&launch) {
            return Some(known.clone());
        }
        if let ([first], Some(other)) = (&known.launches[..], self.passes.complement())
            && first.passes == other.name()
            && known.ranks == self.rank.ranks
            && known.is_of(&self.command())
        {
            return Some(JobFile { launches: vec![first.clone(), launch], ..known.clone() });
        }
        // A rank's script may start several programs.
        let is_same_job = known.launches.iter().any(|known| known.job.is_some() && known.job == launch.job);
        is_same_job.then(|| known.clone())
    }
}

/// Makes the folder of a rank in that of its job. Files of another job in the job's folder are set aside as a whole; a timed and a
/// counted launch of the same program share it. `needed`: files that must stay in place.
///
/// # Errors
/// A folder cannot be made, or holds other things.
pub fn rank_folder(
    chosen: Option<&Path>,
    launching: &Launching<'_>,
    needed: &[&Path],
) -> Result<OutputFolder, SessionError> {
    let base = output::base(chosen);
    let fail = |source: io::Error| SessionError::Output { path: base.clone(), source };
    fs::create_dir_all(parent_of(&base)).map_err(fail)?;
    let _alone = alone(&base);
    let known = read(&base);
    let shared = known.as_ref().and_then(|known| launching.joins(known));
    if shared.is_none() {
        if let Some(aside) = set_aside_while_it_started(&base, launching) {
            return OutputFolder::of_rank(aside.join(folder_name(launching.rank.rank)), true, needed);
        }
        output::set_aside(&base, chosen.is_some(), needed).map_err(fail)?;
        fs::create_dir_all(&base).map_err(fail)?;
    }
    let mut file = shared.clone().unwrap_or_else(|| JobFile {
        schema: SCHEMA.into(),
        launches: vec![launching.launch()],
        ranks: launching.rank.ranks,
        command: launching.command(),
        other_commands: BTreeSet::new(),
    });
    // A rank's script starts another program: the job's files so far are those of the program before.
    let started = launching.launch();
    if let Some(launch) = file.launches.iter_mut().find(|launch| launch.is(&started)) {
        launch.started.entry(boot_id().unwrap_or_default()).or_default().insert(launching.rank.rank);
        if launch.finished.remove(&launching.rank.rank) {
            file.command = launching.command();
        }
        if !file.is_of(&launching.command()) {
            file.other_commands.insert(launching.command());
        }
    }
    if known.as_ref() != Some(&file) {
        let text = serde_json::to_string_pretty(&file).map_err(|e| fail(io::Error::other(e)))?;
        whole_file::write(&base.join(JOB_FILE), text.as_bytes()).map_err(fail)?;
    }
    let is_shared = file.launches.len() > 1;
    OutputFolder::of_rank(base.join(folder_name(launching.rank.rank)), is_shared, needed)
}

/// The name of the folder of rank `rank` in that of its job.
pub fn folder_name(rank: u32) -> String {
    format!("rank-{rank}")
}

/// The folder of this launch's first ranks, if another job's have set the folder aside before this rank came.
fn set_aside_while_it_started(base: &Path, launching: &Launching<'_>) -> Option<PathBuf> {
    let launch = launching.launch();
    launch.job.as_ref()?;
    let lacks_us = |folder: &PathBuf| {
        let is_missing = !folder.join(folder_name(launching.rank.rank)).exists();
        is_missing && read(folder).is_some_and(|file| file.has(&launch))
    };
    kept(base).filter(lacks_us).last()
}

/// The folders that were set aside, in order.
fn kept(base: &Path) -> impl Iterator<Item = PathBuf> {
    (1u32..).map(|n| output::aside(base, n)).take_while(|folder| folder.exists())
}

fn parent_of(base: &Path) -> &Path {
    base.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Ranks start and end at the same time: while this lives no other one changes the job's folder. `None`: some network file systems have
/// no locks.
fn alone(base: &Path) -> Option<Flock<File>> {
    Flock::lock(File::open(parent_of(base)).ok()?, FlockArg::LockExclusive).ok()
}

/// Notes in the job's folder that the profile of a rank is written. Returns whether it was the last one of the last launch: the job can
/// be merged.
pub fn is_last(rank_folder: &Path, rank: &LaunchedRank) -> bool {
    let Some(base) = rank_folder.parent() else { return false };
    let _alone = alone(base);
    let Some(mut file) = read(base) else { return false };
    let Some(launch) = file.launches.last_mut().filter(|launch| launch.job == rank.job) else { return false };
    launch.finished.insert(rank.rank);
    let is_last = rank.ranks.is_some_and(|ranks| launch.finished.len() == ranks as usize);
    let written = serde_json::to_string_pretty(&file)
        .map_err(io::Error::other)
        .and_then(|text| whole_file::write(&base.join(JOB_FILE), text.as_bytes()));
    is_last && written.is_ok()
}

/// How many ranks of this launch are on this rank's host, itself included: as many as have started there or as the launcher says, if those
/// are more.
pub fn ranks_here(rank_folder: &Path, rank: &LaunchedRank) -> u32 {
    let file = rank_folder.parent().and_then(read);
    let launch = file.as_ref().and_then(|file| file.launches.iter().rfind(|launch| launch.job == rank.job));
    let here = boot_id().and_then(|boot| launch?.started.get(&boot));
    let started = here.map_or(1, |ranks| ranks.len() as u32);
    launcher::ranks_of_this_host().unwrap_or(1).max(started)
}

/// The current path of a rank's folder: another job that started meanwhile may have set the job's folder aside.
pub fn rank_folder_now(folder: OutputFolder, launching: &Launching<'_>) -> OutputFolder {
    let Some(base) = folder.path().parent().map(Path::to_owned) else { return folder };
    let launch = launching.launch();
    let is_ours = |base: &Path| read(base).is_some_and(|file| file.has(&launch));
    if launch.job.is_none() || is_ours(&base) {
        return folder;
    }
    match kept(&base).filter(|aside| is_ours(aside)).last() {
        Some(aside) => OutputFolder::existing(&aside.join(folder_name(launching.rank.rank))),
        None => folder,
    }
}

/// The first launch's name, which all ranks in the job's folder have in common.
pub fn name(rank_folder: &Path) -> Option<String> {
    read(rank_folder.parent()?)?.launches.into_iter().next()?.job
}

/// Why there should be no further launch after `folder` was filled by the first: ranks that were ended from outside, or are missing.
pub fn was_ended(folder: &Path) -> Option<String> {
    let file = read(folder)?;
    let launch = file.launches.first()?;
    let missing = file.ranks.map_or(0, |ranks| (ranks as usize).saturating_sub(launch.finished.len()));
    (missing > 0).then(|| format!("{missing} of its ranks left no profile"))
}

/// The job of the ranks in a folder.
pub fn read(folder: &Path) -> Option<JobFile> {
    parse(&whole_file::read(&folder.join(JOB_FILE)).ok()?)
}

fn parse(text: &[u8]) -> Option<JobFile> {
    serde_json::from_slice(text).ok().filter(|file: &JobFile| file.schema == SCHEMA)
}

/// As [`read`], for who names the folder; `None`: it is none of a job.
///
/// # Errors
/// The file cannot be read, or is missing beside ranks: it is not known which job these ranks belong to, and whether some
/// are missing.
pub fn read_named(folder: &Path) -> Result<Option<JobFile>, SessionError> {
    use io::ErrorKind::{NotADirectory, NotFound};
    match whole_file::read(&folder.join(JOB_FILE)) {
        Ok(text) => parse(&text).map(Some).ok_or_else(|| bad(folder, JobProblem::Damaged)),
        Err(e) if [NotFound, NotADirectory].contains(&e.kind()) => match rank_profiles(folder)[..] {
            [] => Ok(None),
            _ => Err(bad(folder, JobProblem::Missing)),
        },
        Err(e) => Err(bad(folder, JobProblem::Unreadable(e))),
    }
}

fn bad(folder: &Path, problem: JobProblem) -> SessionError {
    SessionError::Job { path: folder.join(JOB_FILE), problem, ranks: folder.join("rank-*") }
}

/// The error of a folder with a record of another job than that of all its ranks.
pub fn foreign(folder: &Path) -> SessionError {
    bad(folder, JobProblem::Foreign)
}

impl JobFile {
    /// Whether a rank is one of this job, as far as both say.
    fn has_rank(&self, rank: &Rank) -> bool {
        let name = self.launches.first().and_then(|launch| launch.job.as_ref());
        rank.job.as_ref().zip(name).is_none_or(|(job, name)| job == name)
            && rank.ranks.zip(self.ranks).is_none_or(|(ranks, of_job)| ranks == of_job)
    }
}

/// Checks that `profile`, which is at `path` in the folder of rank `rank`, is that of this rank of `job`.
///
/// # Errors
/// It is another's, or none of a rank.
pub fn check_rank(profile: &Profile, rank: u32, path: &Path, job: Option<&JobFile>) -> Result<(), SessionError> {
    match &profile.run.ranks[..] {
        [own] if own.rank == rank && job.is_none_or(|job| job.has_rank(own)) => Ok(()),
        _ => Err(SessionError::ForeignRank { path: path.to_owned(), rank }),
    }
}

/// The profiles of the ranks in a job's folder, by rank.
pub fn rank_profiles(folder: &Path) -> Vec<(u32, PathBuf)> {
    let rank = |entry: &fs::DirEntry| entry.file_name().to_str()?.strip_prefix("rank-")?.parse::<u32>().ok();
    let mut all: Vec<(u32, PathBuf)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((rank(&entry)?, entry.path().join("profile.json"))))
        .filter(|(_, path)| path.is_file())
        .collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts rank `number` of a job of `ranks`; its folder.
    fn started(base: &Path, job: &str, number: u32, ranks: u32) -> OutputFolder {
        let rank = rank(job, number, ranks);
        rank_folder(Some(base), &of(&rank), &[]).unwrap()
    }

    fn rank(job: &str, rank: u32, ranks: u32) -> LaunchedRank {
        LaunchedRank { rank, ranks: Some(ranks), job: Some(job.into()), starts_twice: false }
    }

    fn of(rank: &LaunchedRank) -> Launching<'_> {
        Launching { rank, passes: Passes::Single, command: &[] }
    }

    /// Ends a rank: its profile is written to the current place of its folder.
    fn ended(base: &Path, job: &str, number: u32, ranks: u32) -> (PathBuf, bool) {
        let rank = rank(job, number, ranks);
        let was = OutputFolder::existing(&base.join(folder_name(number)));
        let folder = rank_folder_now(was, &of(&rank));
        folder.write("profile.json", b"{}").unwrap();
        (folder.path().to_owned(), is_last(folder.path(), &rank))
    }

    fn numbers(folder: &Path) -> Vec<u32> {
        rank_profiles(folder).into_iter().map(|(rank, _)| rank).collect()
    }

    #[test]
    fn a_smaller_job_after_a_larger_has_its_own_ranks_alone() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("out");
        for (job, ranks) in [("large", 4), ("small", 2)] {
            (0..ranks).for_each(|n| _ = started(&base, job, n, ranks));
            let last: Vec<bool> = (0..ranks).map(|n| ended(&base, job, n, ranks).1).collect();
            assert_eq!(last.iter().filter(|last| **last).count(), 1, "{job}");
        }
        assert_eq!(numbers(&base), [0, 1]);
        assert_eq!(numbers(&dir.path().join("out.1")), [0, 1, 2, 3]);
    }

    #[test]
    fn jobs_that_start_into_one_folder_at_once_are_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("out");
        for (job, number) in [("a", 0), ("b", 0), ("a", 1), ("b", 1)] {
            started(&base, job, number, 2);
        }
        let ends: Vec<(PathBuf, bool)> =
            [("a", 0), ("b", 0), ("b", 1), ("a", 1)].map(|(job, n)| ended(&base, job, n, 2)).into();
        let aside = dir.path().join("out.1");
        let folders: Vec<&Path> = ends.iter().map(|(path, _)| path.parent().unwrap()).collect();
        assert_eq!(folders, [&aside, &base, &base, &aside]);
        assert_eq!(ends.iter().map(|(_, last)| *last).collect::<Vec<_>>(), [false, false, true, true]);
        assert_eq!((numbers(&base), numbers(&aside)), (vec![0, 1], vec![0, 1]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "each job has one folder");
    }

    #[test]
    fn launches_of_several_programs_complete_one_another_whichever_rank_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("out");
        let commands = [["a".into()], ["b".into()]];
        for (job, passes, order) in [("j1", Passes::Timed, [0, 1]), ("j2", Passes::Counted, [1, 0])] {
            for number in order {
                let rank = rank(job, number, 2);
                let launching = Launching { rank: &rank, passes, command: &commands[number as usize] };
                rank_folder(Some(&base), &launching, &[]).unwrap();
            }
        }
        assert_eq!(read(&base).unwrap().launches.len(), 2);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is set aside");
    }

    #[test]
    fn ranks_of_a_host_are_those_that_started_there() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("out");
        let folder = started(&base, "j", 0, 3);
        assert_eq!(ranks_here(folder.path(), &rank("j", 0, 3)), 1);
        started(&base, "j", 2, 3);
        assert_eq!(ranks_here(folder.path(), &rank("j", 0, 3)), 2);
        let mut file = read(&base).unwrap();
        file.launches[0].started.insert("another host".into(), BTreeSet::from([1]));
        fs::write(base.join(JOB_FILE), serde_json::to_string(&file).unwrap()).unwrap();
        assert_eq!(ranks_here(folder.path(), &rank("j", 0, 3)), 2);
        assert_eq!(ranks_here(folder.path(), &rank("another", 0, 3)), 1);
    }

    #[test]
    fn three_hundred_ranks_have_their_folders() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("out");
        (0..300).for_each(|n| _ = started(&base, "j", n, 300));
        let last: Vec<u32> = (0..300).rev().filter(|n| ended(&base, "j", *n, 300).1).collect();
        assert_eq!(last, [0], "the one that ends last");
        assert_eq!(numbers(&base), (0..300).collect::<Vec<_>>());
        assert_eq!(was_ended(&base), None);
    }
}
