//! Corrects the counters of a thread that ends at any place, so that they are exact to the last instruction.
//!
//! A signal waits until the program's state is known; an ending thread executes nothing any more. Where a counter change is
//! pending for more than the current block, [`Unsettled`] describes the range. Elsewhere the last point shows which instructions
//! of the block were executed: rprof counts them as a block of their own.

use crate::instrument::translator::code_cache::block::{BlockId, Moved};
use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::kernel::signals::{State, restore, uncount, value};
use crate::instrument::translator::tracer::event_loop::Run;
use crate::instrument::x86_64::emit::Gpr;
use crate::tracee::address::CacheAddress;
use crate::tracee::thread::Stopped;

/// A range of the cache in which a counter differs from the executions.
#[derive(Debug)]
pub struct Unsettled {
    /// Its first instruction.
    pub from: CacheAddress,
    /// One past its last.
    pub until: CacheAddress,
    /// The counter.
    pub slot: u32,
    /// The change that corrects it.
    pub due: Due,
}

/// A pending change of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Add this number.
    Executions(i64),
    /// Set it to this register.
    Register(Gpr),
    /// Add the distance that a loop's induction register has moved.
    Way(Gpr),
}

impl CodeCache {
    /// The counters and their pending changes if a thread ends at `at`.
    fn due_at(&self, at: CacheAddress) -> Vec<(u32, Due)> {
        self.unsettled.iter().filter(|u| u.from <= at && at < u.until).map(|u| (u.slot, u.due)).collect()
    }

    /// State between two points of a block: (block, bytes of it that were executed, moved registers). `None` behind the end of a
    /// loop or a call that has been counted: it was executed.
    fn state_before(&self, at: CacheAddress) -> Option<(BlockId, u16, Moved)> {
        let (id, before) = self.last_point(at)?;
        let block = self.block(id);
        let (point, behind) = self.points[before..block.points.end as usize].split_first()?;
        // At the padding before a branch, the thread has not reached the branch yet.
        let has_gone_on = block.landing.is_some() || matches!(point.moved, Moved::Loop);
        if behind.is_empty() && has_gone_on && at - block.entry >= u64::from(block.counted_at) {
            return None;
        }
        let executed = match point.moved {
            // The program's register stays in the slot until the instruction has been executed; then the code reloads it.
            Moved::Lent(_) | Moved::RcxAndLent(_) | Moved::LoopAndLent(_) => {
                let next = behind.iter().map(|p| p.program).find(|&program| program > point.program);
                next.unwrap_or((block.code.end - block.code.start) as u16)
            }
            _ => point.program,
        };
        Some((id, executed, point.moved))
    }
}

impl Run {
    /// Corrects the counters of a thread that ends. If it is already gone, its registers are not available.
    pub fn settle(&mut self, ending: &Stopped) {
        let Ok(mut registers) = ending.registers() else { return };
        if let Ok((process, _)) = self.process(ending.tid())
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
