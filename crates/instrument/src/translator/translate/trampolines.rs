//! Writes the translations of [`trampoline`](crate::translator::code_cache::trampoline)s.

use crate::translator::code_cache::block::SpillState;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::trampoline::{CLOSURE_FUNCTION, Form, Nested, Trampoline};
use crate::translator::code_cache::version::Version;
use crate::translator::translate::block_emitter::Writer;
use crate::translator::translate::edge_counters::count_with;
use crate::translator::translate::superblock::TranslateError;
use crate::x86_64::decode::decode;
use crate::x86_64::emit::{Gpr, RCX, RDX};
use crate::x86_64::liveness::Dead;
use rprof_profile::code::CodeRef;
use rprof_tracee::address::Address;

const R10: Gpr = Gpr(10);

impl CodeCache {
    /// Translates a trampoline at `start` for the place `at`.
    pub fn translate_trampoline(
        &mut self,
        version: Version,
        (start, at): (Address, CodeRef),
        trampoline: Trampoline,
    ) -> Result<(), TranslateError> {
        let block = decode(start, &trampoline.code).ok_or(TranslateError::NoText(start))?;
        let mut unit = self.begin_unit(version, start)?;
        let slot = self.new_slot().ok_or(TranslateError::Full)?;
        let entries = self.write_entries(&mut unit, start);
        let mut writer = Writer::new(self, &mut unit, &block, at, slot, vec![Dead::None; block.steps.len()]);
        writer.trampoline(trampoline.form);
        let written = writer.finish();
        self.enter(&mut unit, &block, at, (slot, None, None), entries, written);
        let id = unit.last();
        self.close(unit);
        self.trampolines.extend(id.map(|id| (id, trampoline)));
        Ok(())
    }
}

impl Writer<'_> {
    /// The whole block. Until the values are loaded, the program has executed nothing of it.
    fn trampoline(&mut self, form: Form) {
        let start = self.block.start.get();
        if self.unit.version.traces() {
            self.trace_block();
        }
        self.point(0, SpillState::Nothing);
        for i in 0..self.block.steps.len() {
            // None is repeated.
            let _ = self.probe(i);
        }
        self.point(0, SpillState::Nothing);
        self.unit.hot.save(layout::SAVE_RDX, RDX);
        self.point(0, SpillState::Nothing);
        self.unit.hot.save(layout::SAVE_RCX, RCX);
        let indirect = self.cache.arenas[self.unit.arena].stubs.indirect;
        let changed = self.unit.cold.here();
        self.unit.cold.constant(RDX, start);
        self.unit.cold.jump(indirect);
        for (offset, value) in form.fixed() {
            self.point(0, SpillState::RcxAndRdx);
            self.unit.hot.constant(RCX, start);
            self.point(0, SpillState::RcxAndRdx);
            self.unit.hot.raw(&[0x0f, 0xb7, 0x51, offset]); // movzx edx, word [rcx + offset]
            self.unit.hot.raw(&[0x8d, 0x8a]); // lea ecx, [rdx - value]
            self.unit.hot.word(u32::from(value).wrapping_neg());
            let same = self.unit.hot.jump_if_ecx_zero();
            self.unit.hot.jump(changed);
            self.unit.hot.land(same);
        }
        count_with(&mut self.unit.hot, RCX, self.slot);
        self.counted_at = Some(self.offset());
        self.point(0, SpillState::RcxAndRdx);
        self.unit.hot.constant(RCX, start);
        self.point(0, SpillState::RcxAndRdx);
        match form {
            Form::Nested(Nested { function: (_, value, true), .. }) => self.unit.hot.load_at(RDX, RCX, value as i8),
            Form::Nested(Nested { function: (_, value, false), .. }) => {
                self.unit.hot.raw(&[0x8b, 0x51, value]); // mov edx, [rcx + value]
            }
            Form::Closure => self.unit.hot.load_at(RDX, RCX, CLOSURE_FUNCTION as i8),
        }
        self.point(0, SpillState::RcxAndRdx);
        match form {
            Form::Nested(nested) => {
                self.unit.hot.load_at(R10, RCX, nested.chain.1 as i8);
                self.unit.hot.raw(&[0x49, 0x89, 0xd3]); // mov r11, rdx
            }
            Form::Closure => self.unit.hot.raw(&[0x49, 0x89, 0xca]), // mov r10, rcx
        }
        self.look_up();
    }
}
