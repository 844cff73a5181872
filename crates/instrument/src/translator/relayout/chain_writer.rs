//! Writes chains of hot blocks.

use crate::translator::code_cache::block::BlockId;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::hash::AddressMap;
use crate::translator::code_cache::version::Version;
use crate::translator::relayout::inline_analysis::{Leaf, leaf};
use crate::translator::relayout::pettis_hansen::{HotBlock, Placed};
use crate::translator::relayout::rcx_elision;
use crate::translator::translate::inlined_body::InlinedBody;
use crate::translator::translate::plan::{BlockPlan, Exits, InlineCache};
use crate::translator::translate::superblock::Superblock;
use crate::translator::translate::text_reader::Source;
use crate::x86_64::decode::{Decoded, Terminator};
use rprof_tracee::address::Address;

/// Once a chain has this many bytes, rprof inlines no more leaves into it: an arena has room for any chain without inlined
/// bodies.
const COPIES: usize = 256 << 10;
/// Writes one chain of hot blocks, with the code inlined into it.
pub(crate) struct ChainWriter<'a, 's> {
    pub(crate) cache: &'a mut CodeCache,
    pub(crate) source: &'a mut Source<'s>,
    /// The hot blocks of the plan, by address.
    hot_blocks: &'a AddressMap<u64, HotBlock>,
    /// Largest number of hot bytes of a leaf that is inlined.
    leaf_bytes: usize,
    /// Inlined bodies that are not complete yet, with their chains that are still to be written.
    pub(crate) bodies: Vec<(InlinedBody, Vec<Vec<Placed>>)>,
    /// Exits of the written code; nothing is translated ahead for them.
    exits: Exits,
}

impl<'a, 's> ChainWriter<'a, 's> {
    /// Writes to `cache`; of the callees among `hot_blocks` it inlines leaves of at most `leaf_bytes`.
    pub(crate) fn new(
        cache: &'a mut CodeCache,
        source: &'a mut Source<'s>,
        hot_blocks: &'a AddressMap<u64, HotBlock>,
        leaf_bytes: usize,
    ) -> Self {
        ChainWriter { cache, source, hot_blocks, leaf_bytes, bodies: Vec::new(), exits: Exits::default() }
    }

    /// Writes a chain in relayout number `round`; blocks that cannot be written keep their old copy.
    pub(crate) fn place(mut self, chain: &[Placed], round: u32) {
        let Some(&Placed { at: start, .. }) = chain.first() else { return };
        let Ok(mut unit) = self.cache.begin_unit(Version::Plain, start) else { return };
        unit.places = round;
        if let Some(to) = self.write_chain(&mut unit, chain, None) {
            self.cache.end_unit(&mut unit, to);
        }
        self.finish_copies(&mut unit);
        self.cache.close(unit);
    }

    /// Writes a chain of hot blocks, up to the first that cannot be written; returns the address that it runs into. `runs_in` leads
    /// to its first block, if that is not the block before it in the cache.
    pub(crate) fn write_chain(
        &mut self,
        unit: &mut Superblock,
        chain: &[Placed],
        runs_in: Option<BlockId>,
    ) -> Option<Address> {
        let mut next = chain.first().map(|p| p.at);
        for (i, &Placed { at, .. }) in chain.iter().enumerate() {
            // Text that changed meanwhile is no longer relaid out.
            let block = self.cache.find(unit.version, at).and_then(|_| self.source.block(at));
            let (Some(block), true) = (block, next == Some(at)) else { break };
            let leaf = self.leaf_behind(unit, &block);
            let plan = BlockPlan {
                runs_in: runs_in.filter(|_| i == 0),
                ..self.plan(unit, &block, &chain[i..], leaf.is_some())
            };
            let behind = match self.cache.block_into(unit, self.source, &block, plan, &mut self.exits) {
                Ok(behind) => behind,
                Err(_) => break,
            };
            next = behind.next;
            if let Some(leaf) = leaf {
                self.copy_leaf(unit, leaf, behind.landing_aside);
            }
        }
        next
    }

    /// The plan for `block`, with which `chain` begins.
    fn plan(&mut self, unit: &mut Superblock, block: &Decoded, chain: &[Placed], copies_callee: bool) -> BlockPlan {
        let Some((first, rest)) = chain.split_first() else { return BlockPlan::default() };
        let spills_rcx = first.next_is_alone && !copies_callee && unit.copy.is_none() && rcx_elision::may_leave(block);
        let usual = self.cache.usual.target(first.at);
        BlockPlan {
            next: rest.first().map(|p| p.at),
            next_flows: first.next_flows,
            spill_rcx: spills_rcx && rcx_elision::pays(self.source, &mut unit.factory, rest),
            usual: usual.map(|at| InlineCache { at, dead: self.source.dead_at(at) }),
            copies_callee,
            runs_in: None,
        }
    }

    /// The callee to inline at the call that ends `block`, if any: (the call, its callee). If code is kept short, indirect
    /// calls are not compared with their usual target and are not inlined; direct calls are (on cc1 that makes no difference
    /// beyond the noise).
    fn leaf_behind(&mut self, unit: &mut Superblock, block: &Decoded) -> Option<(Address, Leaf)> {
        let to = match block.end {
            Terminator::Call(to) => to,
            Terminator::CallIndirect => {
                self.cache.usual.target(block.start).filter(|_| !self.cache.is_to_be_short())?
            }
            _ => return None,
        };
        let call = block.start + u64::from(block.steps.last()?.offset);
        let (hot, next) = ((self.hot_blocks, &self.cache.usual), block.next());
        let has_room = unit.hot.len() + unit.cold.len() < COPIES;
        (to != next && has_room).then_some(())?;
        Some((call, leaf(self.source, &mut unit.factory, hot, (to, next), self.leaf_bytes)?))
    }
}
