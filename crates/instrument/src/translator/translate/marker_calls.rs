//! Writes the request at the start of a marker function.

use crate::translator::code_cache::layout;
use crate::translator::translate::block_emitter::Writer;
use crate::x86_64::emit::{RCX, RDI, RDX, RSI, RSP};

impl Writer<'_> {
    /// Asks rprof before the first instruction of a marker function. Changes no flag.
    pub(crate) fn note_mark(&mut self) {
        self.unpark(0);
        self.point(0, self.plain());
        let at = self.block.start.get();
        let mark = self.cache.arenas[self.unit.arena].stubs.mark;
        let hot = &mut self.unit.hot;
        for (i, register) in [RDI, RSI, RDX, RCX].into_iter().enumerate() {
            hot.save(layout::MARKER_ARGUMENTS + 8 * i as u32, register);
        }
        hot.save(layout::MARKER_STACK, RSP);
        hot.save(layout::SAVE_RCX, RCX);
        hot.constant(RCX, at);
        hot.save(layout::MARKER, RCX);
        hot.raw(&[0xe9]); // jmp
        let aside = hot.relative_later();
        let back = hot.here();
        self.unit.lead_to_cold(aside);
        let cold = &mut self.unit.cold;
        cold.constant(RCX, back.get());
        cold.save(layout::TARGET, RCX);
        cold.jump(mark);
    }
}
