//! Why the network between the ranks of a job could not be measured.

use crate::loader::LoaderError;

/// Errors of a rank. Each is one line: what, to what, what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NetworkError {
    /// No launcher started this process.
    #[error("--mpi: this process is no rank of a job; start it with a launcher: mpirun -np 2 rprof machine --mpi")]
    NoLauncher,
    /// The job has one rank.
    #[error("--mpi: a job of one rank has no network; start at least two: mpirun -np 2 rprof machine --mpi")]
    OneRank,
    /// The launcher started ranks that do not find each other.
    #[error(
        "--mpi: the launcher started {launched} ranks, but {library} sees {seen}: it belongs to another launcher; use that one, or name \
         a program that is linked with this launcher's library: rprof machine --mpi -- ./app"
    )]
    OtherLauncher {
        /// The library's file.
        library: String,
        /// As the launcher says.
        launched: u32,
        /// As the library says.
        seen: u32,
    },
    /// MPI is linked into the program, or it has no libraries.
    #[error(
        "--mpi: {program} is linked statically, so it has no MPI library that could be loaded; leave the program out to \
         measure with this host's library"
    )]
    Static {
        /// The program.
        program: String,
    },
    /// The program's libraries are not known.
    #[error("--mpi: the libraries of {program} cannot be listed: {reason}; check that it starts on this host")]
    Unlisted {
        /// The program.
        program: String,
        /// The message of its dynamic linker.
        reason: String,
    },
    /// No library of MPI was found.
    #[error(
        "--mpi: no MPI library was found ({}); set LD_LIBRARY_PATH, or name a program that is linked with it: rprof machine \
         --mpi -- ./app",
        names.join(", ")
    )]
    NoLibrary {
        /// The names that were looked for.
        names: Vec<String>,
    },
    /// The constants of the library's family do not fit it.
    #[error(
        "--mpi: {library} is of no known family: MPI_Type_size of MPI_BYTE is {bytes} in it; ceilings are not measured"
    )]
    Family {
        /// Its file.
        library: String,
        /// Bytes of its answer; -1: none.
        bytes: i64,
    },
    /// A call failed.
    #[error("--mpi: {call} of {library} failed with code {code}; RPROF_LOG=1 shows what the library prints")]
    Failed {
        /// The function.
        call: String,
        /// The library's file.
        library: String,
        /// Its return code.
        code: u32,
    },
    /// The process that has the library is lost, or the library lacks something.
    #[error("--mpi: {0}; RPROF_LOG=1 shows what the library prints")]
    Loader(#[from] LoaderError),
    /// The first message between the ranks failed so.
    #[error(
        "{0}; no message has passed between the ranks yet: look whether their hosts can reach one another (firewall, network \
         interface)"
    )]
    FirstMessage(Box<NetworkError>),
    /// Rank 0 sent something else than a step.
    #[error("--mpi: rank 0 sent no step of a measurement; start the same rprof on all hosts")]
    Step,
    /// The file of `--wanted`.
    #[error("--wanted {path}: {reason}; rprof writes this file itself, for the launch that measures the network")]
    Wanted {
        /// The file.
        path: String,
        /// Why it cannot be used.
        reason: String,
    },
}

impl NetworkError {
    /// This error, if it is of the first message between the ranks.
    pub fn of_first_message(self) -> NetworkError {
        match self {
            NetworkError::Failed { .. } | NetworkError::Loader(_) => NetworkError::FirstMessage(Box::new(self)),
            other => other,
        }
    }

    /// Whether all ranks of a host fail alike.
    pub fn is_of_all(&self) -> bool {
        use NetworkError::{Failed, FirstMessage, Loader, Step};
        !matches!(self, Failed { .. } | Loader(_) | FirstMessage(_) | Step)
    }
}
