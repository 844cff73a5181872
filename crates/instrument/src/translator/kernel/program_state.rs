//! The program's own state of a thread that was stopped in the cache: its registers, and counters that fit them.

use std::sync::atomic::Ordering;

use crate::translator::code_cache::block::{BlockId, SpillState};
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::counters::Sum;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::probe_site::Shape;
use crate::translator::code_cache::records::{REPEATED, REPEATED_COUNT};
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use crate::translator::translate::arrival::Transfer;
use crate::x86_64::emit::Gpr;
use rprof_tracee::address::{Address, CacheAddress};
use rprof_tracee::thread::{Registers, SignalInfo};

/// The result of mapping the registers of a thread in the cache to the program's.
pub(crate) enum State {
    /// The program's.
    Program,
    /// They are the program's already: it is outside the cache.
    Outside,
    /// In the middle of the translator's own instructions.
    Between,
    /// The registers were changed so that the thread continues elsewhere in the cache; its state there may be known or not.
    Continued,
}

/// Sets the registers of a thread to those after the call or return that it was about to execute.
pub(crate) fn complete(
    thread: &Thread,
    address_space: &AddressSpace,
    transfer: Transfer,
    registers: &mut Registers,
) -> State {
    let get = |offset| thread.contexts.borrow().get(thread.context, offset);
    match transfer {
        Transfer::Call(target) => registers.rip = target.get(),
        Transfer::CallOfRdx => {
            registers.rip = registers.rdx;
            registers.rcx = get(layout::SAVE_RCX);
            registers.rdx = get(layout::SAVE_RDX);
        }
        Transfer::Return { rcx_is_saved } => {
            let Ok(to) = address_space.memory.read_u64(Address::new(registers.rsp)) else { return State::Between };
            registers.rip = to;
            registers.rsp += 8;
            if rcx_is_saved {
                registers.rcx = get(layout::SAVE_RCX);
            }
        }
    }
    State::Program
}

/// Restores registers that are elsewhere.
pub(crate) fn restore(
    thread: &Thread,
    address_space: &AddressSpace,
    block: BlockId,
    moved: SpillState,
    registers: &mut Registers,
) {
    let cache = address_space.image.cache.borrow();
    let block = cache.block(block);
    let contexts = thread.contexts.borrow();
    let get = |offset| contexts.get(thread.context, offset);
    let lent = |register: Gpr, registers: &mut Registers| {
        *value(registers, register) = get(layout::SAVE_LENT);
    };
    let from_loop = |registers: &mut Registers| {
        if let Some(induction) = block.induction {
            let way = value(registers, induction.register).wrapping_sub(get(layout::LOOP_BASE));
            contexts.adjust(thread.context, block.slot, way as i64);
        }
        if let Some(register) = block.loop_counter {
            let r = value(registers, register);
            contexts.set(thread.context, layout::counter(block.slot), *r);
            *r = get(layout::SAVE_LOOP + 8 * u32::from(register.0));
            for register in block.loop_probes.map_or([None, None], |(t, u)| [Some(t), Some(u)]).into_iter().flatten() {
                *value(registers, register) = get(layout::SAVE_LOOP + 8 * u32::from(register.0));
            }
        }
    };
    match moved {
        SpillState::Nothing => {}
        SpillState::Lent(register) => lent(register, registers),
        SpillState::Rcx => registers.rcx = get(layout::SAVE_RCX),
        SpillState::RcxAndLent(register) => {
            // The lent register may be RCX; its lent value is not the program's.
            lent(register, registers);
            registers.rcx = get(layout::SAVE_RCX);
        }
        SpillState::RcxAndRdx => {
            registers.rcx = get(layout::SAVE_RCX);
            registers.rdx = get(layout::SAVE_RDX);
        }
        SpillState::Loop => from_loop(registers),
        SpillState::LoopAndLent(register) => {
            lent(register, registers);
            from_loop(registers);
        }
        SpillState::RcxIsNext => registers.rcx = block.next().get(),
    }
}

/// Corrects the counts if only the instructions before `offset` were executed: rprof counts them as a block of their own.
pub(crate) fn uncount(thread: &Thread, address_space: &AddressSpace, block: BlockId, offset: u16, at: CacheAddress) {
    let mut cache = address_space.image.cache.borrow_mut();
    let b = cache.block(block);
    if u32::from(offset) == b.code.end - b.code.start {
        return;
    }
    let counted = at - b.entry >= u64::from(b.counted_at);
    if counted {
        thread.contexts.borrow().adjust(thread.context, b.slot, -b.scale());
    }
    if offset > 0 {
        cache.counters.count_part(block, offset, thread.ordinal, thread.path.load(Ordering::Relaxed));
    }
}

/// Corrects the run-time sum of an instruction that will be executed again: adds the iterations so far of a `rep` instruction,
/// because the rest counts as a new one; subtracts active lanes.
pub(crate) fn settle_sum(
    thread: &Thread,
    address_space: &AddressSpace,
    block: BlockId,
    offset: u16,
    at: CacheAddress,
    rcx: u64,
) {
    let Some((slot, sum)) = address_space.image.cache.borrow().sum_before(block, offset, at) else { return };
    let contexts = thread.contexts.borrow();
    let get = |field| contexts.get(thread.context, field);
    let change = match sum {
        Sum::Iterations => {
            let (from, so_far) = (get(layout::REPEAT_FROM), get(layout::REPEAT_FROM).wrapping_sub(rcx));
            if thread.version.collects() {
                shorten_noted(&contexts, thread, &address_space.image.cache.borrow(), from, so_far);
            }
            so_far as i64
        }
        Sum::Lanes => -(get(layout::LANES) as i64),
    };
    contexts.adjust(thread.context, slot, change);
}

/// Changes the repeat count of the last records in the thread's buffer from `from` to `so_far`, for an interrupted `rep`
/// instruction.
fn shorten_noted(contexts: &Contexts, thread: &Thread, cache: &CodeCache, from: u64, so_far: u64) {
    const NUMBER: u64 = u32::MAX as u64;
    let (context, first) = (thread.context, u64::from(thread.version.buffer()));
    let end = contexts.get(context, layout::CURSOR).wrapping_sub(contexts.base(context).get());
    // At most a load and a store. If the buffer was emptied since, they cannot be corrected.
    for at in (1..=2).filter_map(|i| end.checked_sub(i * u64::from(REPEATED))).take_while(|&at| at >= first) {
        let number = contexts.get(context, at as u32 + 8) & NUMBER;
        let is_repeated =
            cache.counters.probe_sites.get(number as usize).is_some_and(|p| matches!(p.shape, Shape::Repeated { .. }));
        let count = at as u32 + REPEATED_COUNT;
        if !is_repeated || contexts.get(context, count) != from {
            return;
        }
        contexts.set(context, count, so_far);
    }
}

/// A general-purpose register by number.
pub(crate) fn value(registers: &mut Registers, register: Gpr) -> &mut u64 {
    match register.0 {
        0 => &mut registers.rax,
        1 => &mut registers.rcx,
        2 => &mut registers.rdx,
        3 => &mut registers.rbx,
        4 => &mut registers.rsp,
        5 => &mut registers.rbp,
        6 => &mut registers.rsi,
        7 => &mut registers.rdi,
        8 => &mut registers.r8,
        9 => &mut registers.r9,
        10 => &mut registers.r10,
        11 => &mut registers.r11,
        12 => &mut registers.r12,
        13 => &mut registers.r13,
        14 => &mut registers.r14,
        _ => &mut registers.r15,
    }
}

/// Whether an instruction raised it.
pub(crate) fn is_fault(signal: i32, info: &SignalInfo) -> bool {
    matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE) && info.si_code > 0
}
