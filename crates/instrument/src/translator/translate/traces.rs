//! Code of the version that traces: each block records that it begins, and each operand its address. The code changes no flag,
//! and checks once per block whether the buffer has room.
//!
//! ```text
//!  block:  buffer[cursor++] = (block, BLOCK); room for all that the block notes? no ─▶ rprof takes the records
//!          lea t, [operand]; buffer[cursor++] = (t, site); the instruction …
//! ```

use iced_x86::Register;

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::records::{BLOCK, ENTRY};
use crate::translator::translate::block_emitter::Writer;
use crate::translator::translate::probes::{Lent, Noted, append};
use crate::x86_64::emit::RCX;
use crate::x86_64::operands::Operand;
use crate::x86_64::rewrite::load_address;

impl CodeCache {
    /// Writes the table with the ends of the buffers of `contexts`.
    pub fn prepare_traces(&self, contexts: &Contexts) {
        const PIECE: u64 = 1 << 16;
        // Contexts are spaced so that bits 16 to 23 are the same in all of them.
        let first = (contexts.base(0).get() + u64::from(layout::TRACE_BUFFER)) / PIECE;
        let pieces = u64::from(layout::TRACE_BUFFER_SIZE - layout::TRACE_BUFFER_MARGIN) / PIECE;
        let table: Vec<u8> = (0..256).map(|n: u64| u8::from(n.wrapping_sub(first) % 256 < pieces)).collect();
        self.tables.write(u64::from(layout::HAS_ROOM), &table);
    }
}

impl Writer<'_> {
    /// Writes the record of the block's beginning.
    pub(crate) fn trace_block(&mut self) {
        self.point(0, self.plain());
        let (id, room) = (self.block_id(), layout::TABLES_AT + layout::HAS_ROOM);
        let drain = self.cache.arenas[self.unit.arena].stubs.drain;
        let hot = &mut self.unit.hot;
        hot.save(layout::SAVE_LENT, RCX);
        hot.load(RCX, layout::CURSOR);
        hot.store_constant_at(RCX, 0, id);
        hot.store_constant_at(RCX, 8, BLOCK);
        hot.add_small(RCX, ENTRY as i8);
        hot.save(layout::CURSOR, RCX);
        hot.raw(&[0x0f, 0xc9]); // bswap ecx
        hot.raw(&[0x0f, 0xb6, 0xcd]); // movzx ecx, ch
        hot.look_up_byte(RCX, room);
        let full = hot.jump_if_ecx_zero();
        let goes_on = hot.jump_short();
        hot.land(full);
        hot.raw(&[0xe9]); // jmp
        let aside = hot.relative_later();
        hot.land(goes_on);
        let back = hot.here();
        hot.load(RCX, layout::SAVE_LENT);
        self.unit.lead_to_cold(aside);
        let cold = &mut self.unit.cold;
        cold.constant(RCX, back.get());
        cold.save(layout::TARGET, RCX);
        cold.jump(drain);
    }

    /// Records the address of an operand of step `i`.
    pub(crate) fn trace_access(
        &mut self,
        i: usize,
        operand: &Operand,
        lent: Lent,
        entries: &mut u32,
        noted: &Noted<'_>,
    ) {
        let hot = &mut self.unit.hot;
        hot.save(layout::SAVE_LENT, lent.t);
        hot.save(layout::SAVE_LENT_2, lent.u);
        // rprof does not record an address that depends on EIP.
        if load_address(hot, lent.t, &operand.memory) {
            if operand.memory.segment() == Register::FS {
                hot.thread_base(lent.u);
                hot.sum(lent.t, lent.t, lent.u, 0);
            }
            append(hot, lent, entries, noted);
        }
        hot.load(lent.t, layout::SAVE_LENT);
        hot.load(lent.u, layout::SAVE_LENT_2);
        self.again(i);
    }
}
