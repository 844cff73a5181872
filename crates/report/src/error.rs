//! Errors of reading and writing reports.

use std::path::PathBuf;

use thiserror::Error;

/// An error of this folder. Its display is one line: the event, the file it concerns, and a remedy.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The file could not be read.
    #[error("cannot read {}: {source}; name a profile.json, or the folder that a run wrote it to", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file ends too early.
    #[error("{} is not a complete JSON file: it ends within {field}; run rprof again, or name another profile.json", path.display())]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// The field within which it ends.
        field: String,
    },
    /// The file is not JSON.
    #[error("{} is not JSON ({source}); name a profile.json", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// The place at which it stops making sense.
        source: serde_json::Error,
    },
    /// It is JSON, but not a profile of this version.
    #[error("{}: {field}: {problem}; expected a profile.json with schema {}", path.display(), rprof_profile::SCHEMA)]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// The offending field, as a path such as `functions[3].bytes.l1`.
        field: String,
        /// The problem.
        problem: String,
    },
    /// A picture or text could not be made.
    #[error("cannot make the {what}: {problem}")]
    Render {
        /// Which report.
        what: &'static str,
        /// Why.
        problem: String,
    },
}
