//! How often each edge of a control-flow graph was taken, from how often its blocks were executed.
//!
//! The flow into a block equals the flow out of it. If all but one edge of a block are known, so is the last; repeated until no further
//! edge follows. Edges that the graph does not show (indirect jumps, tail calls, returns into other code) stop it.

use std::collections::HashMap;

use rprof_isa::control_flow::Block;

/// Executions of edges, by (from, to) block index; edges that could not be determined are missing.
pub type EdgeCounts = HashMap<(usize, usize), u64>;

/// Solves for the edges of `blocks`; `executions[i]` is how often block `i` ran, `entry` the start of the function. `falls_out[i]`:
/// control may leave block `i` other than to its successors.
pub fn edge_counts(blocks: &[Block], executions: &[u64], entry: u64, falls_out: &[bool]) -> EdgeCounts {
    let index: HashMap<u64, usize> = blocks.iter().enumerate().map(|(i, b)| (b.start, i)).collect();
    let mut edges: Vec<(usize, usize)> = Vec::new();
    let mut closed_out: Vec<bool> = falls_out.iter().map(|f| !f).collect();
    let mut has_entry = vec![false; blocks.len()];
    for (i, block) in blocks.iter().enumerate() {
        has_entry[i] = block.start == entry;
        for successor in &block.successors {
            match index.get(successor) {
                // A counted block that was never executed is not in the graph, so the edge was never taken.
                None => continue,
                Some(to) => edges.push((i, *to)),
            }
        }
        closed_out[i] &= !block.successors.is_empty();
    }
    edges.sort_unstable();
    edges.dedup();
    let mut outgoing = vec![Vec::new(); blocks.len()];
    let mut incoming = vec![Vec::new(); blocks.len()];
    for (e, (from, to)) in edges.iter().enumerate() {
        outgoing[*from].push(e);
        incoming[*to].push(e);
    }
    let mut known: Vec<Option<u64>> = vec![None; edges.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for block in 0..blocks.len() {
            let flows = [(&outgoing[block], closed_out[block]), (&incoming[block], !has_entry[block])];
            for (around, closed) in flows {
                let mut unknown = around.iter().filter(|e| known[**e].is_none());
                let (Some(last), None, true) = (unknown.next(), unknown.next(), closed) else { continue };
                let rest: u64 = around.iter().filter_map(|e| known[*e]).sum();
                known[*last] = Some(executions[block].saturating_sub(rest));
                changed = true;
            }
        }
    }
    edges.into_iter().zip(known).filter_map(|(edge, count)| Some((edge, count?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64, successors: &[u64]) -> Block {
        Block { start, end: start + 1, successors: successors.to_vec() }
    }

    #[test]
    fn a_loop_with_a_branch_in_it() {
        // 0 → 1; 1 → 2 | 3; 2 → 3; 3 → 1 | 4
        let blocks = [block(0, &[1]), block(1, &[2, 3]), block(2, &[3]), block(3, &[1, 4]), block(4, &[])];
        let edges = edge_counts(&blocks, &[5, 100, 30, 100, 5], 0, &[false; 5]);
        let expected = [((0, 1), 5), ((1, 2), 30), ((1, 3), 70), ((2, 3), 30), ((3, 1), 95), ((3, 4), 5)];
        assert_eq!(edges, expected.into_iter().collect());
    }

    #[test]
    fn what_cannot_be_told_is_left_out() {
        let blocks = [block(0, &[1, 2]), block(1, &[0, 2]), block(2, &[0, 1])];
        assert!(edge_counts(&blocks, &[5, 5, 5], 0, &[false; 3]).is_empty());
    }
}
