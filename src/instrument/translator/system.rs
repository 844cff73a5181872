//! Writes the end of a block that is a system call.

use super::allocations::LARGE;
use super::block::{CallSite, Moved};
use super::layout;
use super::writer::Writer;
use crate::instrument::x86_64::emit::{R10, RAX, RCX, RDI, RDX, RSI};

impl Writer<'_> {
    /// The `syscall`, after a look at what call it is. RCX is free: the instruction overwrites it.
    pub(super) fn system(&mut self, counted: bool) {
        let program = self.last_offset();
        let tables = self.space.tables_at();
        // RCX is the program's so far, as the point here says.
        if !counted {
            self.unit.hot.load(RCX, layout::counter(self.slot));
            self.point(program, Moved::RcxIsNext);
            self.unit.hot.add_small(RCX, 1);
            self.point(program, Moved::RcxIsNext);
            self.unit.hot.save(layout::counter(self.slot), RCX);
            self.counted_at = Some(self.offset());
            self.point(program, Moved::RcxIsNext);
        }
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

    /// Class 2: ENOSYS; 3: the call, then the mask is noted; 4: rprof for SIGTRAP and SIGSEGV, else the call; 5: rprof
    /// if it maps something executable, fixed, or large where somebody wants to know of it, else the call; 1: rprof, or the
    /// call if it makes a task that can be traced.
    pub(super) fn slow_call(&mut self, site: CallSite) {
        let id = self.space.call_sites.len() as u64;
        self.space.call_sites.push(site);
        let stubs = self.space.arenas[self.unit.arena].stubs;
        let tables = self.space.tables_at();
        // Without BMI2 a rotation changes flags.
        let tells_allocations = self.space.has_sink && std::arch::is_x86_feature_detected!("bmi2");
        let cold = &mut self.unit.cold;
        cold.add_small(RCX, -2);
        let absent = cold.jump_if_rcx_zero();
        cold.add_small(RCX, -1);
        let mask = cold.jump_if_rcx_zero();
        cold.add_small(RCX, -1);
        let action = cold.jump_if_rcx_zero();
        cold.add_small(RCX, -1);
        let map = cold.jump_if_rcx_zero();
        let stop = cold.here();
        cold.constant(RCX, site.native.get());
        cold.save(layout::CONTINUE_AT, RCX);
        cold.constant(RCX, id);
        cold.jump(stubs.call);
        cold.land(absent);
        cold.constant(RAX, -i64::from(libc::ENOSYS) as u64);
        cold.jump(site.after);
        cold.land(mask);
        cold.constant(RCX, site.after.get());
        cold.save(layout::CONTINUE_AT, RCX);
        cold.jump(stubs.mask_call);
        cold.land(action);
        cold.add_to(RCX, RDI, -libc::SIGTRAP as i8);
        let trap = cold.jump_if_ecx_zero();
        cold.add_to(RCX, RDI, -libc::SIGSEGV as i8);
        let fault = cold.jump_if_ecx_zero();
        cold.jump(site.native);
        cold.land(map);
        cold.low_8_to_ecx(RDX);
        cold.look_up_byte(RCX, tables + layout::EXECUTABLE);
        let data = cold.jump_if_ecx_zero();
        cold.jump(stop);
        cold.land(data);
        cold.low_8_to_ecx(R10);
        cold.look_up_byte(RCX, tables + layout::FIXED);
        let anywhere = cold.jump_if_ecx_zero();
        cold.jump(stop);
        cold.land(anywhere);
        if tells_allocations {
            // Sizes are multiples of 4 KiB, whose bits 12 to 19 go to the upper half.
            cold.rotate(RCX, RSI, LARGE.ilog2() as u8);
            let small = cold.jump_if_ecx_zero();
            cold.jump(stop);
            cold.land(small);
        }
        cold.jump(site.native);
        cold.land(trap);
        cold.land(fault);
        cold.jump(stop);
    }
}
