//! Writes the code that makes records of watched calls, and of their returns. It changes no register and no flag.

use crate::translator::code_cache::call_record::{
    ARGUMENTS, CALL, EXECUTED, MOST_FURTHER, NOT_COUNTED, RETURN, RETURN_STACK, RETURN_TIME, RETURNS_TO, STACK, TIME,
};
use crate::translator::code_cache::layout;
use crate::translator::code_cache::watched_places::Watched;
use crate::translator::translate::block_emitter::Writer;
use crate::x86_64::emit::{Code, R8, R9, RAX, RCX, RDI, RDX, RSI, RSP};
use rprof_tracee::blas::functions::{Behind, Size};

/// The time stamp counter to the record at RCX; changes RDX.
fn time_to(code: &mut Code, offset: i8) {
    code.save(layout::SAVE_FLAGS, RAX);
    code.raw(&[0x0f, 0x31]); // rdtsc
    code.store_low_at(RCX, offset, RAX);
    code.store_low_at(RCX, offset + 4, RDX);
    code.load(RAX, layout::SAVE_FLAGS);
}

/// The target of a pointer argument to the record at RCX; changes RDX.
fn behind_to(code: &mut Code, offset: i32, behind: Behind) {
    let pointer = match behind.argument {
        0 => RDI,
        1 => RSI,
        2 => {
            code.load(RDX, layout::SAVE_RDX);
            RDX
        }
        3 => {
            code.load(RDX, layout::SAVE_RCX);
            RDX
        }
        4 => R8,
        _ => R9,
    };
    match behind.size {
        Size::Byte => code.load_byte_at(RDX, pointer),
        Size::Four => code.load_low_at(RDX, pointer),
        Size::Eight => code.load_at(RDX, pointer, 0),
    }
    code.store_far_at(RCX, offset, RDX);
}

impl Writer<'_> {
    /// Records the start of the block, which is watched.
    pub(crate) fn note_call(&mut self, watched: Watched) {
        self.unpark(0);
        self.point(0, self.plain());
        let at = self.block.start.get();
        let mark = self.cache.arenas[self.unit.arena].stubs.mark;
        let at_once = match watched {
            Watched::Call { at_once, .. } | Watched::Return { at_once } => at_once,
        };
        let is_counted = !self.flows && self.loop_counter.is_none() && self.induction.is_none();
        let counter = is_counted.then(|| layout::counter(self.slot));
        let hot = &mut self.unit.hot;
        hot.save(layout::SAVE_RCX, RCX);
        hot.save(layout::SAVE_RDX, RDX);
        hot.load(RCX, layout::CALL_CURSOR);
        let words = match watched {
            Watched::Call { on_stack, behind, .. } => {
                let on_stack = on_stack.min(MOST_FURTHER);
                hot.store_at(RCX, STACK, RSP);
                hot.store_at(RCX, ARGUMENTS, RDI);
                hot.store_at(RCX, ARGUMENTS + 8, RSI);
                hot.store_at(RCX, ARGUMENTS + 16, RDX);
                hot.load(RDX, layout::SAVE_RCX);
                hot.store_at(RCX, ARGUMENTS + 24, RDX);
                hot.store_at(RCX, ARGUMENTS + 32, R8);
                hot.store_at(RCX, ARGUMENTS + 40, R9);
                // The return address, and further words.
                for word in 0..on_stack as i8 + 1 {
                    hot.load_at(RDX, RSP, 8 * word);
                    let offset = i32::from(RETURNS_TO) + 8 * i32::from(word);
                    hot.store_far_at(RCX, offset, RDX);
                }
                let further = i32::from(RETURNS_TO) + 8 * (1 + i32::from(on_stack));
                for (i, &behind) in behind.iter().enumerate() {
                    behind_to(hot, further + 8 * i as i32, behind);
                }
                match counter {
                    Some(counter) => hot.load(RDX, counter),
                    None => hot.constant(RDX, NOT_COUNTED),
                }
                hot.store_at(RCX, EXECUTED, RDX);
                hot.constant(RDX, at);
                hot.store_at(RCX, 0, RDX);
                time_to(hot, TIME);
                CALL + usize::from(on_stack) + behind.len()
            }
            Watched::Return { .. } => {
                hot.store_at(RCX, RETURN_STACK, RSP);
                hot.constant(RDX, at);
                hot.store_at(RCX, 0, RDX);
                time_to(hot, RETURN_TIME);
                RETURN
            }
        };
        hot.add_far(RCX, RCX, 8 * words as u32);
        hot.save(layout::CALL_CURSOR, RCX);
        hot.load(RDX, layout::SAVE_RDX);
        let mut asides = Vec::new();
        let unknown = match watched {
            Watched::Call { at_once: false, .. } => {
                hot.load_at(RDX, RSP, 0);
                hot.low_16_to_ecx(RDX);
                hot.load_indexed(RCX, RCX, layout::KNOWN_RETURNS);
                hot.not(RCX);
                hot.sum(RCX, RCX, RDX, 1);
                hot.load(RDX, layout::SAVE_RDX);
                Some(hot.jump_if_rcx_zero())
            }
            _ => None,
        };
        if let Some(known) = unknown {
            hot.raw(&[0xe9]); // jmp
            asides.push(hot.relative_later());
            hot.land(known);
        }
        hot.load(RCX, layout::CALLS_LEFT);
        hot.add_small(RCX, -1);
        hot.save(layout::CALLS_LEFT, RCX);
        let goes_on = (!at_once).then(|| {
            let full = hot.jump_if_rcx_zero();
            hot.load(RCX, layout::SAVE_RCX);
            let goes_on = hot.jump_short();
            hot.land(full);
            goes_on
        });
        hot.raw(&[0xe9]); // jmp
        asides.push(hot.relative_later());
        if let Some(goes_on) = goes_on {
            hot.land(goes_on);
        }
        let back = hot.here();
        asides.into_iter().for_each(|aside| self.unit.lead_to_cold(aside));
        let cold = &mut self.unit.cold;
        cold.constant(RCX, at);
        cold.save(layout::MARKER, RCX);
        cold.constant(RCX, back.get());
        cold.save(layout::TARGET, RCX);
        cold.jump(mark);
        self.again(0);
    }
}
