//! Logs of the collector: reading all of a folder.

pub mod record;

use std::fs;
use std::path::Path;

pub use record::Record;

use record::Reader;

/// The log of one process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// Its records in the order in which they were written.
    pub records: Vec<Record>,
    /// Why it cannot be read to its end, if so.
    pub damage: Option<Damage>,
}

/// Errors of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It ends within a record: the process was killed, or the disk is full.
    #[error("a log of the GPU ends within a record")]
    Truncated,
    /// It does not begin as a log of this version.
    #[error("a file that should be a log of the GPU is none")]
    NoLog,
    /// A record of an unknown kind or length.
    #[error("a log of the GPU has a record of kind {kind} with {length} bytes, which this version does not write")]
    Unknown {
        /// Its kind.
        kind: u32,
        /// Its length.
        length: u32,
    },
}

impl Log {
    /// Reads the bytes of a log as far as they go.
    pub fn parse(bytes: &[u8]) -> Log {
        let mut log = Log::default();
        let mut reader = match Reader::new(bytes) {
            Ok(reader) => reader,
            Err(damage) => return Log { damage: Some(damage), ..log },
        };
        loop {
            match reader.take() {
                Ok(Some(record)) => log.records.push(record),
                Ok(None) => return log,
                Err(damage) => {
                    log.damage = Some(damage);
                    return log;
                }
            }
        }
    }

    /// Whether the process got as far as its end.
    pub fn is_complete(&self) -> bool {
        self.damage.is_none() && self.records.iter().any(|record| matches!(record, Record::End { .. }))
    }
}

/// The logs in a folder, in the order of their names. A file that cannot be read is a damaged log.
pub fn read(folder: &Path) -> Vec<Log> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort_unstable();
    paths.iter().map(|path| Log::parse(&fs::read(path).unwrap_or_default())).collect()
}
