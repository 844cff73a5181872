//! The records in a thread's buffer: one for each recorded operand, and in traced code one for each block.

use crate::strings::Run;
use crate::translator::code_cache::block::BlockId;
use crate::translator::code_cache::probe_site::{ProbeSite, Shape};

/// Bytes of a record of a block, or of an operand of any shape but the ones below.
pub const ENTRY: u32 = 16;
/// Bytes of a [`Shape::Repeated`] record: an entry, and the repeat count in 64 bits.
pub const REPEATED: u32 = 24;
/// Offset of the repeat count in it.
pub const REPEATED_COUNT: u32 = 16;
/// Bytes of an [`Shape::Indexed`] record.
pub const INDEXED: u32 = 16 + 64;
/// In place of a probe's number: the record is of a block, with its number in place of the address.
pub const BLOCK: u32 = u32::MAX;

/// Bytes that a string comparison is assumed to read if its end is not known yet.
const UNKNOWN_LENGTH: u64 = 4096;

/// Receives the records, in their order.
pub trait Reader {
    /// A block begins.
    fn block(&mut self, id: BlockId);

    /// The following accesses belong to the probe with this number.
    fn probe(&mut self, number: u32, probe: &ProbeSite);

    /// One access of it.
    fn access(&mut self, address: u64, bytes: u32);

    /// The runs of memory that the operands of a repeated instruction accessed.
    fn repeated(&mut self, runs: &[Run]);
}

/// Reads `bytes` of a buffer. `about_to` is the repeat count of the latest `rep` instruction.
pub fn read(bytes: &[u8], probes: &[ProbeSite], about_to: u64, reader: &mut impl Reader) {
    let word = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    let mut at = 0;
    while at + ENTRY as usize <= bytes.len() {
        let (address, packed) = (word(at), word(at + 8));
        let (number, extra) = (packed as u32, (packed >> 32) as u32);
        if number == BLOCK {
            reader.block(address as BlockId);
            at += ENTRY as usize;
            continue;
        }
        let Some(probe) = probes.get(number as usize) else { break };
        reader.probe(number, probe);
        match probe.shape {
            Shape::Plain => reader.access(address, probe.bytes),
            Shape::Masked { lanes } => {
                let active = extra & (((1u64 << lanes) - 1) as u32);
                if active != 0 {
                    let lane = probe.bytes / u32::from(lanes);
                    let first = active.trailing_zeros();
                    let count = 32 - active.leading_zeros() - first;
                    reader.access(address + u64::from(first * lane), count * lane);
                }
            }
            Shape::Repeated { may_end_early } => {
                let run = |at: usize, probe: &ProbeSite| {
                    let times = word(at + REPEATED_COUNT as usize);
                    // The last record may be of an access that was not executed.
                    let is_open = may_end_early && times == about_to && bytes.len() - at <= 2 * REPEATED as usize;
                    let most = if is_open { UNKNOWN_LENGTH } else { u64::MAX };
                    let bytes = times.saturating_mul(u64::from(probe.bytes)).min(most);
                    Run { address: word(at), bytes, kind: probe.kind }
                };
                let first = run(at, probe);
                // The instruction's other operand, if it has one and the buffer was not emptied in between.
                let next = at + REPEATED as usize;
                let other = probes.get(number as usize + 1).filter(|other| other.at == probe.at);
                let follows = next + REPEATED as usize <= bytes.len() && word(next + 8) as u32 == number + 1;
                match other.filter(|_| follows) {
                    Some(other) => {
                        reader.repeated(&[first, run(next, other)]);
                        at = next;
                    }
                    None => reader.repeated(&[first]),
                }
            }
            Shape::Indexed { lanes, index, scale } => {
                let lane_bytes = probe.bytes / u32::from(lanes.max(1));
                for lane in (0..usize::from(lanes)).filter(|&l| extra >> l & 1 == 1) {
                    let offset = match index {
                        4 => (word(at + 16 + lane / 2 * 8) >> (lane % 2 * 32)) as i32 as i64,
                        _ => word(at + 16 + lane * 8) as i64,
                    };
                    reader.access(address.wrapping_add((offset * i64::from(scale)) as u64), lane_bytes);
                }
            }
        }
        at += size(probe.shape) as usize;
    }
}

/// Bytes of a record of this shape.
pub fn size(shape: Shape) -> u32 {
    match shape {
        Shape::Indexed { .. } => INDEXED,
        Shape::Repeated { .. } => REPEATED,
        Shape::Plain | Shape::Masked { .. } => ENTRY,
    }
}
