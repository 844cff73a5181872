//! Reads the profiles of some ranks of a job, and puts their functions together at once: a thousand ranks need not be in memory.

use std::path::PathBuf;

use super::SessionError;
use crate::profile::Profile;
use crate::report;
use crate::report::merge::Functions;

/// Ranks that are read one after the other: few, so that jobs of tens of ranks keep all CPUs busy.
pub const BATCH: usize = 4;

/// Ranks that are next to one another.
#[derive(Debug)]
pub struct Batch {
    /// Without their functions.
    pub profiles: Vec<Profile>,
    /// Those of all of them.
    pub functions: Functions,
    /// Number and path of each of these profiles.
    pub there: Vec<(u32, PathBuf)>,
    /// Which could not be read, and why.
    pub unreadable: Vec<String>,
}

impl Batch {
    /// Reads the profiles of `ranks`: (number, path). `partial`: some may be unreadable.
    ///
    /// # Errors
    /// A profile cannot be read.
    pub fn read(ranks: &[(u32, PathBuf)], partial: bool) -> Result<Self, SessionError> {
        let mut batch =
            Batch { profiles: Vec::new(), functions: Functions::of_ranks(), there: Vec::new(), unreadable: Vec::new() };
        for (rank, path) in ranks {
            match report::json::read_rank(path) {
                Ok(mut profile) => {
                    batch.functions.take(&mut profile);
                    batch.profiles.push(profile);
                    batch.there.push((*rank, path.clone()));
                }
                Err(error) if partial => batch.unreadable.push(format!("rank {rank}: {error}")),
                Err(error) => return Err(SessionError::Report(error.to_string())),
            }
        }
        Ok(batch)
    }
}
