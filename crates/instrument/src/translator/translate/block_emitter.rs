//! Writes one block: its instructions, its counter, and its places with a known program state.

use iced_x86::Mnemonic;

use crate::translator::code_cache::block::{BlockId, ReturnPoint, SafePoint, SiteId, SpillState};
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::layout;
use crate::translator::translate::edge_counters::{ExitCounter, count_with};
use crate::translator::translate::plan::BlockPlan;
use crate::translator::translate::superblock::{SLOTS, Superblock};
use crate::x86_64::decode::{Decoded, Terminator};
use crate::x86_64::emit::{Gpr, RCX};
use crate::x86_64::induction::Induction;
use crate::x86_64::liveness::Dead;
use crate::x86_64::rewrite::{self, NoRule, Use, free_gpr, used_gprs};
use rprof_profile::code::CodeRef;
use rprof_tracee::address::{Address, CacheAddress};

/// Writes one block.
pub(crate) struct Writer<'a> {
    pub(crate) cache: &'a mut CodeCache,
    pub(crate) unit: &'a mut Superblock,
    pub(crate) block: &'a Decoded,
    pub(crate) entry: CacheAddress,
    pub(crate) slot: u32,
    points: Vec<SafePoint>,
    pub(crate) counted_at: Option<u32>,
    pub(crate) loop_counter: Option<Gpr>,
    pub(crate) loop_probes: Option<(Gpr, Gpr)>,
    pub(crate) induction: Option<Induction>,
    pub(crate) landing: Option<ReturnPoint>,
    /// The landing of its call, if that misses the inlined usual callee, and the rel32 of the jump behind it.
    pub(crate) landing_aside: Option<(ReturnPoint, CacheAddress)>,
    /// How it is to be written.
    pub(crate) plan: BlockPlan,
    /// It has no counter in line.
    pub(crate) flows: bool,
    /// How its way out is counted.
    pub(crate) leave: Option<ExitCounter>,
    pub(crate) at: CodeRef,
    /// By step: the dead flags; empty if no probe needs them.
    pub(crate) dead_flags: Vec<Dead>,
    /// RCX is in its slot.
    pub(crate) rcx_spilled: bool,
    /// The flags are dead at the return address of the block's call.
    pub(crate) lands_without_flags: bool,
}

/// A block as written to the cache.
pub(crate) struct Written {
    pub(crate) entry: CacheAddress,
    pub(crate) points: Vec<SafePoint>,
    pub(crate) counted_at: Option<u32>,
    pub(crate) loop_counter: Option<Gpr>,
    pub(crate) loop_probes: Option<(Gpr, Gpr)>,
    pub(crate) induction: Option<Induction>,
    pub(crate) landing: Option<ReturnPoint>,
    pub(crate) landing_aside: Option<(ReturnPoint, CacheAddress)>,
    pub(crate) runs_in: Option<BlockId>,
}

impl<'a> Writer<'a> {
    /// For `block` with the counter `slot`, at the end of the superblock's hot code.
    pub(crate) fn new(
        cache: &'a mut CodeCache,
        unit: &'a mut Superblock,
        block: &'a Decoded,
        at: CodeRef,
        slot: u32,
        dead_flags: Vec<Dead>,
    ) -> Self {
        Writer {
            entry: unit.hot.here(),
            points: Vec::with_capacity(block.steps.len() + 2),
            counted_at: None,
            loop_counter: None,
            loop_probes: None,
            induction: None,
            landing: None,
            landing_aside: None,
            plan: BlockPlan::default(),
            flows: false,
            leave: None,
            cache,
            unit,
            block,
            at,
            slot,
            dead_flags,
            rcx_spilled: false,
            lands_without_flags: false,
        }
    }

    /// Ends the block.
    pub(crate) fn finish(self) -> Written {
        Written {
            entry: self.entry,
            points: self.points,
            counted_at: self.counted_at,
            loop_counter: self.loop_counter,
            loop_probes: self.loop_probes,
            induction: self.induction,
            landing: self.landing,
            landing_aside: self.landing_aside,
            runs_in: self.plan.runs_in,
        }
    }

    /// A register that the block does not use.
    pub(crate) fn free_register(&mut self, but: u16) -> Option<Gpr> {
        let used = self.block.steps.iter().fold(0, |u, s| u | used_gprs(&mut self.unit.factory, &s.instruction));
        free_gpr(used | but | 1 << 4)
    }

    /// The registers that are elsewhere while the block is executed.
    pub(crate) fn plain(&self) -> SpillState {
        if self.loop_counter.is_some() || self.induction.is_some() {
            SpillState::Loop
        } else if self.rcx_spilled {
            SpillState::Rcx
        } else {
            SpillState::Nothing
        }
    }

    /// The number that the block will have.
    pub(crate) fn block_id(&self) -> BlockId {
        self.cache.blocks.len() as BlockId
    }

    pub(crate) fn offset(&self) -> u32 {
        (self.unit.hot.here() - self.entry) as u32
    }

    pub(crate) fn point(&mut self, program: u16, moved: SpillState) {
        let cache = self.offset();
        self.points.push(SafePoint { cache, program, moved });
    }

    pub(crate) fn exit(&mut self, patch: CacheAddress, target: Address) -> SiteId {
        let site = self.cache.new_site(patch, self.unit.version, target);
        self.unit.sites.push(site);
        site
    }

    /// The whole block, counted before the step at `position`, at which these flags are not needed (`None`: at the place that
    /// costs least without touching flags).
    pub(crate) fn write(&mut self, position: Option<(usize, Dead)>) -> Result<Option<Address>, NoRule> {
        let loop_start = self.loop_entry();
        let at_end = match self.block.end {
            // Without a lookup nothing saves RCX.
            Terminator::Return(_) => self.unit.copy.is_none(),
            Terminator::JumpIndirect | Terminator::CallIndirect | Terminator::System => true,
            _ => false,
        };
        let in_loop = self.loop_counter.is_some() || self.induction.is_some();
        if self.unit.version.traces() {
            self.trace_block();
        }
        if self.cache.markers.contains_key(&self.block.start.get()) {
            self.note_mark();
        }
        if let Some(watched) = self.cache.watched.at(self.block.start.get()) {
            self.note_call(watched);
        }
        if self.flows {
            self.counted_at = Some(0);
        } else if position.is_none() && !in_loop && !at_end {
            self.point(0, self.plain());
            self.count_flag_free();
        }
        let transfers = self.block.end != Terminator::Next;
        let last = self.block.steps.len() - usize::from(transfers);
        for i in 0..self.block.steps.len() {
            let step = self.block.steps[i];
            let rcx = self.use_of_rcx(i);
            if rcx == Use::Reads {
                self.unpark(step.offset);
            }
            let plain = self.plain();
            self.point(step.offset, plain);
            if let Some((_, dead)) = position.filter(|p| p.0 == i) {
                self.unit.hot.increment(layout::counter(self.slot), dead);
                self.counted_at = Some(self.offset());
                self.point(step.offset, plain);
            }
            let iterations = self.probe(i);
            if i < last {
                self.step(i)?;
            }
            self.rcx_spilled &= rcx == Use::None;
            if self.induction.is_some_and(|n| n.at == i) {
                self.counted_at = Some(self.offset());
            }
            if let Some(iterations) = iterations {
                self.add_iterations(iterations);
            }
        }
        let counted = self.flows || position.is_some() || in_loop || !at_end;
        self.end(loop_start, counted)
    }

    /// One instruction that is not a transfer of control.
    pub(crate) fn step(&mut self, i: usize) -> Result<(), NoRule> {
        let step = self.block.steps[i];
        if self.cache.answers_cpuid && step.instruction.mnemonic() == Mnemonic::Cpuid {
            self.cache.cpuids.insert(self.unit.hot.here());
            self.unit.hot.raw(&[0xcc, 0x90]); // int3: rprof answers; nop
            return Ok(());
        }
        let from = usize::from(step.offset);
        let bytes = &self.block.code[from..from + step.instruction.len()];
        let written = rewrite::copy(&mut self.unit.hot, &step, bytes, SLOTS)?;
        if let Some(lent) = written.lent {
            let moved = match self.plain() {
                SpillState::Loop => SpillState::LoopAndLent(lent),
                SpillState::Rcx => SpillState::RcxAndLent(lent),
                _ => SpillState::Lent(lent),
            };
            let cache = (written.at - self.entry) as u32;
            self.points.push(SafePoint { cache, program: step.offset, moved });
        }
        Ok(())
    }

    /// Counts with a lent register: no flag changes.
    pub(crate) fn count_flag_free(&mut self) {
        if self.rcx_spilled {
            self.count_with_rcx();
            return;
        }
        let hot = &mut self.unit.hot;
        hot.save(layout::SAVE_LENT, RCX);
        count_with(hot, RCX, self.slot);
        self.counted_at = Some((hot.here() - self.entry) as u32);
        hot.load(RCX, layout::SAVE_LENT);
    }

    /// Counts with RCX, which is saved or dead here.
    pub(crate) fn count_with_rcx(&mut self) {
        let hot = &mut self.unit.hot;
        count_with(hot, RCX, self.slot);
        self.counted_at = Some((hot.here() - self.entry) as u32);
    }

    pub(crate) fn last_offset(&self) -> u16 {
        self.block.steps.last().map_or(0, |s| s.offset)
    }
}
