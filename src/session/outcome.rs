//! The result of a session, for the code that writes it.

use crate::profile::Profile;
use crate::tracee::foreground::Foreground;

use super::end::ProgramEnd;
use super::launcher::LaunchedRank;
use super::output::OutputFolder;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// How the user's own run of the program ended.
    pub end: ProgramEnd,
    /// Facts and analysis.
    pub profile: Profile,
    /// The folder for the files.
    pub folder: OutputFolder,
    /// The rank that a launcher started rprof as.
    pub rank: Option<LaunchedRank>,
    /// Until the report is written, Ctrl-C does not end rprof.
    pub held: Foreground,
}
