//! Hot blocks are written a second time, once they are known: close together, in the order in which they are executed
//! ([`pettis_hansen`](crate::translator::relayout::pettis_hansen)), and with fewer counters
//! ([`edge_counters`](crate::translator::translate::edge_counters)). rprof then relinks every exit and every lookup
//! from the first copy to the new one; both count. The hot blocks of a leaf are also inlined at its calls
//! ([`inline_emit`](crate::translator::relayout::inline_emit)).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::translator::code_cache::cache::{CodeCache, Style};
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::hash::AddressMap;
use crate::translator::code_cache::version::Version;
use crate::translator::relayout::chain_writer::ChainWriter;
use crate::translator::relayout::execution::{Execution, Need};
use crate::translator::relayout::huge::Gathering;
use crate::translator::relayout::pettis_hansen::{HotBlock, Placed, chains, successors};
use crate::translator::relayout::target_prediction::look_where_jumps_go;
use crate::translator::translate::edge_counters::runs_on;
use crate::translator::translate::text_reader::Source;
use crate::x86_64::decode::{Decoded, Terminator};
use crate::x86_64::liveness::Dead;
use crate::x86_64::quick::has_quick_loop;
use rprof_tracee::address::Address;
use rprof_tracee::wake_up::Ticks;

/// Time from the start of a code cache to its first relayout: a program that ends sooner does not benefit. (Measured with 25 ms
/// instead of 300, Intel with AVX-512: an interpreter of 0.26 s 1.21 times native instead of 1.34, a quicksort of 0.12 s 1.21
/// instead of 1.45.)
const FIRST: Duration = Duration::from_millis(25);
/// Time between two looks whether other blocks are hot. A phase of a program may be short.
const AGAIN: Duration = Duration::from_millis(50);
/// A look comes no sooner than this multiple of the time that the previous one took.
const LOOKS_PART: u32 = 50;
/// See [`PlacingSettings::part`].
const PART: u32 = 10;
/// A code cache in which more than one block in this many is new since the previous check is still filling: the program is
/// starting, other blocks will soon be hot, and threads that ask for translations would wait for the plan.
const FILLING: usize = 32;
/// Longest delay of relayout for such a cache, as a multiple of the first wait.
const PUT_OFF: u32 = 36;
/// Shortest interval between two checks whether relayout is due.
const LOOK: Duration = Duration::from_millis(25);
/// See [`PlacingSettings::worth`]: relayout of a rarer block takes longer than it can save (measured: of 26,000 hot blocks of a
/// starting cc1, 10,000 remain, and a file of 100 lines is compiled in 0.95 s instead of 1.1).
const WORTH: u64 = 500;
/// From this many hot blocks on, they may lie on more small pages than the TLB holds. For fewer, huge pages only cost memory.
const MANY: usize = 2000;
/// From this many hot blocks on, they have more taken branches than the branch target buffer holds, and more code than the
/// instruction caches hold (measured: CPython has 4,000 hot blocks and is slower if branches are spared, but faster if indirect
/// calls compare their usual target in place; the opposite holds for 3,000 functions that call two others each, which have
/// 15,000, and for cc1, which has 58,000).
const MANY_BRANCHES: usize = 10_000;
/// A plan is put off this often at most while threads wait: targets of jumps cannot be seen then.
const MOST_PUT_OFF: u32 = 4;
/// See [`PlacingSettings::leaf_bytes`].
const LEAF_BYTES: usize = 160;

/// When and how hot blocks are relaid out.
#[derive(Debug, Clone, Copy)]
pub struct PlacingSettings {
    /// Time from a program's start to the first relayout.
    pub after: Duration,
    /// Time between two looks from there on.
    pub again: Duration,
    /// Relayout takes at most one part in this many of the time since the program's start, from the second time on; with 0, it takes
    /// whatever it needs.
    pub part: u32,
    /// From this many hot blocks on, they have more taken branches than the branch target buffer holds: their landings avoid
    /// taken branches, at the cost of saving the flags.
    pub spare_branches_from: usize,
    /// From this many hot blocks on, their code is kept short: returns share a lookup stub, and indirect calls do not compare
    /// their usual target in place. (Not measured on AMD.)
    pub short_code_from: usize,
    /// Blocks executed less often than this since the previous look are not relaid out.
    pub worth: u64,
    /// Largest number of hot bytes of a leaf that rprof inlines.
    pub leaf_bytes: usize,
}

impl Default for PlacingSettings {
    /// The settings that measured best for this CPU. If `loop` is quick, no landing takes a branch anyway.
    fn default() -> Self {
        let spare_branches_from = if has_quick_loop() { usize::MAX } else { MANY_BRANCHES };
        PlacingSettings {
            after: FIRST,
            again: AGAIN,
            part: PART,
            spare_branches_from,
            short_code_from: MANY_BRANCHES,
            worth: WORTH,
            leaf_bytes: LEAF_BYTES,
        }
    }
}

impl PlacingSettings {
    /// Interval between two looks.
    fn look(&self) -> Duration {
        self.after.min(LOOK)
    }
}

/// The state of relayout: recent counts, and the plan.
#[derive(Debug)]
pub struct Placing {
    settings: PlacingSettings,
    begun: Instant,
    due: Instant,
    /// Time that relayout has taken so far.
    spent: Duration,
    /// Counts at the last look that found no need for relayout, or at the last relayout.
    before: Vec<u64>,
    /// Number of blocks at the previous check whether relayout is due.
    blocks: usize,
    /// Number of relayouts so far.
    pub(crate) round: u32,
    /// Execution between each round and the one before, in bytes of blocks. The first entry is for blocks in no round: 0.
    executed: Vec<u64>,
    /// Chains still to be written.
    plan: VecDeque<Vec<Placed>>,
    /// The hot blocks of those chains, by address.
    hot_blocks: AddressMap<u64, HotBlock>,
    /// Contexts of the threads with counts that were read.
    contexts: Vec<u32>,
    /// Number of hot blocks at the last relayout.
    hot: usize,
    /// Memory to move to huge pages.
    gathering: Gathering,
    /// How often the present plan was put off, since too few jumps were seen.
    put_off: u32,
}

impl Placing {
    /// Nothing was executed yet.
    pub fn new(settings: PlacingSettings) -> Self {
        let begun = Instant::now();
        Placing {
            settings,
            begun,
            due: begun + settings.after,
            spent: Duration::ZERO,
            before: Vec::new(),
            blocks: 0,
            round: 0,
            executed: vec![0],
            plan: VecDeque::new(),
            hot_blocks: AddressMap::default(),
            contexts: Vec::new(),
            hot: 0,
            gathering: Gathering::default(),
            put_off: 0,
        }
    }

    /// How relaid-out code is written, by the number of hot blocks.
    pub fn style(&self) -> Style {
        Style {
            spares_branches: self.hot >= self.settings.spare_branches_from,
            is_short: self.hot >= self.settings.short_code_from,
        }
    }

    /// Time of the next look for hot blocks.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether relayout is due in a code cache that has `blocks` by now. Relayout of a cache that is still filling waits, and so does another
    /// one while chains of the last plan are still to be written.
    pub fn is_time(&mut self, now: Instant, blocks: usize) -> bool {
        let new = blocks.saturating_sub(std::mem::replace(&mut self.blocks, blocks));
        let is_due = now >= self.due;
        let fills = self.round == 0 && new * FILLING > blocks && now < self.begun + PUT_OFF * self.settings.after;
        if is_due && fills {
            self.due = now + LOOK;
        }
        is_due && !fills && !self.is_carrying_out()
    }

    /// All counters begin at 0 again, since threads had left the code cache: no plan is made from what they have counted by `now`.
    pub(crate) fn begin_again(&mut self, now: Instant) {
        self.before.clear();
        self.due = self.due.max(now + self.settings.after);
    }

    /// The increase of each counter since then.
    fn recent(&self, counts: &[u64]) -> Vec<u64> {
        let then = self.before.iter().copied().chain(std::iter::repeat(0));
        // A thread that has ended took its counts along.
        counts.iter().zip(then).map(|(now, then)| now.saturating_sub(then)).collect()
    }

    /// A look that began at `now` has ended.
    fn looked(&mut self, now: Instant) {
        self.due = now + self.settings.again.max(LOOKS_PART * now.elapsed());
    }

    /// Whether relayout at `now` would not take more than its part of the time.
    fn may_take_time(&self, now: Instant) -> bool {
        self.round == 0 || self.settings.part * self.spent <= now.saturating_duration_since(self.begun)
    }
}

impl Placing {
    /// Writes the next chain of the plan; `false` if there is none. A looked-up address keeps its first entry, which then leads
    /// to the new copy.
    pub fn place_some(&mut self, cache: &mut CodeCache, source: &mut Source<'_>) -> bool {
        let Some(chain) = self.plan.pop_front() else { return false };
        let begun = Instant::now();
        ChainWriter::new(cache, source, &self.hot_blocks, self.settings.leaf_bytes).place(&chain, self.round);
        if self.plan.is_empty() {
            self.hot_blocks = AddressMap::default();
            if self.hot >= MANY {
                let contexts = std::mem::take(&mut self.contexts);
                self.gathering = Gathering::plan(cache, &contexts);
            }
        }
        self.spent += begun.elapsed();
        true
    }

    /// Whether chains are still to be written.
    pub fn is_carrying_out(&self) -> bool {
        !self.plan.is_empty()
    }

    /// Moves one more stretch of memory to a huge page; returns whether there was any.
    pub fn gather_some(&mut self, cache: &CodeCache, contexts: &Contexts) -> bool {
        self.gathering.go_on(cache, contexts)
    }

    /// Looks at the counters of threads, those in the contexts `of`, and plans a relayout if much recent execution would gain
    /// from it; later, if these threads hardly move.
    pub fn plan(
        &mut self,
        cache: &mut CodeCache,
        contexts: &Contexts,
        source: &mut Source<'_>,
        (mut counts, of): (Vec<u64>, Vec<u32>),
        now: Instant,
    ) {
        cache.add_flows(&mut counts);
        let recent = self.recent(&counts);
        let execution = Execution::of(cache, &recent, self.settings.worth, self.executed.len());
        let need = execution.need(&self.executed);
        if need != Need::Relayout || !self.may_take_time(now) {
            if need == Need::None {
                self.before = counts;
            }
            self.looked(now);
            return;
        }
        let seen = look_where_jumps_go(cache, contexts, (&recent, &of), self.settings.worth);
        if !seen && self.put_off < MOST_PUT_OFF {
            self.put_off += 1;
            self.due = now + self.settings.after;
            return;
        }
        self.put_off = 0;
        self.contexts = of;
        self.before = counts;
        self.executed.push(execution.all);
        let hot = execution.hot(cache);
        self.hot = hot.len();
        cache.style = self.style();
        let blocks = hot.into_iter().filter(|(_, count)| *count >= self.settings.worth);
        let mut hot = Vec::new();
        for (id, count) in blocks {
            let at = cache.block(id).start;
            // Calls of a marker function, or those that are recorded, must reach the code that reports the call.
            if cache.markers.contains_key(&at.get()) || cache.watched.at(at.get()).is_some() {
                continue;
            }
            if let Some(block) = source.block(at) {
                let (successors, repeats) = cache.runs_into(&block);
                let runs_on = runs_on(&block, successors[0]);
                let needs_flags = source.dead_at(at) == Dead::None;
                hot.push(HotBlock { at, count, successors, runs_on, repeats, needs_flags });
            }
        }
        self.hot_blocks = hot.iter().map(|b| (b.at.get(), *b)).collect();
        self.round += 1;
        self.plan = chains(&hot).into();
        self.spent += now.elapsed();
        self.looked(Instant::now());
    }
}

/// Looks from time to time.
#[derive(Debug)]
pub struct HotnessPoll {
    looked: Instant,
    /// Settings for new code caches.
    pub settings: PlacingSettings,
    /// Interrupts rprof's wait; without it, rprof looks when another event wakes it.
    pub ticks: Ticks,
}

impl HotnessPoll {
    /// Looks from now on, for code caches with these settings.
    pub fn new(settings: PlacingSettings) -> Self {
        let mut ticks = Ticks::new(settings.look());
        ticks.go_on();
        HotnessPoll { looked: Instant::now(), settings, ticks }
    }

    /// Whether to look now; restarts the interval if so.
    pub fn is_time(&mut self, now: Instant) -> bool {
        let is_time = now.duration_since(self.looked) >= self.settings.look();
        if is_time {
            self.looked = now;
        }
        is_time
    }
}

impl CodeCache {
    /// Whether the block at `at` begins a chain: so do blocks that are called or looked up, because their entry code directly
    /// precedes them.
    fn begins_chain(&self, at: Address) -> bool {
        let place = Version::Plain.place(at);
        let looked_up = self.lookups.entries.contains_key(&place) || self.lookups.callee_entries.contains_key(&place);
        looked_up || self.lookups.callees.contains(&place)
    }

    /// The blocks that may follow `block` in a chain, and whether `block` is its own successor. Blocks that begin a chain are
    /// excluded, except for the usual target of its indirect jump.
    fn runs_into(&self, block: &Decoded) -> ([Option<Address>; 2], bool) {
        if block.end == Terminator::JumpIndirect {
            let is_called = |at: &Address| self.lookups.callees.contains(&Version::Plain.place(*at));
            return ([self.usual.target(block.start).filter(|to| !is_called(to)), None], false);
        }
        let all = successors(block.end, block.next());
        (all.map(|s| s.filter(|at| !self.begins_chain(*at))), all.contains(&Some(block.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_space_that_fills_are_placed_later_but_they_are() {
        let first = Duration::from_millis(100);
        let at = |placing: &Placing, n: u64| placing.begun + Duration::from_millis(n);
        let settings = PlacingSettings { after: first, ..PlacingSettings::default() };
        let mut placing = Placing::new(settings);
        assert!(!placing.is_time(at(&placing, 99), 900), "it is not due");
        assert!(!placing.is_time(at(&placing, 101), 1000), "a tenth is new");
        assert_eq!(placing.due(), at(&placing, 126), "until then it may be lent");
        assert!(!placing.is_time(at(&placing, 120), 1000), "it was put off");
        assert!(placing.is_time(at(&placing, 126), 1001), "it hardly grows any more");
        let mut placing = Placing::new(settings);
        assert!(!placing.is_time(at(&placing, 3500), 1000));
        assert!(placing.is_time(at(&placing, 3601), 2000), "not for ever");
        placing.round = 1;
        placing.due = at(&placing, 3700);
        assert!(placing.is_time(at(&placing, 5000), 4000), "only the first time");
    }

    #[test]
    fn relayout_takes_a_part_of_the_time() {
        let settings = PlacingSettings { part: 10, ..PlacingSettings::default() };
        let mut placing = Placing::new(settings);
        placing.spent = Duration::from_millis(100);
        let soon = placing.begun + Duration::from_millis(900);
        assert!(placing.may_take_time(soon), "the first time");
        placing.round = 1;
        assert!(!placing.may_take_time(soon));
        assert!(placing.may_take_time(soon + Duration::from_millis(100)));
    }
}
