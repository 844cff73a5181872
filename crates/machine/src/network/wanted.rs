//! The measurements of the network that a program's analysis needs: the calls that it made, with their sizes.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::NetworkError;
use super::collective::{Collective, USUAL};

/// The calls to be measured, beside messages between pairs of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Collective calls.
    pub collectives: Vec<WantedCollective>,
    /// Bytes of the largest message from rank to rank; `null`: not known.
    #[serde(default)]
    pub largest_message: Option<u64>,
}

/// A collective call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedCollective {
    /// The function: `MPI_Allreduce`.
    pub call: String,
    /// Ranks of its communicator; `null`: all.
    pub members: Option<u32>,
    /// Bytes that a rank hands over (docs/mpi.md).
    pub bytes: Vec<u64>,
}

/// A call of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The function.
    pub call: String,
    /// Ranks of its communicator; `None`: not known.
    pub members: Option<u32>,
    /// Bytes that it handed over, or limits of these.
    pub bytes: Vec<u64>,
}

/// Sizes that are measured if nothing is asked for.
const USUAL_BYTES: [u64; 6] = [0, 8, 1 << 10, 32 << 10, 1 << 20, 4 << 20];

impl Default for Wanted {
    fn default() -> Wanted {
        let usual = |call: &Collective| WantedCollective {
            call: call.name(),
            members: None,
            bytes: if *call == Collective::Barrier { vec![0] } else { USUAL_BYTES.to_vec() },
        };
        Wanted { collectives: USUAL.iter().map(usual).collect(), largest_message: None }
    }
}

impl Wanted {
    /// The measurements that calls of a program need: each collective call once, with all of its sizes.
    pub fn of(calls: impl IntoIterator<Item = Use>) -> Wanted {
        let mut wanted = Wanted { collectives: Vec::new(), largest_message: None };
        for Use { call, members, mut bytes } in calls {
            let Some(_) = Collective::like(&call) else {
                wanted.largest_message = wanted.largest_message.max(bytes.into_iter().max());
                continue;
            };
            match wanted.collectives.iter_mut().find(|known| known.call == call && known.members == members) {
                Some(known) => known.bytes.append(&mut bytes),
                None => wanted.collectives.push(WantedCollective { call, members, bytes }),
            }
        }
        for collective in &mut wanted.collectives {
            collective.bytes.sort_unstable();
            collective.bytes.dedup();
        }
        wanted.collectives.sort_unstable();
        wanted
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`NetworkError::Wanted`].
    pub fn read(path: &Path) -> Result<Wanted, NetworkError> {
        let failed = |reason: String| NetworkError::Wanted { path: path.display().to_string(), reason };
        let text = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
        serde_json::from_str(&text).map_err(|e| failed(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(call: &str, members: Option<u32>, bytes: &[u64]) -> Use {
        Use { call: call.into(), members, bytes: bytes.to_vec() }
    }

    #[test]
    fn calls_of_a_program_are_wanted_once() {
        let wanted = Wanted::of([
            used("MPI_Allreduce", None, &[8, 16]),
            used("MPI_Send", None, &[4096, 8192]),
            used("MPI_Allreduce", None, &[16, 32]),
            used("MPI_Allreduce", Some(2), &[8]),
            used("MPI_Isend", None, &[100]),
        ]);
        assert_eq!(wanted.largest_message, Some(8192));
        let found: Vec<_> = wanted.collectives.iter().map(|c| (c.members, c.bytes.clone())).collect();
        assert_eq!(found, [(None, vec![8, 16, 32]), (Some(2), vec![8])]);
    }

    #[test]
    fn a_file_says_what_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wanted.json");
        std::fs::write(
            &path,
            r#"{"collectives":[{"call":"MPI_Allreduce","members":4,"bytes":[8]}],"largest_message":9}"#,
        )
        .unwrap();
        let wanted = Wanted::read(&path).unwrap();
        assert_eq!((wanted.collectives[0].members, wanted.largest_message), (Some(4), Some(9)));
        std::fs::write(&path, r#"{"collective":[]}"#).unwrap();
        let error = Wanted::read(&path).unwrap_err().to_string();
        assert!(error.contains("unknown field") && !error.contains('\n'), "{error}");
        assert!(Wanted::read(&dir.path().join("none")).is_err());
    }
}
