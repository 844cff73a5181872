//! Translates: a chain of blocks that run into one another, then those that their exits lead to.
//!
//! ```text
//!  hot:   block ─▶ block ─▶ block … jmp        cold:  stubs of exits, constants, system calls' slow paths
//!           └ jcc ────────────────────────────────▶ stub (until its target is translated)
//! ```

use std::collections::VecDeque;

use iced_x86::{InstructionInfoFactory, Register};

use super::arena::Part;
use super::block::{Block, BlockId, CallSite, Moved, Point, SiteId};
use super::layout;
use super::source::Source;
use super::space::CodeSpace;
use crate::instrument::x86_64::decode::{Decoded, End, condition};
use crate::instrument::x86_64::emit::{Code, Gpr, RAX, RCX, RDX, relative};
use crate::instrument::x86_64::induction::{Induction, induction};
use crate::instrument::x86_64::rewrite::{self, NoRule, Slots, free_gpr, used_gprs};
use crate::profile::code::CodeRef;
use crate::target::address::{Address, CacheAddress};

const SLOTS: Slots = Slots { lent: layout::SAVE_LENT, program_gs: layout::PROGRAM_GS };
/// Blocks in one chain.
const CHAIN: usize = 64;

/// Why nothing was translated.
#[derive(Debug, thiserror::Error)]
pub enum TranslateError {
    /// There is no text at that address.
    #[error("no text at {0}")]
    NoText(Address),
    /// The arenas are full.
    #[error("the code cache is full")]
    Full,
    /// An instruction cannot be translated.
    #[error(transparent)]
    NoRule(#[from] NoRule),
}

/// A chain being written.
pub(super) struct Unit {
    pub(super) arena: usize,
    pub(super) hot: Code,
    pub(super) cold: Code,
    sites: Vec<SiteId>,
    blocks: Vec<BlockId>,
    returns: Vec<Address>,
    pub(super) factory: InstructionInfoFactory,
}

impl CodeSpace {
    /// Translates the block at `start`, and up to `ahead` more that its exits lead to. Returns its entry.
    pub fn translate(
        &mut self,
        source: &mut Source<'_>,
        start: Address,
        ahead: usize,
    ) -> Result<CacheAddress, TranslateError> {
        let mut queue = VecDeque::from([start]);
        let mut left = ahead + 1;
        while let Some(at) = queue.pop_front() {
            if left == 0 {
                break;
            }
            if self.find(at).is_some() {
                continue;
            }
            match self.unit(source, at, &mut left, &mut queue) {
                Err(error) if at == start => return Err(error),
                _ => {}
            }
        }
        self.find(start).map(|id| self.block(id).entry).ok_or(TranslateError::NoText(start))
    }

    fn unit(
        &mut self,
        source: &mut Source<'_>,
        start: Address,
        left: &mut usize,
        queue: &mut VecDeque<Address>,
    ) -> Result<(), TranslateError> {
        let arena = self.choose_arena(start).ok_or(TranslateError::Full)?;
        let mut hot = Code::new(self.arenas[arena].next(Part::Hot));
        hot.align(16);
        let cold = Code::new(self.arenas[arena].next(Part::Cold));
        let mut unit = Unit {
            arena,
            hot,
            cold,
            sites: vec![],
            blocks: vec![],
            returns: vec![],
            factory: InstructionInfoFactory::new(),
        };
        let mut at = Some(start);
        let mut result = Ok(());
        while let Some(address) = at {
            let more = self.find(address).is_none() && *left > 0 && unit.blocks.len() < CHAIN && result.is_ok();
            let block = if more { source.block(address).cloned() } else { None };
            let Some(block) = block else {
                if unit.blocks.is_empty() {
                    return result.and(Err(TranslateError::NoText(start)));
                }
                let patch = unit.hot.jump(unit.hot.here());
                unit.sites.push(self.new_site(patch, address));
                queue.push_back(address);
                break;
            };
            *left = left.saturating_sub(1);
            match self.block_into(&mut unit, source, &block, queue) {
                Ok(next) => at = next,
                Err(error) => {
                    // What was written of it is never reached: the chain ends in an exit that asks for it.
                    result = Err(error);
                }
            }
        }
        self.close(unit);
        result
    }

    /// Writes one block; returns the address that it runs into.
    fn block_into(
        &mut self,
        unit: &mut Unit,
        source: &mut Source<'_>,
        block: &Decoded,
        queue: &mut VecDeque<Address>,
    ) -> Result<Option<Address>, TranslateError> {
        let at = source.code_ref(block.start).ok_or(TranslateError::NoText(block.start))?;
        let slot = self.new_slot().ok_or(TranslateError::Full)?;
        let entry = unit.hot.here();
        let mut writer = Writer {
            space: self,
            unit,
            block,
            entry,
            slot,
            points: Vec::with_capacity(block.steps.len() + 2),
            counted_at: None,
            loop_counter: None,
            loop_probes: None,
            induction: None,
            at,
            dead_flags: Vec::new(),
        };
        if writer.space.probes_accesses {
            writer.dead_flags = source.dead_flags(block);
        }
        let loops = matches!(block.end, End::Branch(_, to) if to == block.start);
        if loops {
            writer.induction = writer.find_induction();
            if writer.induction.is_none() {
                writer.loop_counter = writer.free_register(0);
                writer.loop_probes = writer.free_pair();
            }
        }
        let position = if writer.loop_counter.is_some() || writer.induction.is_some() {
            None
        } else {
            source.counter_position(block)
        };
        let next = writer.write(position)?;
        let (points, counted_at, loop_counter) = (writer.points, writer.counted_at, writer.loop_counter);
        let (loop_probes, induction) = (writer.loop_probes, writer.induction);
        match block.end {
            End::Branch(_, to) | End::ShortBranch(to) | End::Transaction(to) if to != block.start => {
                queue.push_back(to);
            }
            End::Call(_) | End::CallIndirect => {
                self.returns.insert(block.next().get());
                unit.returns.push(block.next());
                queue.push_back(block.next());
            }
            _ => {}
        }
        self.enter(unit, block, at, slot, entry, points, counted_at, loop_counter, loop_probes, induction);
        Ok(next)
    }

    #[allow(clippy::too_many_arguments)]
    fn enter(
        &mut self,
        unit: &mut Unit,
        block: &Decoded,
        at: CodeRef,
        slot: u32,
        entry: CacheAddress,
        points: Vec<Point>,
        counted_at: Option<u32>,
        loop_counter: Option<Gpr>,
        loop_probes: Option<(Gpr, Gpr)>,
        induction: Option<Induction>,
    ) {
        let id = self.blocks.len() as BlockId;
        let code = self.code_pool.len() as u32;
        self.code_pool.extend(&block.code);
        let first = self.points.len() as u32;
        self.points.extend(points);
        let end = unit.hot.here();
        self.blocks.push(Block {
            start: block.start,
            at,
            code: code..self.code_pool.len() as u32,
            entry,
            end,
            slot,
            counted_at: counted_at.unwrap_or((end - entry) as u32),
            points: first..self.points.len() as u32,
            loop_counter,
            loop_probes,
            induction,
            incoming: Vec::new(),
            chained: unit.blocks.last().copied(),
            alive: true,
        });
        if block.end == End::Far {
            self.far.insert(id);
        }
        self.by_start.insert(block.start.get(), id);
        self.by_entry[unit.arena].push(id);
        unit.blocks.push(id);
    }

    /// Resolves the unit's exits, hands its code over, and leads waiting exits to it.
    fn close(&mut self, mut unit: Unit) {
        for site in std::mem::take(&mut unit.sites) {
            let (target, patch) = (self.sites[site as usize].target, self.sites[site as usize].patch);
            let value = match self.find(target) {
                Some(id) => {
                    let entry = self.blocks[id as usize].entry;
                    self.sites[site as usize].linked = Some(id);
                    self.blocks[id as usize].incoming.push(site);
                    self.reach(&mut unit.cold, site, entry)
                }
                None => {
                    let stub = self.write_stub(&mut unit.cold, unit.arena, site);
                    relative(patch, stub)
                }
            };
            unit.hot.set_word(patch, value);
        }
        self.arenas[unit.arena].append(Part::Cold, unit.cold.bytes());
        self.arenas[unit.arena].append(Part::Hot, unit.hot.bytes());
        for at in unit.returns {
            self.publish(at);
        }
        for id in unit.blocks {
            self.link_waiting(id);
            let start = self.blocks[id as usize].start;
            if self.returns.contains(&start.get()) {
                self.publish(start);
            }
        }
    }
}

/// Writes one block.
pub(super) struct Writer<'a> {
    pub(super) space: &'a mut CodeSpace,
    pub(super) unit: &'a mut Unit,
    pub(super) block: &'a Decoded,
    entry: CacheAddress,
    pub(super) slot: u32,
    points: Vec<Point>,
    counted_at: Option<u32>,
    pub(super) loop_counter: Option<Gpr>,
    pub(super) loop_probes: Option<(Gpr, Gpr)>,
    pub(super) induction: Option<Induction>,
    pub(super) at: CodeRef,
    /// By step: the flags are not needed any more.
    pub(super) dead_flags: Vec<bool>,
}

impl Writer<'_> {
    /// A register that the block does not use.
    fn free_register(&mut self, but: u16) -> Option<Gpr> {
        let used = self.block.steps.iter().fold(0, |u, s| u | used_gprs(&mut self.unit.factory, &s.instruction));
        free_gpr(used | but | 1 << 4)
    }

    /// Two more for the probes of a loop; not RAX, which they may need for the flags.
    fn free_pair(&mut self) -> Option<(Gpr, Gpr)> {
        let counter = self.loop_counter.filter(|_| self.space.probes_accesses)?;
        let but = 1 << counter.0 | 1;
        let t = self.free_register(but)?;
        Some((t, self.free_register(but | 1 << t.0)?))
    }

    /// The induction register of a loop of vector instructions, in which one more instruction would cost time. Short
    /// loops of other code are better off with a counter: less is done at their exits.
    fn find_induction(&mut self) -> Option<Induction> {
        if self.space.probes_accesses || self.block.steps.iter().any(|s| super::probes::is_dynamic(&s.instruction)) {
            return None;
        }
        let vector = |i: &iced_x86::Instruction| (0..i.op_count()).any(|o| i.op_register(o).is_vector_register());
        let numerical = self.block.steps.iter().any(|s| vector(&s.instruction));
        if numerical { induction(&self.block.steps, &mut self.unit.factory) } else { None }
    }

    /// What stands elsewhere while the block is executed.
    pub(super) fn plain(&self) -> Moved {
        if self.loop_counter.is_some() || self.induction.is_some() { Moved::Loop } else { Moved::Nothing }
    }

    /// The number that the block will have.
    pub(super) fn block_id(&self) -> BlockId {
        self.space.blocks.len() as BlockId
    }

    fn offset(&self) -> u32 {
        (self.unit.hot.here() - self.entry) as u32
    }

    pub(super) fn point(&mut self, program: u16, moved: Moved) {
        let cache = self.offset();
        self.points.push(Point { cache, program, moved });
    }

    fn exit(&mut self, patch: CacheAddress, target: Address) {
        let site = self.space.new_site(patch, target);
        self.unit.sites.push(site);
    }

    /// The whole block, counted before step `position` (`None`: where it costs least without touching flags).
    fn write(&mut self, position: Option<usize>) -> Result<Option<Address>, NoRule> {
        let loop_start = self.loop_entry();
        let at_end = matches!(self.block.end, End::Return(_) | End::JumpIndirect | End::CallIndirect | End::System);
        let in_loop = self.loop_counter.is_some() || self.induction.is_some();
        if position.is_none() && !in_loop && !at_end {
            self.point(0, Moved::Nothing);
            self.count_flag_free();
        }
        let transfers = self.block.end != End::Next;
        let last = self.block.steps.len() - usize::from(transfers);
        for i in 0..self.block.steps.len() {
            let step = self.block.steps[i];
            let plain = self.plain();
            self.point(step.offset, plain);
            if position == Some(i) {
                self.unit.hot.increment(layout::counter(self.slot));
                self.counted_at = Some(self.offset());
                self.point(step.offset, plain);
            }
            let iterations = self.probe(i);
            if i < last {
                self.step(i)?;
            }
            if self.induction.is_some_and(|n| n.at == i) {
                self.counted_at = Some(self.offset());
            }
            if let Some(slot) = iterations {
                self.add_iterations(slot);
            }
        }
        let counted = position.is_some() || in_loop || !at_end;
        self.end(loop_start, counted)
    }

    /// One instruction that is not a transfer of control.
    fn step(&mut self, i: usize) -> Result<(), NoRule> {
        let step = self.block.steps[i];
        let from = usize::from(step.offset);
        let bytes = &self.block.code[from..from + step.instruction.len()];
        let written = rewrite::copy(&mut self.unit.hot, &step, bytes, SLOTS)?;
        if let Some(lent) = written.lent {
            let moved = if self.plain() == Moved::Loop { Moved::LoopAndLent(lent) } else { Moved::Lent(lent) };
            let cache = (written.at - self.entry) as u32;
            self.points.push(Point { cache, program: step.offset, moved });
        }
        Ok(())
    }

    /// `mov gs:[saved], r; mov r, gs:[counter]`, then the loop: `lea r, [r + 1]`.
    fn loop_entry(&mut self) -> CacheAddress {
        if let Some(induction) = self.induction {
            self.point(0, Moved::Nothing);
            self.unit.hot.save(layout::LOOP_BASE, induction.register);
            self.align_loop();
            return self.unit.hot.here();
        }
        let Some(register) = self.loop_counter else { return self.entry };
        self.point(0, Moved::Nothing);
        self.unit.hot.save(layout::SAVE_LOOP + 8 * u32::from(register.0), register);
        for register in self.lent_to_loop() {
            self.unit.hot.save(layout::SAVE_LOOP + 8 * u32::from(register.0), register);
        }
        self.unit.hot.load(register, layout::counter(self.slot));
        self.align_loop();
        let start = self.unit.hot.here();
        self.point(0, Moved::Loop);
        self.unit.hot.add_small(register, 1);
        self.counted_at = Some(self.offset());
        start
    }

    /// A loop that fits into a cache line is not to cross one.
    fn align_loop(&mut self) {
        const LINE: u64 = 64;
        // The short jump becomes a long one, and a counter may be added.
        let size = self.block.code.len() as u64 + 8;
        if self.unit.hot.here().get() % LINE + size > LINE {
            self.unit.hot.align(LINE);
        }
    }

    /// Counts with a lent register: no flag changes.
    fn count_flag_free(&mut self) {
        let (hot, counter) = (&mut self.unit.hot, layout::counter(self.slot));
        hot.save(layout::SAVE_LENT, RCX);
        hot.load(RCX, counter);
        hot.add_small(RCX, 1);
        hot.save(counter, RCX);
        self.counted_at = Some((hot.here() - self.entry) as u32);
        hot.load(RCX, layout::SAVE_LENT);
    }

    /// Counts with RCX, which is saved or dead here.
    fn count_with_rcx(&mut self) {
        let (hot, counter) = (&mut self.unit.hot, layout::counter(self.slot));
        hot.load(RCX, counter);
        hot.add_small(RCX, 1);
        hot.save(counter, RCX);
        self.counted_at = Some((hot.here() - self.entry) as u32);
    }

    /// The transfer of control; returns the address that the chain goes on with.
    fn end(&mut self, loop_start: CacheAddress, counted: bool) -> Result<Option<Address>, NoRule> {
        let next = self.block.next();
        match self.block.end {
            End::Next => Ok(Some(next)),
            End::Jump(to) => Ok(Some(to)),
            End::Branch(code, _) if self.loop_counter.is_some() || self.induction.is_some() => {
                self.loop_end(condition(code), loop_start);
                Ok(Some(next))
            }
            End::Branch(code, to) => {
                let patch = self.unit.hot.jump_if(condition(code), self.unit.hot.here());
                self.exit(patch, to);
                Ok(Some(next))
            }
            End::ShortBranch(to) => {
                self.short_branch(to);
                Ok(Some(next))
            }
            End::Call(to) => {
                self.push_return_address();
                Ok(Some(to))
            }
            End::Return(drop) => {
                self.unit.hot.save(layout::SAVE_RDX, RDX);
                self.point(self.last_offset(), Moved::Nothing);
                self.unit.hot.pop(RDX);
                if drop > 0 {
                    self.unit.hot.drop_stack(drop);
                }
                self.look_up(counted);
                Ok(None)
            }
            End::JumpIndirect | End::CallIndirect => {
                self.indirect(counted)?;
                Ok(None)
            }
            End::System => {
                self.system(counted);
                Ok(Some(next))
            }
            End::Transaction(to) => {
                // As if it had aborted at once, with no reason given.
                self.unit.hot.constant(RAX, 0);
                let patch = self.unit.hot.jump(self.unit.hot.here());
                self.exit(patch, to);
                Ok(None)
            }
            End::Trap => {
                let from = usize::from(self.last_offset());
                let code = self.block.code[from..].to_vec();
                self.unit.hot.raw(&code);
                self.point(self.block.code.len() as u16, Moved::Nothing);
                let invalid = self.block.steps.last().is_none_or(|s| s.instruction.is_invalid());
                self.unit.hot.raw(if invalid { &[0x0f, 0x0b] } else { &[0x90] }); // ud2, nop
                Ok((!invalid).then_some(next))
            }
            End::Far => {
                self.unit.hot.raw(&[0xcc]); // int3: rprof says that it cannot follow
                Ok(None)
            }
        }
    }

    fn last_offset(&self) -> u16 {
        self.block.steps.last().map_or(0, |s| s.offset)
    }

    /// `jcc loop; mov gs:[counter], r; mov r, gs:[saved]`
    fn loop_end(&mut self, condition: u8, start: CacheAddress) {
        self.unit.hot.jump_if(condition, start);
        if let Some(induction) = self.induction {
            self.add_way(induction.register);
            return;
        }
        let Some(register) = self.loop_counter else { return };
        let (hot, counter) = (&mut self.unit.hot, layout::counter(self.slot));
        hot.save(counter, register);
        hot.load(register, layout::SAVE_LOOP + 8 * u32::from(register.0));
        for register in self.lent_to_loop() {
            self.unit.hot.load(register, layout::SAVE_LOOP + 8 * u32::from(register.0));
        }
    }

    /// counter += induction register − its value at the loop's entry
    fn add_way(&mut self, register: Gpr) {
        let used = 1 << register.0 | 1 << 4;
        let (Some(t), counter) = (free_gpr(used), layout::counter(self.slot)) else { return };
        let Some(u) = free_gpr(used | 1 << t.0) else { return };
        let hot = &mut self.unit.hot;
        hot.save(layout::SAVE_LENT, t);
        hot.save(layout::SAVE_LENT_2, u);
        hot.load(t, layout::LOOP_BASE);
        hot.not(t);
        hot.sum(t, t, register, 1);
        hot.load(u, counter);
        hot.sum(u, u, t, 0);
        hot.save(counter, u);
        hot.load(t, layout::SAVE_LENT);
        hot.load(u, layout::SAVE_LENT_2);
    }

    fn lent_to_loop(&self) -> impl Iterator<Item = Gpr> + use<> {
        self.loop_probes.map_or([None, None], |(t, u)| [Some(t), Some(u)]).into_iter().flatten()
    }

    /// `jrcxz taken; jmp over; taken: jmp target; over:`
    fn short_branch(&mut self, to: Address) {
        let from = usize::from(self.last_offset());
        let mut bytes = self.block.code[from..].to_vec();
        if let Some(distance) = bytes.last_mut() {
            *distance = 2;
        }
        let hot = &mut self.unit.hot;
        // The rel32 behind the two short jumps must not need padding.
        hot.align_patch(bytes.len() as u64 + 3);
        hot.raw(&bytes);
        let over = hot.jump_short();
        let before = hot.len();
        let patch = hot.jump(hot.here());
        debug_assert_eq!(hot.len() - before, 5, "padding between the short jumps");
        hot.land(over);
        self.exit(patch, to);
    }

    fn push_return_address(&mut self) {
        let cold = &mut self.unit.cold;
        cold.align(8);
        let word = cold.here();
        cold.raw(&self.block.next().get().to_le_bytes());
        self.unit.hot.push_word_at(word);
    }

    /// RDX is the target and saved.
    fn look_up(&mut self, counted: bool) {
        self.unit.hot.save(layout::SAVE_RCX, RCX);
        if !counted {
            self.count_with_rcx();
        }
        self.unit.hot.low_16_to_ecx(RDX);
        self.unit.hot.jump_table(self.space.tables_at() + layout::LOOKUP);
    }

    fn indirect(&mut self, counted: bool) -> Result<(), NoRule> {
        let Some(step) = self.block.steps.last().copied() else { return Ok(()) };
        self.unit.hot.save(layout::SAVE_RDX, RDX);
        self.point(step.offset, Moved::Nothing);
        rewrite::load_target(&mut self.unit.hot, Register::RDX, &step.instruction, SLOTS)?;
        if self.block.end == End::CallIndirect {
            self.point(step.offset, Moved::Rdx);
            self.push_return_address();
        }
        self.look_up(counted);
        Ok(())
    }

    /// The `syscall`, after a look at what call it is. RCX is free: the instruction overwrites it.
    fn system(&mut self, counted: bool) {
        let program = self.last_offset();
        let tables = self.space.tables_at();
        if !counted {
            self.point(program, Moved::RcxIsNext);
            self.unit.hot.load(RCX, layout::counter(self.slot));
            self.point(program, Moved::RcxIsNext);
            self.unit.hot.add_small(RCX, 1);
            self.point(program, Moved::RcxIsNext);
            self.unit.hot.save(layout::counter(self.slot), RCX);
            self.counted_at = Some(self.offset());
        }
        self.point(program, Moved::RcxIsNext);
        self.unit.hot.low_16_to_ecx(RAX);
        self.point(program, Moved::RcxIsNext);
        self.unit.hot.look_up_byte(RCX, tables + layout::CALLS);
        self.point(program, Moved::RcxIsNext);
        let native = self.unit.hot.jump_if_rcx_zero();
        self.point(program, Moved::RcxIsNext);
        let slow = self.unit.cold.here();
        self.unit.hot.jump(slow);
        self.unit.hot.land(native);
        self.point(program, Moved::RcxIsNext);
        let native = self.unit.hot.here();
        self.unit.hot.raw(&[0x0f, 0x05]);
        let after = self.unit.hot.here();
        self.point(self.block.code.len() as u16, Moved::RcxIsNext);
        self.unit.hot.constant(RCX, self.block.next().get());
        self.slow_call(CallSite { native, after });
    }

    /// Class 2: ENOSYS; 3: the call, then the mask is noted; others: rprof.
    fn slow_call(&mut self, site: CallSite) {
        let id = self.space.call_sites.len() as u64;
        self.space.call_sites.push(site);
        let stubs = self.space.arenas[self.unit.arena].stubs;
        let cold = &mut self.unit.cold;
        cold.add_small(RCX, -2);
        let absent = cold.jump_if_rcx_zero();
        cold.add_small(RCX, -1);
        let mask = cold.jump_if_rcx_zero();
        cold.constant(RCX, id);
        cold.jump(stubs.call);
        cold.land(absent);
        cold.constant(RAX, -i64::from(libc::ENOSYS) as u64);
        cold.jump(site.after);
        cold.land(mask);
        cold.constant(RCX, site.after.get());
        cold.save(layout::CONTINUE_AT, RCX);
        cold.jump(stubs.mask_call);
    }
}
