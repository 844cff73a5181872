//! Ceilings of the network between the ranks of a job, with the job's own MPI library.
//!
//! ```text
//!  rank 0:  wanted ─▶ kept? ──yes──▶ Network
//!                       │ no
//!                       ▼
//!           plan ─▶ pairs, collectives ─ Step ─▶ team ═ broadcast ═▶ rank (each) ─▶ mpi ─▶ ../loader ─▶ PMPI_…
//!                         ▲                       │
//!           stream, points, sizes ◀── stamps ═ gathered ═
//! ```
//!
//! [`measure`] is the entry, called by every rank. rprof itself is no rank: the process that loads the library is, so a library that
//! crashes or hangs costs its ceilings alone. All ranks make the same [`Step`](step::Step)s, which rank 0 decides on; each notes
//! times with its own clock.

mod ahead;
mod collective;
mod collectives;
mod error;
mod handles;
mod hosts;
mod kept;
mod library;
mod mpi;
mod pairs;
mod plan;
mod points;
mod rank;
mod settings;
mod sizes;
mod step;
mod stream;
mod team;
pub mod wanted;

use std::path::{Path, PathBuf};

use crate::progress::Progress;
use crate::store;
use rprof_profile::network::{LibraryOf, Network};
use rprof_profile::run::Warning;
use rprof_tracee::mpi::datatypes::Family;
use rprof_tracee::whole_file;

use ahead::Ahead;
use hosts::Hosts;
use kept::Key;
use mpi::Mpi;
use rank::Rank;
use step::Step;
use team::Team;
use wanted::Wanted;

pub use error::NetworkError;

/// A request for the ceilings of a job's network, the same in all of its ranks.
#[derive(Debug, Clone)]
pub struct Request {
    /// The program with the library to use; `None`: the launcher's.
    pub program: Option<PathBuf>,
    /// The launcher's family, if it is known.
    pub launcher: Option<Family>,
    /// Ranks of the job, as the launcher says.
    pub ranks: Option<u32>,
    /// The calls and messages to measure.
    pub wanted: Wanted,
    /// Ignore kept results.
    pub refresh: bool,
    /// The cache's folder; `None`: [`store::directory`].
    pub cache: Option<PathBuf>,
}

/// Measures, or reads kept results, as one of the job's ranks. `take` gets the result in rank 0, before the job's end: a library that
/// hangs there takes nothing with it.
///
/// # Errors
/// [`NetworkError`].
pub fn measure(
    request: &Request,
    progress: &mut dyn Progress,
    take: &mut dyn FnMut(Network),
) -> Result<(), NetworkError> {
    let (names, library_of) = names(request)?;
    let mpi = Mpi::start(&names)?;
    if let Some(launched) = request.ranks.filter(|launched| *launched != mpi.ranks) {
        return Err(NetworkError::OtherLauncher { library: mpi.file(), launched, seen: mpi.ranks });
    }
    if mpi.ranks < 2 {
        return Err(NetworkError::OneRank);
    }
    let (library, build_id, is_leader) = (mpi.file(), mpi.build_id(), mpi.rank == 0);
    let mut rank = Rank::new(mpi);
    let places = rank.places().map_err(NetworkError::of_first_message)?;
    let takes_turns = !hosts::have_cpus(&places) && !settings::yields(&settings::own());
    let takes_turns = rank.agree(takes_turns)?;
    let _ahead = Ahead::of_others(rank.mpi.pid(), takes_turns);
    if is_leader {
        let hosts = Hosts::new(places);
        let empty =
            Network { library, build_id, settings: settings::own(), hosts: hosts.listed(), ..Network::default() };
        let network = lead(&mut rank, &hosts, empty, request, progress)?;
        // Kept results may be of another program with the same library.
        take(Network { library_of: Some(library_of), ..network });
        rank.lead(&Step::End)?;
    } else {
        rank.follow()?;
    }
    // The results are complete: a library that does not end is ended.
    let _ = rank.mpi.finish();
    Ok(())
}

/// The files or names to look for the library under, and the library's origin.
fn names(request: &Request) -> Result<(Vec<String>, LibraryOf), NetworkError> {
    let of_program = request.program.as_deref().map(library::of_program).transpose()?.flatten();
    Ok(match of_program {
        Some(file) => (vec![file.to_string_lossy().into_owned()], LibraryOf::Program),
        None => (library::names(request.launcher), LibraryOf::Launcher),
    })
}

/// The work of rank 0: completes the kept results, and keeps them.
fn lead(
    rank: &mut Rank,
    hosts: &Hosts,
    empty: Network,
    request: &Request,
    progress: &mut dyn Progress,
) -> Result<Network, NetworkError> {
    let key = Key::of(&empty, hosts);
    let directory = request.cache.clone().or_else(store::directory);
    let kept = directory.as_deref().filter(|_| !request.refresh).and_then(|directory| kept::load(directory, &key));
    let mut network = kept.unwrap_or(empty);
    if plan::has_all(&network, hosts, &request.wanted) {
        return Ok(network);
    }
    plan::complete(rank, hosts, &request.wanted, &mut network, &mut |what, done, all| progress.group(what, done, all))?;
    if let Some(directory) = directory {
        keep(&directory, &key, &network, progress);
    }
    Ok(network)
}

fn keep(directory: &Path, key: &Key, network: &Network, progress: &mut dyn Progress) {
    if let Err(error) = kept::save(directory, key, network) {
        progress.warn(Warning::new(
            "machine-cache",
            format!("the ceilings of the network could not be kept in {}: {error}", directory.display()),
            "they are measured again at the next run",
            whole_file::remedy(&error, "set XDG_CACHE_HOME to a writable directory"),
        ));
    }
}
