//! Reads results from files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::result::{GateResult, SCHEMA};

/// Why a file is no result that this version can compare.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The kernel's error.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// A folder, a profile for instance.
    #[error("{}: a folder is no result of rprof gate; give the file that `rprof gate -o FILE` wrote", path.display())]
    Folder { path: PathBuf },
    /// No JSON, or that of something else.
    #[error("{}: not a result of rprof gate; give the file that `rprof gate -o FILE` wrote", path.display())]
    Foreign { path: PathBuf },
    /// Of another version.
    #[error("{}: its schema is {found}, this rprof reads {SCHEMA}; make the base with the same version of rprof", path.display())]
    Schema { path: PathBuf, found: String },
    /// The schema is ours, and the content is not.
    #[error("{}: damaged: {problem}; make it again", path.display())]
    Damaged { path: PathBuf, problem: String },
}

/// The one field that is read of any version.
#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// Reads the result in the file `path`.
pub fn read(path: &Path) -> Result<GateResult, ReadError> {
    let named = || path.to_owned();
    if path.is_dir() {
        return Err(ReadError::Folder { path: named() });
    }
    let text = fs::read(path).map_err(|source| ReadError::Unreadable { path: named(), source })?;
    let head: Head = serde_json::from_slice(&text).map_err(|_| ReadError::Foreign { path: named() })?;
    if !head.schema.starts_with("rprof-gate/") {
        return Err(ReadError::Foreign { path: named() });
    }
    if head.schema != SCHEMA {
        return Err(ReadError::Schema { path: named(), found: head.schema });
    }
    serde_json::from_slice(&text).map_err(|error| ReadError::Damaged { path: named(), problem: error.to_string() })
}
