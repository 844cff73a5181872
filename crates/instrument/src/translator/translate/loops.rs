//! Blocks that are loops: their counters stay out of memory while they run.
//!
//! ```text
//!  counter register    mov gs:[saved], r; mov r, gs:[counter]; loop: lea r, [r + 1] …; mov gs:[counter], r; mov r, gs:[saved]
//!  induction register  mov gs:[base], i; loop: …; counter += i − gs:[base]
//! ```

use crate::translator::code_cache::block::SpillState;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::unsettled::{Due, Unsettled};
use crate::translator::translate::block_emitter::Writer;
use crate::x86_64::emit::Gpr;
use crate::x86_64::induction::{Induction, induction};
use crate::x86_64::rewrite::free_gpr;
use rprof_tracee::address::CacheAddress;

impl Writer<'_> {
    /// Whether the block is a loop with a counter that stays out of memory while it runs.
    pub(crate) fn choose_loop_counter(&mut self) -> bool {
        // A burst has a record of each iteration.
        if !self.block.repeats() || self.unit.version.traces() {
            return false;
        }
        self.induction = self.find_induction();
        if self.induction.is_none() {
            self.loop_counter = self.free_register(0);
            self.loop_probes = self.free_pair();
        }
        self.loop_counter.is_some() || self.induction.is_some()
    }

    /// Two more registers for the probes of a loop; not RAX, which they may need for the flags.
    pub(crate) fn free_pair(&mut self) -> Option<(Gpr, Gpr)> {
        let counter = self.loop_counter.filter(|_| self.unit.version.collects())?;
        let but = 1 << counter.0 | 1;
        let t = self.free_register(but)?;
        Some((t, self.free_register(but | 1 << t.0)?))
    }

    /// The induction register of a loop of vector instructions, in which one more instruction would cost time. Short loops of
    /// other code are faster with a counter: their exits do less work.
    pub(crate) fn find_induction(&mut self) -> Option<Induction> {
        if self.unit.version.collects()
            || self.block.steps.iter().any(|s| crate::x86_64::operands::is_dynamic(&s.instruction))
        {
            return None;
        }
        let vector = |i: &iced_x86::Instruction| (0..i.op_count()).any(|o| i.op_register(o).is_vector_register());
        let numerical = self.block.steps.iter().any(|s| vector(&s.instruction));
        if numerical { induction(&self.block.steps, &mut self.unit.factory) } else { None }
    }

    /// `mov gs:[saved], r; mov r, gs:[counter]`, then the loop: `lea r, [r + 1]`.
    pub(crate) fn loop_entry(&mut self) -> CacheAddress {
        if let Some(induction) = self.induction {
            self.point(0, SpillState::Nothing);
            self.unit.hot.save(layout::LOOP_BASE, induction.register);
            self.align_loop();
            return self.unit.hot.here();
        }
        let Some(register) = self.loop_counter else { return self.entry };
        self.point(0, SpillState::Nothing);
        self.unit.hot.save(layout::SAVE_LOOP + 8 * u32::from(register.0), register);
        for register in self.lent_to_loop() {
            self.unit.hot.save(layout::SAVE_LOOP + 8 * u32::from(register.0), register);
        }
        self.unit.hot.load(register, layout::counter(self.slot));
        self.align_loop();
        let start = self.unit.hot.here();
        self.point(0, SpillState::Loop);
        self.unit.hot.add_small(register, 1);
        self.counted_at = Some(self.offset());
        start
    }

    /// Pads so that a loop that fits into a cache line does not cross one.
    pub(crate) fn align_loop(&mut self) {
        const LINE: u64 = 64;
        // The short jump becomes a long one, and a counter may be added.
        let size = self.block.code.len() as u64 + 8;
        if self.unit.hot.here().get() % LINE + size > LINE {
            self.unit.hot.align(LINE);
        }
    }

    /// `jcc loop; mov gs:[counter], r; mov r, gs:[saved]`
    pub(crate) fn loop_end(&mut self, condition: u8, start: CacheAddress) {
        let from = self.unit.hot.here();
        self.unit.hot.jump_if(condition, start);
        if let Some(induction) = self.induction {
            self.add_way(induction.register, from);
            return;
        }
        let Some(register) = self.loop_counter else { return };
        let (hot, counter) = (&mut self.unit.hot, layout::counter(self.slot));
        hot.save(counter, register);
        let due = Due::Register(register);
        self.cache.counters.unsettled.push(Unsettled { from, until: hot.here(), slot: self.slot, due });
        hot.load(register, layout::SAVE_LOOP + 8 * u32::from(register.0));
        for register in self.lent_to_loop() {
            self.unit.hot.load(register, layout::SAVE_LOOP + 8 * u32::from(register.0));
        }
    }

    /// counter += induction register − its value at the loop's entry; that is due from `from` on.
    fn add_way(&mut self, register: Gpr, from: CacheAddress) {
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
        let due = Due::Way(register);
        self.cache.counters.unsettled.push(Unsettled { from, until: hot.here(), slot: self.slot, due });
        hot.load(t, layout::SAVE_LENT);
        hot.load(u, layout::SAVE_LENT_2);
    }

    pub(crate) fn lent_to_loop(&self) -> impl Iterator<Item = Gpr> + use<> {
        self.loop_probes.map_or([None, None], |(t, u)| [Some(t), Some(u)]).into_iter().flatten()
    }
}
