//! A thread that ends where it is: its counters are made to say what it executed, to the last instruction.
//!
//! A signal waits until the program's state is known; here nothing is executed any more. What there is to know of a place in
//! between stands with it where a counter is about to be changed for more than the block there; elsewhere the point
//! before tells which instructions of the block were executed: they are counted as a block of their own.

use crate::instrument::translator::code_cache::block::{BlockId, Moved};
use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::kernel::signals::{State, restore, uncount, value};
use crate::instrument::translator::tracer::event_loop::Run;
use crate::instrument::x86_64::emit::Gpr;
use crate::tracee::address::CacheAddress;
use crate::tracee::thread::Stopped;

/// A part of the cache in which a counter is not what was executed.
#[derive(Debug)]
pub struct Unsettled {
    /// Its first instruction.
    pub from: CacheAddress,
    /// One past its last.
    pub until: CacheAddress,
    /// The counter.
    pub slot: u32,
    /// What makes it so.
    pub due: Due,
}

/// What is to happen to a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This is to be added.
    Executions(i64),
    /// It stands in this register.
    Register(Gpr),
    /// The way of a loop's induction register is to be added.
    Way(Gpr),
}

impl CodeCache {
    /// What is to happen to which counters if a thread ends at `at`.
    fn due_at(&self, at: CacheAddress) -> Vec<(u32, Due)> {
        self.unsettled.iter().filter(|u| u.from <= at && at < u.until).map(|u| (u.slot, u.due)).collect()
    }

    /// Of a place between two points of a block: (block, bytes of it that were executed, what stands elsewhere). `None`
    /// behind the end of a loop or a call, which has been counted: it was executed.
    fn state_before(&self, at: CacheAddress) -> Option<(BlockId, u16, Moved)> {
        let (id, before) = self.last_point(at)?;
        let block = self.block(id);
        let (point, behind) = self.points[before..block.points.end as usize].split_first()?;
        // What a branch goes on with is not reached yet at the padding before it.
        let has_gone_on = block.landing.is_some() || matches!(point.moved, Moved::Loop);
        if behind.is_empty() && has_gone_on && at - block.entry >= u64::from(block.counted_at) {
            return None;
        }
        let executed = match point.moved {
            // A register is lent until the instruction has been executed, and then comes back.
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
    /// A thread ends where it is. One that is already gone says nothing any more.
    pub fn settle(&mut self, ending: &Stopped) {
        let Ok(mut registers) = ending.registers() else { return };
        if let Ok((process, _)) = self.process(ending.tid())
            && let Some(at) = process.image.space.borrow().expelled_at(registers.rip, false)
        {
            // It has executed nothing of the program there.
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
