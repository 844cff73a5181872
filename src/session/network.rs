//! `rprof machine --mpi`: the ceilings of the network between the ranks of a job, as one of them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::SessionError;
use super::ceilings::ProgressReporter;
use super::launcher;
use super::preflight;
use super::progress::Notices;
use crate::machine::network::wanted::Wanted;
use crate::machine::network::{self, NetworkError, Request};
use crate::profile::network::{LibraryOf, Network};
use crate::profile::run::{Rank, Warning};
use crate::tracee::whole_file;

/// Its name in an output folder.
pub const FILE: &str = "network.json";

/// Printed before ranks of several hosts exchange a first message: MPICH's launcher kills rprof, too, if that fails.
pub const CONNECTS: &str = "connects the ranks of several hosts; if nothing follows, the hosts cannot reach one another \
                            (firewall, network interface)";

/// The options of `rprof machine --mpi`.
#[derive(Debug, Clone)]
pub struct NetworkOptions {
    /// The program with the library to use, and its arguments; empty: the launcher's library.
    pub program: Vec<OsString>,
    /// The measurements wanted; `None`: the usual ones.
    pub wanted: Option<PathBuf>,
    /// Measure again even if cached.
    pub refresh: bool,
    /// No progress.
    pub quiet: bool,
}

/// Measures as a rank; `take` gets the result in rank 0, while the library is still loaded. Returns the doubts.
///
/// # Errors
/// The network cannot be measured.
pub fn measure(options: &NetworkOptions, take: &mut dyn FnMut(Network)) -> Result<Vec<Warning>, SessionError> {
    let mut warnings = Vec::new();
    let rank = launcher::of_this_process(&mut warnings);
    let is_first = rank.as_ref().is_none_or(|rank| rank.rank == 0);
    // All ranks of a host fail alike, one line is enough; or this one alone.
    let of_all = |error: SessionError| if launcher::is_first_of_its_host() { error } else { SessionError::Silent };
    let failed = |error: NetworkError| match &rank {
        Some(rank) if !error.is_of_all() => SessionError::Report(format!("rank {}: {error}", rank.rank)),
        _ => of_all(SessionError::Report(error.to_string())),
    };
    let Some(launched) = rank.as_ref() else { return Err(failed(NetworkError::NoLauncher)) };
    let program = match options.program.is_empty() {
        true => None,
        false => Some(preflight::check(&options.program).map_err(of_all)?.program.path),
    };
    let wanted = options.wanted.as_deref().map(Wanted::read).transpose().map_err(failed)?.unwrap_or_default();
    let is_named = program.is_some();
    let request = Request {
        program,
        launcher: launcher::family(),
        ranks: launched.ranks,
        wanted,
        refresh: options.refresh,
        cache: None,
    };
    let notices = Notices::new(options.quiet || !is_first);
    if launched.ranks.is_some_and(launcher::has_other_hosts) {
        notices.say(CONNECTS);
    }
    let mut progress = ProgressReporter::new(&notices, "measuring the network between the ranks, for later runs, too");
    let mut doubt = None;
    let mut taken = |network: Network| {
        doubt = library_of_launcher(&network).filter(|_| is_named);
        take(network);
    };
    network::measure(&request, &mut progress, &mut taken).map_err(failed)?;
    Ok(if is_first { progress.into_warnings().into_iter().chain(doubt).collect() } else { Vec::new() })
}

/// The doubt about a network that was measured for a program with the library of its launcher.
pub fn library_of_launcher(network: &Network) -> Option<Warning> {
    (network.library_of == Some(LibraryOf::Launcher)).then(|| {
        Warning::new(
            "network-library",
            format!(
                "the program loads no MPI library when it starts: the network was measured with {}",
                network.library
            ),
            "if the program loads another library later, its messages cost something else",
            "name a program that is linked with that library: mpirun … rprof machine --mpi -- ./app",
        )
    })
}

/// The ceilings of the network that were written into a folder.
///
/// # Errors
/// The file is not there, or holds something else.
pub fn read(folder: &Path) -> Result<Network, String> {
    let text = whole_file::read(&folder.join(FILE)).map_err(|e| e.to_string())?;
    let network: Network = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
    network.is_possible().then_some(network).ok_or_else(|| "it has figures that cannot be".to_owned())
}

/// `network`, unless it was measured between other ranks than those of the job.
///
/// # Errors
/// It was.
pub fn of_job(network: Network, ranks: &[Rank]) -> Result<Network, String> {
    let measured: BTreeSet<u32> = network.hosts.iter().flat_map(|host| &host.ranks).copied().collect();
    let all = ranks.iter().filter_map(|rank| rank.ranks).max();
    let is_other = all.is_some_and(|all| measured.len() != all as usize)
        || ranks.iter().any(|rank| !measured.contains(&rank.rank));
    if is_other {
        return Err(format!("it was measured between {} ranks of another job", measured.len()));
    }
    Ok(network)
}
