//! The accesses of repeated string instructions: runs of bytes, side by side.
//!
//! ```text
//!  movs   load  ▒▒▒▒░░░░████…        ▒ first, ░ second, █ third pieces: of each run one in turn, as the instruction
//!         store ▒▒▒▒░░░░████…          goes on in all of them at once
//! ```

use rprof_isa::facts::AccessKind;
use rprof_profile::evidence::memory::Access;

/// Bytes of the longest access that a sink is handed.
const LONGEST: u64 = 1 << 31;
/// Bytes of one run before the next run continues.
const PIECE: u64 = 4096;
/// Approximate maximum number of pieces of each run of an instruction.
const MOST_PIECES: u64 = 1 << 16;

/// The memory that one operand accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The lowest address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Load or store.
    pub kind: AccessKind,
}

/// Appends the accesses of the instruction `site` with operands that access these runs of about equal lengths.
pub fn accesses(runs: &[Run], site: u32, out: &mut Vec<Access>) {
    let longest = runs.iter().map(|run| run.bytes).max().unwrap_or(0);
    let piece = if runs.len() > 1 { PIECE.max(longest / MOST_PIECES).min(LONGEST) } else { LONGEST };
    let mut from = 0;
    while from < longest {
        for run in runs.iter().filter(|run| from < run.bytes) {
            let bytes = (run.bytes - from).min(piece) as u32;
            out.push(Access { address: run.address.wrapping_add(from), bytes, site, kind: run.kind });
        }
        from += piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessKind::{Load, Store};

    fn made(runs: &[(u64, u64, AccessKind)]) -> Vec<(u64, u32, AccessKind)> {
        let runs: Vec<Run> = runs.iter().map(|&(address, bytes, kind)| Run { address, bytes, kind }).collect();
        let mut out = Vec::new();
        accesses(&runs, 7, &mut out);
        out.iter().map(|access| (access.address, access.bytes, access.kind)).collect()
    }

    #[test]
    fn runs_go_on_side_by_side() {
        assert_eq!(made(&[(0x1000, 0, Load), (0x9000, 0, Store)]), []);
        assert_eq!(made(&[(0x1000, 24, Load), (0x9000, 24, Store)]), [(0x1000, 24, Load), (0x9000, 24, Store)]);
        let two = made(&[(0x1000, 5000, Load), (0x9000, 5000, Store)]);
        assert_eq!(two[1..3], [(0x9000, 4096, Store), (0x2000, 904, Load)]);
        assert_eq!(two.len(), 4);
    }

    #[test]
    fn long_ones_have_so_many_pieces_and_all_their_bytes() {
        let bytes = (5 << 32) + 77;
        for (runs, pieces) in [(1, 11), (2, 2 * (MOST_PIECES as usize + 1))] {
            let all = made(&[(0x1000, bytes, Store), (0x9000, bytes, Load)][..runs]);
            assert!(all.len() <= pieces, "{}", all.len());
            assert_eq!(all.iter().map(|access| u64::from(access.1)).sum::<u64>(), runs as u64 * bytes);
        }
    }
}
