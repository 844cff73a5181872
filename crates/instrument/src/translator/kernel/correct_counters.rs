//! Corrects the counters of threads that end.

use crate::translator::code_cache::layout;
use crate::translator::code_cache::unsettled::Due;
use crate::translator::kernel::program_state::{restore, uncount, value};
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use rprof_tracee::address::CacheAddress;
use rprof_tracee::thread::Registers;

/// Corrects the counters of a thread that ends at `at`, between two places with a known program state.
pub(crate) fn correct_counters(
    thread: &Thread,
    address_space: &AddressSpace,
    at: CacheAddress,
    registers: &mut Registers,
) {
    let (due, state) = {
        let cache = address_space.image.cache.borrow();
        (cache.counters.due_at(at), cache.state_before(at))
    };
    let is_due = !due.is_empty();
    for (slot, due) in due {
        let contexts = thread.contexts.borrow();
        match due {
            Due::Executions(n) => contexts.adjust(thread.context, slot, n),
            Due::Register(r) => contexts.set(thread.context, layout::counter(slot), *value(registers, r)),
            Due::Way(r) => {
                let base = contexts.get(thread.context, layout::LOOP_BASE);
                contexts.adjust(thread.context, slot, value(registers, r).wrapping_sub(base) as i64);
            }
        }
    }
    if let Some((block, executed, moved)) = state.filter(|_| !is_due) {
        restore(thread, address_space, block, moved, registers);
        uncount(thread, address_space, block, executed, at);
    }
}
