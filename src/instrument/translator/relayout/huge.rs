//! Huge pages: after a relayout, rprof gathers the code cache in pages of 2 MB, with the tables that it reads and the counters.
//! Otherwise a program whose hot code exceeds the TLB's reach with small pages would wait for address translation, all the more
//! in a guest, whose addresses are translated twice (measured on cc1 in a guest, Zen 5: 4 % less time). A long-running process
//! takes some 10 MB more. Kernels before Linux 6.1, and those without huge pages for shared memory, change nothing.

use std::collections::VecDeque;

use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::tracer::process::Process;

/// Bytes of a huge page.
pub const HUGE: u64 = 2 << 20;

/// Memory to move to one huge page.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stretch {
    /// Of an arena, from an offset on.
    Code(usize, u64),
    /// Of the tables, from an offset on.
    Tables(u64),
    /// The first counters of a region.
    Counters(u32, u64),
}

impl CodeCache {
    /// Plans to gather everything that blocks and the threads of `regions` touch.
    pub(crate) fn plan_gathering(&mut self, regions: &[u32]) {
        let pages = |bytes: u64| (0..bytes).step_by(HUGE as usize);
        let code = |(i, arena): (usize, &crate::instrument::translator::code_cache::arena::Arena)| {
            pages(arena.hot_bytes()).map(move |at| Stretch::Code(i, at))
        };
        let mut plan: VecDeque<Stretch> = self.arenas.iter().enumerate().flat_map(code).collect();
        plan.extend(pages(self.tables.size()).map(Stretch::Tables));
        let counters = u64::from(crate::instrument::translator::code_cache::layout::counter(self.slots));
        plan.extend(regions.iter().flat_map(|&r| pages(counters).map(move |at| Stretch::Counters(r, at))));
        self.gathering = plan;
    }
}

impl Process {
    /// Gathers one more stretch; returns whether there was any.
    pub(crate) fn gather_some(&mut self) -> bool {
        let mut space = self.image.space.borrow_mut();
        let Some(stretch) = space.gathering.pop_front() else { return false };
        match stretch {
            Stretch::Code(arena, at) => space.arenas[arena].gather(at),
            Stretch::Tables(at) => space.tables.gather(at),
            Stretch::Counters(region, at) => self.image.regions.borrow().gather(region, at),
        }
        true
    }
}
