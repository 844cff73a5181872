//! Maps counters back to blocks.

use crate::tally::Tally;
use crate::translator::code_cache::block::{BlockId, Flow};
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::counters::{Counters, DynamicSlot};
use crate::translator::code_cache::hash::AddressMap;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::totals::{SlotTotals, Total, Totals, add};
use crate::translator::sampling::access_buffer::AccessBuffer;
use rprof_profile::code::CodeRef;

impl Counters {
    /// Counts an execution of only the first `bytes` of a block, by a thread on this path through marked regions.
    pub fn count_part(&mut self, block: BlockId, bytes: u16, thread: u32, path: u32) {
        add(self.totals.parts.entry((block, bytes)).or_default(), thread, 1);
        if path != 0 {
            add(self.marked.parts.entry((block, bytes)).or_default(), path, 1);
        }
    }

    /// How often `thread` executed only a part of `block`.
    pub fn parts_of(&self, block: BlockId, thread: u32) -> u64 {
        let of_block = self.totals.parts.iter().filter(|((id, _), _)| *id == block);
        of_block.flat_map(|(_, by_thread)| by_thread).filter(|(of, _)| *of == thread).map(|(_, n)| n).sum()
    }

    /// Adds to a counter's total on a path through marked regions.
    pub fn add_marked(&mut self, slot: u32, path: u32, more: u64) {
        self.marked.slots.add(slot, path, more);
    }
}

impl CodeCache {
    /// Adds a context's counters to the totals, as those of `thread`.
    pub fn take_counters(&mut self, contexts: &Contexts, context: u32, thread: u32) {
        let totals = &mut self.counters.totals;
        let mut deltas = self.has_sink.then_some(&mut self.counters.deltas);
        let each = |slot, value| {
            totals.slots.add(slot, thread, value);
            if let Some(deltas) = &mut deltas {
                deltas.end(slot, value);
            }
        };
        // Our own memfd can always be read.
        let _ = contexts.counters(context, self.counters.slots, each);
    }

    /// Reports the executions of each probed instruction to the access sink.
    fn tell_executions(&self, totals: &Totals, drain: &mut AccessBuffer) {
        // Blocks of which only the beginning was executed, by their counters.
        let mut parts: AddressMap<u32, Vec<(u16, u32, u64)>> = AddressMap::default();
        for ((id, bytes), executions) in &totals.parts {
            let of_block = parts.entry(self.blocks[*id as usize].slot).or_default();
            of_block.extend(executions.iter().map(|&(thread, times)| (*bytes, thread, times)));
        }
        for probe in &self.counters.probe_sites {
            let (blocks, sums) = (totals.slots.of(probe.slot), probe.sum.map_or(&[][..], |slot| totals.slots.of(slot)));
            for &Total { thread, value, .. } in blocks {
                let sum = sums.iter().find(|t| t.thread == thread).map_or(0, |t| t.value);
                drain.executed(probe, thread, (value as i64).wrapping_div(probe.scale) as u64, sum);
            }
            // A `rep` that was interrupted went on in another block: this one was not executed to its end.
            for sum in sums.iter().filter(|sum| blocks.iter().all(|b| b.thread != sum.thread)) {
                drain.executed(probe, sum.thread, 0, sum.value);
            }
            for &(bytes, thread, times) in parts.get(&probe.slot).into_iter().flatten() {
                if probe.offset < bytes && probe.sum.is_none() {
                    drain.executed(probe, thread, times, 0);
                }
            }
        }
    }

    /// Adds the executions that fell through from the blocks before.
    fn total_flows(&self, slots: &mut SlotTotals) {
        let mut flows: AddressMap<u32, Vec<(u32, u64)>> = AddressMap::default();
        for block in self.blocks.iter() {
            let Some(Flow { from, left, .. }) = block.flow else { continue };
            let from = self.block(from).slot;
            let mut executions = flows.get(&from).cloned().unwrap_or_default();
            slots.of(from).iter().for_each(|t| add(&mut executions, t.thread, t.value));
            let left = left.map_or(&[][..], |slot| slots.of(slot));
            left.iter().for_each(|t| add(&mut executions, t.thread, t.value.wrapping_neg()));
            flows.insert(block.slot, executions);
        }
        for (slot, executions) in flows {
            executions.into_iter().for_each(|(thread, n)| slots.add(slot, thread, n));
        }
        slots.sort();
    }

    /// Hands all counts to the tally, and to the access sink if there is one.
    pub fn finish(&mut self, tally: &mut Tally, drain: &mut Option<AccessBuffer>) {
        let mut totals = std::mem::take(&mut self.counters.totals);
        totals.slots.sort();
        self.total_flows(&mut totals.slots);
        self.hand_over(&totals, |at, code, thread, n, sums| tally.add(at, code, thread, n, sums));
        self.hand_over_calls(&totals, tally);
        if let Some(drain) = drain {
            self.tell_executions(&totals, drain);
        }
        let mut marked = std::mem::take(&mut self.counters.marked);
        marked.slots.sort();
        self.total_flows(&mut marked.slots);
        self.hand_over(&marked, |at, code, path, n, sums| tally.add_marked(at, code, path, n, sums));
    }

    /// Hands over the counts of system calls by number, for calls with a number known only at run time.
    fn hand_over_calls(&self, totals: &Totals, tally: &mut Tally) {
        for &(id, first) in &self.counters.numbered_calls {
            let at = self.blocks[id as usize].at;
            for number in 0..layout::CALL_NUMBERS {
                let count: u64 = totals.slots.of(first + number).iter().map(|t| t.value).sum();
                if count > 0 {
                    tally.add_calls(at, self.block_code(id), number, count);
                }
            }
        }
    }

    /// Calls `add` with (place, bytes, thread, executions, run-time sums) for all blocks and parts of blocks.
    fn hand_over(&self, totals: &Totals, mut add: impl FnMut(CodeRef, &[u8], u32, u64, &[(u32, u64)])) {
        for id in 0..self.blocks.len() as BlockId {
            let block = &self.blocks[id as usize];
            for &Total { thread, value, .. } in totals.slots.of(block.slot) {
                let executions = (value as i64).wrapping_div(block.scale()) as u64;
                add(block.at, self.block_code(id), thread, executions, &[]);
            }
        }
        for dynamic in &self.counters.dynamic {
            let block = &self.blocks[dynamic.block as usize];
            // The totals leave out counters of 0: an instruction that ran with no lane active still states its sum.
            let ran = totals.slots.of(block.slot).iter().map(|t| (t.thread, 0));
            for (thread, sum) in ran.chain(totals.slots.of(dynamic.slot).iter().map(|t| (t.thread, t.value))) {
                add(block.at, self.block_code(dynamic.block), thread, 0, &[(dynamic.offset, sum)]);
            }
        }
        for ((id, bytes), executions) in &totals.parts {
            let block = &self.blocks[*id as usize];
            let code = &self.block_code(*id)[..usize::from(*bytes)];
            // Their run-time sums are in those of the whole block: 0 more.
            let inside = |d: &&DynamicSlot| d.block == *id && d.offset < u32::from(*bytes);
            let sums: Vec<(u32, u64)> = self.counters.dynamic.iter().filter(inside).map(|d| (d.offset, 0)).collect();
            for &(thread, executions) in executions {
                add(block.at, code, thread, executions, &sums);
            }
        }
    }
}
