//! Writes the end of a block that is a system call.

use iced_x86::Code;

use crate::translator::code_cache::block::{CallSite, SpillState};
use crate::translator::code_cache::layout;
use crate::translator::code_cache::syscall_table::CallClass;
use crate::translator::translate::block_emitter::Writer;
use crate::x86_64::emit::{R10, RAX, RCX, RDI, RDX, RSI, relative};
use rprof_isa::x86_64::system_call;

/// Smallest allocation that is reported, in bytes.
pub const LARGE: u64 = 1 << 20;
/// `PR_SET_SYSCALL_USER_DISPATCH`
pub const SET_DISPATCH: i32 = 59;

impl Writer<'_> {
    /// Writes the `syscall`, after a check of its number. RCX is free: the instruction overwrites it.
    pub(crate) fn system(&mut self, counted: bool) {
        let program = self.last_offset();
        // RCX still holds the program's value, as the point here states.
        if !counted {
            self.unit.hot.load(RCX, layout::counter(self.slot));
            self.point(program, SpillState::RcxIsNext);
            self.unit.hot.add_small(RCX, 1);
            self.point(program, SpillState::RcxIsNext);
            self.unit.hot.save(layout::counter(self.slot), RCX);
            self.counted_at = Some(self.offset());
            self.point(program, SpillState::RcxIsNext);
        }
        self.count_number();
        self.unit.hot.low_16_to_ecx(RAX);
        self.point(program, SpillState::RcxIsNext);
        self.unit.hot.look_up_byte(RCX, layout::TABLES_AT + layout::CALLS);
        self.point(program, SpillState::RcxIsNext);
        let native = self.unit.hot.jump_if_rcx_zero();
        self.point(program, SpillState::RcxIsNext);
        let slow = self.unit.cold.here();
        self.unit.hot.jump(slow);
        self.unit.hot.land(native);
        self.point(program, SpillState::RcxIsNext);
        let native = self.unit.hot.here();
        self.unit.hot.raw(&[0x0f, 0x05]);
        let after = self.unit.hot.here();
        self.point(self.block.code.len() as u16, SpillState::RcxIsNext);
        self.unit.hot.constant(RCX, self.block.next().get());
        self.slow_call(CallSite { native, after });
    }

    /// Counts the call by its number, if that is not a constant of the block. RCX and R11 are free: the call overwrites both.
    ///
    /// ```text
    /// movzx ecx, ah         0: numbers below 256
    /// jrcxz low
    /// movzx ecx, al         else those from 256 on
    /// counters[256 + rcx] += 1      in R11, by lea, which leaves the flags
    /// ```
    fn count_number(&mut self) {
        let before = self.block.steps.iter().map(|s| &s.instruction).filter(|i| i.code() != Code::Syscall);
        if system_call::number(before).is_some() {
            return;
        }
        let program = self.last_offset();
        // Without room the call is counted, but not by number.
        let Some(first) = self.cache.new_slots(layout::CALL_NUMBERS) else { return };
        let block = self.block_id();
        self.cache.counters.numbered_calls.push((block, first));
        self.unit.hot.raw(&[0x0f, 0xb6, 0xcc]);
        self.point(program, SpillState::RcxIsNext);
        let low = self.unit.hot.jump_if_rcx_zero();
        self.point(program, SpillState::RcxIsNext);
        self.add_to_number(first + 256);
        let done = self.unit.hot.jump_short();
        self.unit.hot.land(low);
        self.point(program, SpillState::RcxIsNext);
        self.add_to_number(first);
        self.unit.hot.land(done);
        self.point(program, SpillState::RcxIsNext);
    }

    /// Increments the counter with the index AL, from `first` on.
    fn add_to_number(&mut self, first: u32) {
        let program = self.last_offset();
        self.unit.hot.raw(&[0x0f, 0xb6, 0xc8]); // movzx ecx, al
        self.point(program, SpillState::RcxIsNext);
        for bytes in [
            &[0x65, 0x4c, 0x8b, 0x1c, 0xcd][..], // mov r11, gs:[rcx*8 + …]
            &[0x4d, 0x8d, 0x5b, 0x01],           // lea r11, [r11 + 1]
            &[0x65, 0x4c, 0x89, 0x1c, 0xcd],     // mov gs:[rcx*8 + …], r11
        ] {
            self.unit.hot.raw(bytes);
            if bytes.len() == 5 {
                self.unit.hot.word(layout::counter(first));
            }
            self.point(program, SpillState::RcxIsNext);
        }
    }

    /// Writes the slow path of a call by its class. 2: ENOSYS; 3: the call, then the code stores the mask; 4: rprof for SIGTRAP
    /// and SIGSEGV, else the call; 5: rprof if it maps executable, fixed, or (if the access sink wants to know) large memory,
    /// else the call; 6: rprof for filters and dispatch of calls and for `PR_SET_MDWE`, else the call; 7 to 9: the call by a
    /// stub that records it; 10: rprof; 1: rprof, or the call if it makes a task that can be traced.
    pub(crate) fn slow_call(&mut self, site: CallSite) {
        let id = self.cache.call_sites.len() as u64;
        self.cache.call_sites.push(site);
        let stubs = self.cache.arenas[self.unit.arena].stubs;
        // Without BMI2 a rotation changes flags.
        let tells_allocations = self.cache.has_sink && std::arch::is_x86_feature_detected!("bmi2");
        let cold = &mut self.unit.cold;
        cold.add_small(RCX, -2);
        let absent = cold.jump_if_rcx_zero();
        cold.add_small(RCX, -1);
        let mask = cold.jump_if_rcx_zero();
        cold.add_small(RCX, -1);
        let action = cold.jump_if_rcx_zero();
        cold.add_small(RCX, -1);
        let map = cold.jump_if_rcx_zero();
        cold.add_small(RCX, -1);
        let rule = cold.jump_if_rcx_zero();
        cold.add_small(RCX, CallClass::Rule as i8 - CallClass::Stop as i8);
        let stops = cold.jump_if_rcx_zero();
        cold.raw(&[0xe9]); // jmp
        let sockets = cold.relative_later();
        cold.land(rule);
        cold.raw(&[0xe9]); // jmp
        let rules = cold.relative_later();
        cold.land(stops);
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
        cold.look_up_byte(RCX, layout::TABLES_AT + layout::EXECUTABLE);
        let data = cold.jump_if_ecx_zero();
        cold.jump(stop);
        cold.land(data);
        cold.low_8_to_ecx(R10);
        cold.look_up_byte(RCX, layout::TABLES_AT + layout::FIXED);
        let anywhere = cold.jump_if_ecx_zero();
        cold.jump(stop);
        cold.land(anywhere);
        if tells_allocations {
            // Sizes are multiples of 4 KiB; their bits 12 to 19 go to the upper half.
            cold.rotate(RCX, RSI, LARGE.ilog2() as u8);
            let small = cold.jump_if_ecx_zero();
            cold.jump(stop);
            cold.land(small);
        }
        cold.jump(site.native);
        cold.land(trap);
        cold.land(fault);
        cold.jump(stop);
        cold.set_word(sockets, relative(sockets, cold.here()));
        let to_judged = CallClass::Judged as i8 - CallClass::Stop as i8;
        cold.add_small(RCX, -to_judged);
        let judged = cold.jump_if_rcx_zero();
        cold.add_small(RCX, to_judged);
        cold.save(layout::SOCKET_KIND, RCX);
        cold.constant(RCX, site.native.get());
        cold.save(layout::SOCKET_NATIVE, RCX);
        cold.constant(RCX, site.after.get());
        cold.save(layout::CONTINUE_AT, RCX);
        cold.jump(stubs.socket);
        cold.land(judged);
        cold.constant(RCX, site.native.get());
        cold.save(layout::CONTINUE_AT, RCX);
        cold.constant(RCX, id);
        cold.jump(stubs.judged_call);
        cold.set_word(rules, relative(rules, cold.here()));
        let of_rules = [libc::PR_SET_SECCOMP, SET_DISPATCH, libc::PR_SET_MDWE].map(|option| {
            cold.add_to(RCX, RDI, -option as i8);
            cold.jump_if_ecx_zero()
        });
        cold.jump(site.native);
        of_rules.into_iter().for_each(|jump| cold.land(jump));
        cold.jump(stop);
    }
}
