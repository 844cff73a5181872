//! Corrects the counters of a thread that ends at any place, so that they are exact to the last instruction.
//!
//! A signal waits until the program's state is known; an ending thread executes nothing any more. If a counter change is pending
//! for more than the current block, [`Unsettled`] describes the range. Elsewhere the last point shows which instructions of the
//! block were executed: rprof counts them as a block of their own.

use crate::translator::code_cache::block::{BlockId, SpillState};
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::counters::Counters;
use crate::translator::code_cache::unsettled::Due;
use rprof_tracee::address::CacheAddress;

impl Counters {
    /// The counters and their pending changes if a thread ends at `at`.
    pub(crate) fn due_at(&self, at: CacheAddress) -> Vec<(u32, Due)> {
        self.unsettled.iter().filter(|u| u.from <= at && at < u.until).map(|u| (u.slot, u.due)).collect()
    }
}

impl CodeCache {
    /// State between two points of a block: (block, bytes of it that were executed, moved registers). `None` behind the end of a
    /// loop or a call that has been counted: it was executed.
    pub(crate) fn state_before(&self, at: CacheAddress) -> Option<(BlockId, u16, SpillState)> {
        let (id, before) = self.last_point(at)?;
        let block = self.block(id);
        let (point, behind) = self.points[before..block.points.end as usize].split_first()?;
        // At the padding before a branch, the thread has not reached the branch yet.
        let has_gone_on = block.landing.is_some() || matches!(point.moved, SpillState::Loop);
        if behind.is_empty() && has_gone_on && at - block.entry >= u64::from(block.counted_at) {
            return None;
        }
        let executed = match point.moved {
            // The program's register stays in the slot until the instruction has been executed; then the code reloads it.
            SpillState::Lent(_) | SpillState::RcxAndLent(_) | SpillState::LoopAndLent(_) => {
                let next = behind.iter().map(|p| p.program).find(|&program| program > point.program);
                next.unwrap_or((block.code.end - block.code.start) as u16)
            }
            _ => point.program,
        };
        Some((id, executed, point.moved))
    }
}
