//! Huge pages: after a relayout, rprof gathers the code cache in pages of 2 MB, with the tables that it reads and the counters.
//! Otherwise a program whose hot code exceeds the TLB's reach with small pages would wait for address translation, all the more
//! in a guest with its two-level address translation (measured on cc1 in a guest, Zen 5: 4 % less time). A long-running process
//! takes some 10 MB more. Kernels before Linux 6.1, and those without huge pages for shared memory, change nothing.

use std::collections::VecDeque;

use crate::translator::code_cache::arena::Arena;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::shared::HUGE;

/// Memory to move to one huge page.
#[derive(Debug, Clone, Copy)]
enum Stretch {
    /// Of an arena, from an offset on.
    Code(usize, u64),
    /// Of the tables, from an offset on.
    Tables(u64),
    /// The first counters of a context.
    Counters(u32, u64),
}

/// Stretches of memory that are still to be moved.
#[derive(Debug, Default)]
pub struct Gathering(VecDeque<Stretch>);

impl Gathering {
    /// Everything that blocks and the threads of `contexts` touch.
    pub fn plan(cache: &CodeCache, contexts: &[u32]) -> Gathering {
        let pages = |bytes: u64| (0..bytes).step_by(HUGE as usize);
        let code = |(i, arena): (usize, &Arena)| pages(arena.hot_bytes()).map(move |at| Stretch::Code(i, at));
        let mut plan: VecDeque<Stretch> = cache.arenas.iter().enumerate().flat_map(code).collect();
        plan.extend(pages(cache.tables.size()).map(Stretch::Tables));
        let counters = u64::from(layout::counter(cache.counters.slots));
        plan.extend(contexts.iter().flat_map(|&r| pages(counters).map(move |at| Stretch::Counters(r, at))));
        Gathering(plan)
    }

    /// Moves one more stretch; returns whether there was any.
    pub fn go_on(&mut self, cache: &CodeCache, contexts: &Contexts) -> bool {
        let Some(stretch) = self.0.pop_front() else { return false };
        match stretch {
            Stretch::Code(arena, at) => cache.arenas[arena].gather(at),
            Stretch::Tables(at) => cache.tables.gather(at),
            Stretch::Counters(context, at) => contexts.gather(context, at),
        }
        true
    }
}
