//! Corrects the counters of threads that end.

use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::code_cache::unsettled::Due;
use crate::instrument::translator::kernel::program_state::{State, restore, uncount, value};
use crate::instrument::translator::tracer::run::Run;
use crate::tracee::address::CacheAddress;
use crate::tracee::thread::Stopped;

impl Run {
    /// Corrects the counters of a thread that ends. If it is already gone, its registers are not available.
    pub fn settle(&mut self, ending: &Stopped) {
        let Ok(mut registers) = ending.registers() else { return };
        if let Ok(process) = self.process(ending.tid())
            && let Some(at) = process.image.space.borrow().expelled_at(registers.rip, false)
        {
            // The thread has executed no instruction of the program there.
            registers.rip = at.get();
        }
        let at = CacheAddress::new(registers.rip);
        let Ok(State::Between) = self.as_the_program_has_it(ending.tid(), &mut registers) else { return };
        let Some(thread) = self.threads.get(&ending.tid()) else { return };
        let Some(process) = self.processes.get(&thread.process) else { return };
        let (due, state) = {
            let space = process.image.space.borrow();
            (space.due_at(at), space.state_before(at))
        };
        let is_due = !due.is_empty();
        for (slot, due) in due {
            let regions = thread.regions.borrow();
            match due {
                Due::Executions(n) => regions.adjust(thread.region, slot, n),
                Due::Register(r) => regions.set(thread.region, layout::counter(slot), *value(&mut registers, r)),
                Due::Way(r) => {
                    let base = regions.get(thread.region, layout::LOOP_BASE);
                    regions.adjust(thread.region, slot, value(&mut registers, r).wrapping_sub(base) as i64);
                }
            }
        }
        if let Some((block, executed, moved)) = state.filter(|_| !is_due) {
            restore(thread, process, block, moved, &mut registers);
            uncount(thread, process, block, executed, at);
        }
    }
}
