//! The reasons why a session failed, and the exit status of each (docs/conventions.md, Command line).

use std::io;
use std::path::PathBuf;

use crate::tracee::whole_file;

/// A failure of rprof itself, or of starting the program.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// 127.
    #[error("cannot run {}: no such program; check {}", shown(name), spelling(name))]
    NotFound {
        /// As given.
        name: String,
    },
    /// 126.
    #[error("cannot run {}: {reason}", path.display())]
    CannotExecute {
        /// The file.
        path: PathBuf,
        /// The reason and the remedy.
        reason: String,
    },
    /// 125.
    #[error("cannot attach to process {pid}: {reason}")]
    CannotAttach {
        /// As given.
        pid: i32,
        /// The reason and the remedy.
        reason: String,
    },
    /// rprof itself would not get far.
    #[error(
        "the limit on address space is {} MiB and rprof itself needs {} MiB; raise the hard limit (`ulimit -H -v`): a soft \
         one (`ulimit -S -v`) limits the program alone",
        limit >> 20,
        needed >> 20
    )]
    AddressSpace {
        /// Bytes.
        needed: u64,
        /// Bytes.
        limit: u64,
    },
    /// `/proc` does not show this process and its children.
    #[error(
        "cannot look at processes in /proc: {0}; mount the proc file system of this namespace (`mount -t proc proc /proc`)"
    )]
    Proc(String),
    /// A launcher's rank was to start its program twice.
    #[error(
        "--passes both: a rank of this launcher can start its program only once; use --passes single, or two launches into the same \
         folder, one with --passes timed and one with --passes counted"
    )]
    TwiceInARank,
    /// The ranks of a launch have no merged profile.
    #[error("{reason}")]
    Ranks {
        /// Why.
        reason: String,
        /// How the launch ended.
        status: u8,
    },
    /// The record of a job.
    #[error(
        "{}: {problem}, so nobody can say which ranks are missing; rprof merge {} merges those that are there",
        path.display(),
        ranks.display()
    )]
    Job {
        /// The file.
        path: PathBuf,
        /// Its defect.
        problem: JobProblem,
        /// Pattern of the folders of its ranks.
        ranks: PathBuf,
    },
    /// The profile in a rank's folder.
    #[error("{}: not the profile of rank {rank} of this job; put that rank's file there, or leave it out: rprof merge --partial", path.display())]
    ForeignRank {
        /// The file.
        path: PathBuf,
        /// The rank that the folder is named after.
        rank: u32,
    },
    /// A launcher with a command line that names no program ran, and had no ranks to profile.
    #[error(
        "{launcher}: none of its arguments is a program that can be executed, so nothing was profiled; put rprof before the program, if \
         there is one: {launcher} … rprof -- PROGRAM"
    )]
    NoProgram {
        /// The launcher.
        launcher: String,
        /// How it ended.
        status: u8,
    },
    /// The output folder.
    #[error("cannot write to {}: {source}; {}", path.display(), whole_file::remedy(source, "choose another folder with -o"))]
    Output {
        /// The folder or file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A stream could not be set up.
    #[error("cannot prepare the program's {stream}: {source}")]
    Stream {
        /// `standard input`, `standard output`, `standard error`.
        stream: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The `--between` command failed.
    #[error("the --between command `{command}` {how}; the counted pass was not started")]
    Between {
        /// The command.
        command: String,
        /// How it failed.
        how: String,
    },
    /// A pass failed.
    #[error("the {pass} pass failed: {reason}")]
    Pass {
        /// `timed` or `counted`.
        pass: &'static str,
        /// Why.
        reason: String,
    },
    /// The event tables.
    #[error("{0}; rprof's own tables are tested, so look at the folder given with --counters-from")]
    Events(String),
    /// Another rank of the same job says why.
    #[error("another rank of this job says why")]
    Silent,
    /// Reading or drawing a profile.
    #[error("{0}")]
    Report(String),
}

/// A defect of the record of a job.
#[derive(Debug, thiserror::Error)]
pub enum JobProblem {
    /// There are ranks, and no record.
    #[error("missing")]
    Missing,
    /// The kernel's error.
    #[error("cannot be read ({0})")]
    Unreadable(io::Error),
    /// It is no record of a job.
    #[error("damaged, or of another version of rprof")]
    Damaged,
    /// It names another job than the profiles of all ranks beside it.
    #[error("of another job than the ranks beside it")]
    Foreign,
}

/// The error of a stream, or of the signals, that cannot be set up.
pub fn stream(stream: &'static str) -> impl FnOnce(io::Error) -> SessionError {
    move |source| SessionError::Stream { stream, source }
}

/// A name as the user sees it, also if it has no visible characters.
fn shown(name: &str) -> &str {
    if name.trim().is_empty() { "a program with an empty name" } else { name }
}

/// The user's check for a program that was not found; a bare name is looked for in PATH only.
fn spelling(name: &str) -> String {
    if name.is_empty() || name.contains('/') {
        "the spelling".into()
    } else {
        format!("the spelling and PATH, or give a path such as ./{name}")
    }
}

impl SessionError {
    /// The exit status that represents it.
    pub fn exit_code(&self) -> u8 {
        match self {
            SessionError::NotFound { .. } => 127,
            SessionError::CannotExecute { .. } => 126,
            SessionError::Ranks { status, .. } if *status != 0 => *status,
            SessionError::NoProgram { status, .. } => *status,
            _ => 125,
        }
    }
}
