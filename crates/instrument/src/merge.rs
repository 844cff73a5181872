//! Joins instructions that were counted one by one into straight runs with the same counts.

use iced_x86::{Decoder, DecoderOptions, FlowControl};

use rprof_profile::evidence::blocks::{BlockCount, DynamicCount};

/// Merges neighbours in `blocks`, which is sorted by place: same module, adjoining, executed equally often by the same
/// threads, and the first does not end in a transfer of control.
pub fn merge_adjacent(blocks: Vec<BlockCount>) -> Vec<BlockCount> {
    let mut merged: Vec<BlockCount> = Vec::with_capacity(blocks.len() / 4);
    let mut open = false;
    for block in blocks {
        let falls_through = falls_through(&block.code);
        match merged.last_mut() {
            Some(last) if open && adjoins(last, &block) => {
                let base = last.code.len() as u32;
                last.code.extend(&block.code);
                last.calls.extend(&block.calls);
                last.dynamic.extend(block.dynamic.iter().map(|d| DynamicCount { offset: base + d.offset, ..*d }));
            }
            _ => merged.push(block),
        }
        open = falls_through;
    }
    merged
}

fn adjoins(first: &BlockCount, second: &BlockCount) -> bool {
    first.at.module == second.at.module
        && first.at.offset + first.code.len() as u64 == second.at.offset
        && first.executions == second.executions
}

fn falls_through(code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut last = None;
    while decoder.can_decode() {
        last = Some(decoder.decode().flow_control());
    }
    last == Some(FlowControl::Next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::code::CodeRef;

    #[test]
    fn runs_end_at_jumps_and_at_other_counts() {
        let block = |offset, code: &[u8], n| BlockCount {
            at: CodeRef { module: 0, offset },
            code: code.to_vec(),
            executions: vec![(0, n)],
            dynamic: vec![],
            calls: vec![],
        };
        let merged = merge_adjacent(vec![
            block(0, &[0x90], 3),
            block(1, &[0xeb, 0x00], 3), // jmp 3
            block(3, &[0x90], 3),
            block(4, &[0x90], 2),
        ]);
        let shape: Vec<_> = merged.iter().map(|b| (b.at.offset, b.code.len())).collect();
        assert_eq!(shape, [(0, 3), (3, 1), (4, 1)]);
    }
}
