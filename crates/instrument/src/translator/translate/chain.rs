//! Translates superblocks: chains of blocks that fall through into one another.
//!
//! ```text
//!  hot:   block ─▶ block ─▶ block … jmp        cold:  stubs of exits, constants, system calls' slow paths
//!           └ jcc ────────────────────────────────▶ stub (until its target is translated)
//! ```

use crate::translator::code_cache::arena::Part;
use crate::translator::code_cache::block::{Block, BlockId, CompareImmediate, Flow};
use crate::translator::code_cache::cache::{CodeCache, page_of};
use crate::translator::code_cache::layout;
use crate::translator::code_cache::version::Version;
use crate::translator::translate::block_emitter::{Writer, Written};
use crate::translator::translate::edge_counters::{ExitCounter, runs_on};
use crate::translator::translate::plan::{Behind, BlockPlan, Exits};
use crate::translator::translate::superblock::{Handed, Superblock, TranslateError};
use crate::translator::translate::text_reader::Source;
use crate::x86_64::decode::{Decoded, Terminator};
use crate::x86_64::emit::{Code, RCX, relative};
use crate::x86_64::liveness::Dead;
use crate::x86_64::operands::is_dynamic;
use rprof_profile::code::CodeRef;
use rprof_tracee::address::{Address, CacheAddress};

impl CodeCache {
    /// Translates the block at `start` in `version`, and those that it falls through into, at most `most` in all. Returns its
    /// entry; adds the targets of their exits to `exits`.
    pub fn translate(
        &mut self,
        source: &mut Source<'_>,
        version: Version,
        start: Address,
        most: usize,
        exits: &mut Exits,
    ) -> Result<CacheAddress, TranslateError> {
        let written = self.unit(source, version, start, most, exits);
        match self.find(version, start) {
            Some(id) => Ok(self.block(id).way_in()),
            None => Err(written.err().unwrap_or(TranslateError::NoText(start))),
        }
    }

    /// An empty superblock that starts at `start`.
    pub(crate) fn begin_unit(&mut self, version: Version, start: Address) -> Result<Superblock, TranslateError> {
        let arena = self.choose_arena(start).ok_or(TranslateError::Full)?;
        self.prepare_lookups(version);
        let mut hot = Code::new(self.arenas[arena].next(Part::Hot));
        hot.align(16);
        let cold = Code::new(self.arenas[arena].next(Part::Cold));
        Ok(Superblock::new(arena, version, hot, cold))
    }

    /// Ends the chain in an exit to `to`.
    pub(crate) fn end_unit(&mut self, unit: &mut Superblock, to: Address) {
        if std::mem::take(&mut unit.handed.rcx_spilled) {
            unit.hot.load(RCX, layout::SAVE_RCX);
        }
        let patch = unit.hot.jump(unit.hot.here());
        unit.sites.push(self.new_site(patch, unit.version, to));
    }

    fn unit(
        &mut self,
        source: &mut Source<'_>,
        version: Version,
        start: Address,
        most: usize,
        exits: &mut Exits,
    ) -> Result<(), TranslateError> {
        let mut unit = self.begin_unit(version, start)?;
        let mut at = Some(start);
        let mut result = Ok(());
        while let Some(address) = at {
            // A block that is called has an entry of its own before it.
            let runs_in = unit.blocks.is_empty() || !self.lookups.callees.contains(&version.place(address));
            let more = self.find(version, address).is_none() && unit.blocks.len() < most && result.is_ok() && runs_in;
            let block = if more { source.block(address) } else { None };
            let Some(block) = block else {
                if unit.blocks.is_empty() {
                    return result.and(Err(TranslateError::NoText(start)));
                }
                self.end_unit(&mut unit, address);
                exits.others.push_back(address);
                break;
            };
            match self.block_into(&mut unit, source, &block, BlockPlan::default(), exits) {
                Ok(behind) => at = behind.next,
                Err(error) => {
                    // The partly written block is unreachable: the chain ends in an exit that asks for it.
                    result = Err(error);
                }
            }
        }
        self.close(unit);
        result
    }

    /// Writes one block.
    pub(crate) fn block_into(
        &mut self,
        unit: &mut Superblock,
        source: &mut Source<'_>,
        block: &Decoded,
        mut plan: BlockPlan,
        exits: &mut Exits,
    ) -> Result<Behind, TranslateError> {
        let at = source.code_ref(block.start).ok_or(TranslateError::NoText(block.start))?;
        let slot = self.new_slot().ok_or(TranslateError::Full)?;
        let probes = unit.version.collects() || block.steps.iter().any(|s| is_dynamic(&s.instruction));
        let dead_flags = if probes { source.dead_flags(block) } else { Vec::new() };
        let entries = self.write_entries(unit, block.start);
        // The text may have changed since the plan.
        plan.next_flows &= runs_on(block, plan.usual.map(|u| u.at));
        let leave = self.leave(&plan, source, block)?;
        let Handed { flow, rcx_spilled } = std::mem::take(&mut unit.handed);
        let lands_without_flags = self.spares_taken_branches(unit.places)
            && matches!(block.end, Terminator::Call(_) | Terminator::CallIndirect)
            && source.dead_at(block.next()) == Dead::All;
        let returns_to = unit.copy.as_ref().map(|copy| copy.next);
        let mut writer = Writer::new(self, unit, block, at, slot, dead_flags);
        (writer.plan, writer.flows, writer.leave) = (plan, flow.is_some(), leave);
        (writer.lands_without_flags, writer.rcx_spilled) = (lands_without_flags, rcx_spilled);
        let counts_in_line = !writer.flows && !writer.choose_loop_counter();
        let position = if counts_in_line { source.counter_position(block, returns_to) } else { None };
        let next = writer.write(position)?;
        let written = writer.finish();
        let counted_aside = flow.map(|_| (slot, source.dead_at(block.start)));
        let has_side = rcx_spilled || flow.is_some();
        let side = has_side.then(|| self.write_side(unit, counted_aside, rcx_spilled, written.entry));
        let flow = flow.map(|(from, left)| Flow { from, left });
        if plan.next_flows || plan.copies_callee {
            unit.handed.flow = Some((self.blocks.len() as BlockId, leave.map(|l| l.slot)));
        }
        match block.end {
            Terminator::Branch(_, to) | Terminator::ShortBranch(to) | Terminator::Transaction(to)
                if to != block.start =>
            {
                exits.others.push_back(to);
            }
            Terminator::Call(to) => {
                self.lookups.callees.insert(unit.version.place(to));
                exits.calls.push_back(to);
            }
            _ => {}
        }
        let behind = Behind { next, landing_aside: written.landing_aside };
        self.enter(unit, block, at, (slot, flow, side), entries, written);
        Ok(behind)
    }

    /// The counter for the exits of `block` from the superblock, if they have to be counted.
    fn leave(
        &mut self,
        plan: &BlockPlan,
        source: &mut Source<'_>,
        block: &Decoded,
    ) -> Result<Option<ExitCounter>, TranslateError> {
        let copies_usual = plan.copies_callee && block.end == Terminator::CallIndirect;
        if !plan.next_flows && !copies_usual {
            return Ok(None);
        }
        let dead = match block.end {
            Terminator::Branch(_, to) => source.dead_at(if plan.next == Some(to) { block.next() } else { to }),
            Terminator::JumpIndirect | Terminator::CallIndirect => Dead::None,
            _ => return Ok(None),
        };
        let slot = self.new_slot().ok_or(TranslateError::Full)?;
        Ok(Some(ExitCounter { slot, dead }))
    }

    pub(crate) fn enter(
        &mut self,
        unit: &mut Superblock,
        block: &Decoded,
        at: CodeRef,
        (slot, flow, side): (u32, Option<Flow>, Option<CacheAddress>),
        (called, head): (Option<CacheAddress>, Option<CompareImmediate>),
        written: Written,
    ) {
        let id = self.blocks.len() as BlockId;
        let code = self.code_pool.len() as u32;
        self.code_pool.extend(&block.code);
        let first = self.points.len() as u32;
        self.points.extend(written.points);
        let end = unit.hot.here();
        self.blocks.push(Block {
            start: block.start,
            version: unit.version,
            at,
            code: code..self.code_pool.len() as u32,
            entry: written.entry,
            side,
            called,
            head,
            end,
            slot,
            flow,
            counted_at: written.counted_at.unwrap_or((end - written.entry) as u32),
            points: first..self.points.len() as u32,
            loop_counter: written.loop_counter,
            loop_probes: written.loop_probes,
            induction: written.induction,
            landing: written.landing,
            incoming: Vec::new(),
            chained: written.runs_in.or(unit.last()),
            placed: unit.places,
            copied: unit.copy.is_some(),
            alive: true,
        });
        if block.end == Terminator::Far {
            self.far.insert(id);
        }
        if written.landing.is_some() {
            self.lookups.callers.insert(unit.version.place(block.next()), id);
        }
        if let Some(copy) = &mut unit.copy {
            copy.enter(block.start, side.unwrap_or(written.entry));
        } else if let Some(old) = self.by_start.insert(unit.version.place(block.start), id) {
            unit.superseded.push((old, id));
        }
        self.by_page.entry(page_of(block.start)).or_default().push(id);
        self.by_entry[unit.arena].push(id);
        unit.blocks.push(id);
    }

    /// Resolves the superblock's exits, appends its code to the arena, and links waiting exits to it.
    pub(crate) fn close(&mut self, mut unit: Superblock) {
        for site in std::mem::take(&mut unit.sites) {
            let (target, patch) = (self.sites[site as usize].target, self.sites[site as usize].patch);
            let value = match self.find(unit.version, target) {
                Some(id) => {
                    let entry = self.entry_for(site, id, &mut unit.cold);
                    self.note_link(site, id);
                    unit.cold.reach(patch, entry)
                }
                None => {
                    let stub = self.write_stub(&mut unit.cold, unit.arena, site);
                    relative(patch, stub)
                }
            };
            unit.set_word(patch, value);
        }
        let links = self.chain_heads(&mut unit);
        self.arenas[unit.arena].append(Part::Cold, unit.cold.bytes());
        self.arenas[unit.arena].append(Part::Hot, unit.hot.bytes());
        self.follow_links(&links);
        for (old, id) in unit.superseded {
            self.supersede(old, id);
        }
        for id in unit.blocks {
            self.link_waiting(id);
        }
    }
}
