//! Writes the end of a block: its transfer of control.

use iced_x86::Register;

use crate::translator::code_cache::block::SpillState;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::version::Version;
use crate::translator::translate::block_emitter::Writer;
use crate::translator::translate::returns::Callee;
use crate::translator::translate::superblock::SLOTS;
use crate::x86_64::decode::{Terminator, condition};
use crate::x86_64::emit::{Code, RAX, RCX, RDX};
use crate::x86_64::rewrite::{self, NoRule};
use rprof_tracee::address::{Address, CacheAddress};

impl Writer<'_> {
    /// Writes the transfer of control; returns the address at which the chain continues.
    pub(crate) fn end(&mut self, loop_start: CacheAddress, counted: bool) -> Result<Option<Address>, NoRule> {
        let next = self.block.next();
        self.unpark_at_end();
        match self.block.end {
            Terminator::Next => Ok(Some(next)),
            Terminator::Jump(to) => Ok(Some(to)),
            Terminator::Branch(code, _) if self.loop_counter.is_some() || self.induction.is_some() => {
                self.loop_end(condition(code), loop_start);
                Ok(Some(next))
            }
            Terminator::Branch(code, to) if self.plan.next == Some(to) && to != next => {
                let patch = self.unit.hot.jump_if(condition(code) ^ 1, self.unit.hot.here());
                self.branch_away(patch, next);
                Ok(Some(to))
            }
            Terminator::Branch(code, to) => {
                let patch = self.unit.hot.jump_if(condition(code), self.unit.hot.here());
                self.branch_away(patch, to);
                Ok(Some(next))
            }
            Terminator::ShortBranch(to) => {
                self.short_branch(to);
                Ok(Some(next))
            }
            // Position-independent code that reads its own address.
            Terminator::Call(to) if to == next => {
                self.push_return_address();
                Ok(Some(to))
            }
            Terminator::Call(_) if self.plan.copies_callee => {
                self.point(self.last_offset(), self.plain());
                self.push_next();
                Ok(Some(next))
            }
            Terminator::Call(to) => Ok(self.call(Callee::At(to))),
            Terminator::Return(_) if let Some(copy) = &self.unit.copy => Ok(self.return_from_copy(copy.next)),
            Terminator::Return(drop) => {
                self.return_to_caller(drop, counted);
                Ok(None)
            }
            Terminator::JumpIndirect => {
                if let Some(to) = self.plan.usual {
                    return self.jump_to_usual(to, counted);
                }
                self.load_target()?;
                self.note_target();
                self.save_rcx(counted);
                self.look_up();
                Ok(None)
            }
            Terminator::CallIndirect => {
                let directly = self.plan.copies_callee || self.calls_directly();
                if let Some(to) = self.plan.usual.filter(|_| directly) {
                    return self.call_usual(to, counted);
                }
                self.load_target()?;
                self.note_target();
                self.save_rcx(counted);
                self.point(self.last_offset(), SpillState::RcxAndRdx);
                Ok(self.call(Callee::InRdx))
            }
            Terminator::System => {
                self.system(counted);
                Ok(Some(next))
            }
            Terminator::Transaction(to) => {
                // As if the transaction had aborted at once, without a reason.
                self.unit.hot.constant(RAX, 0);
                let patch = self.unit.hot.jump(self.unit.hot.here());
                self.lead(patch, to);
                Ok(None)
            }
            Terminator::Trap => {
                let from = usize::from(self.last_offset());
                let code = self.block.code[from..].to_vec();
                self.unit.hot.raw(&code);
                self.point(self.block.code.len() as u16, SpillState::Nothing);
                let invalid = self.block.steps.last().is_none_or(|s| s.instruction.is_invalid());
                self.unit.hot.raw(if invalid { &[0x0f, 0x0b] } else { &[0x90] }); // ud2, nop
                Ok((!invalid).then_some(next))
            }
            Terminator::Far => {
                self.unit.hot.raw(&[0xcc]); // int3: rprof says that it cannot follow
                Ok(None)
            }
        }
    }

    /// `jrcxz taken; jmp over; taken: jmp target; over:`
    pub(crate) fn short_branch(&mut self, to: Address) {
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
        self.lead(patch, to);
    }

    pub(crate) fn push_return_address(&mut self) {
        let cold = &mut self.unit.cold;
        cold.align(8);
        let word = cold.here();
        cold.raw(&self.block.next().get().to_le_bytes());
        self.unit.hot.push_word_at(word);
    }

    /// Saves RDX and loads it with the target of the block's last instruction.
    pub(crate) fn load_target(&mut self) -> Result<(), NoRule> {
        self.unit.hot.save(layout::SAVE_RDX, RDX);
        self.point(self.last_offset(), self.plain());
        self.load_target_into(Register::RDX)
    }

    /// Loads a saved register with the target of the block's last instruction.
    pub(crate) fn load_target_into(&mut self, register: Register) -> Result<(), NoRule> {
        let Some(step) = self.block.steps.last().copied() else { return Ok(()) };
        rewrite::load_target(&mut self.unit.hot, register, &step.instruction, SLOTS)
    }

    /// Saves RCX, which is free from here on.
    pub(crate) fn save_rcx(&mut self, counted: bool) {
        if !self.rcx_spilled {
            self.unit.hot.save(layout::SAVE_RCX, RCX);
        }
        if !counted {
            self.count_with_rcx();
        }
    }

    /// Looks up the target in RDX; RCX and RDX are saved.
    pub(crate) fn look_up(&mut self) {
        look_up_in(&mut self.unit.hot, self.unit.version);
    }
}

/// The same at the end of `code`.
pub(crate) fn look_up_in(code: &mut Code, version: Version) {
    code.lookup_index_to_rcx(RDX, layout::TABLES_AT + layout::TARGET_MASK);
    code.jump_table(layout::TABLES_AT + version.lookup());
}
