//! Hot blocks are written a second time, once they are known: close together, in the order in which they are executed
//! ([`pettis_hansen`](crate::instrument::translator::relayout::pettis_hansen)), and with fewer counters
//! ([`edge_counters`](crate::instrument::translator::translate::edge_counters)). rprof then relinks every exit and every lookup
//! from the first copy to the new one; both count. The hot blocks of a leaf are also inlined at its calls
//! ([`inline_emit`](crate::instrument::translator::relayout::inline_emit)).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::instrument::translator::code_cache::block::BlockId;
use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::hash::AddressMap;
use crate::instrument::translator::code_cache::version::Version;
use crate::instrument::translator::relayout::inline_analysis::{Leaf, leaf};
use crate::instrument::translator::relayout::pettis_hansen::{HotBlock, Placed, chains, successors};
use crate::instrument::translator::relayout::rcx_elision;
use crate::instrument::translator::relayout::target_prediction::UsualTarget;
use crate::instrument::translator::tracer::event_loop::Run;
use crate::instrument::translator::tracer::heap;
use crate::instrument::translator::tracer::process::Process;
use crate::instrument::translator::translate::ahead::Exits;
use crate::instrument::translator::translate::edge_counters::runs_on;
use crate::instrument::translator::translate::superblock::Superblock;
use crate::instrument::translator::translate::text_reader::Source;
use crate::instrument::x86_64::decode::{Decoded, End};
use crate::instrument::x86_64::quick::has_quick_loop;
use crate::tracee::address::Address;
use crate::tracee::wake_up::WakeUp;

/// Time from the start of a code cache to its first relayout: a program that ends sooner does not benefit. (Measured with 25 ms
/// instead of 300, Intel with AVX-512: an interpreter of 0.26 s 1.21 times native instead of 1.34, a quicksort of 0.12 s 1.21
/// instead of 1.45.)
const FIRST: Duration = Duration::from_millis(25);
/// Time from there to the second relayout, which happens if other blocks are hot by then.
const AGAIN: Duration = Duration::from_millis(300);
/// A code cache in which more than one block in this many is new since the previous check is still filling: the program is
/// starting, other blocks will soon be hot, and threads that ask for translations would wait for the plan.
const FILLING: usize = 32;
/// Longest delay of relayout for such a cache, as a multiple of the first wait.
const PUT_OFF: u32 = 36;
/// Factor by which the interval grows each time.
const LONGER: u32 = 4;
/// Shortest interval between two checks whether relayout is due.
const LOOK: Duration = Duration::from_millis(25);
/// Share of recent execution that the hot blocks cover.
const HOT: f64 = 0.995;
/// If well-placed blocks cover this share of it, no block is relaid out.
const WELL_PLACED: f64 = 0.9;
/// A block is not well placed if less than one part in this many of the recent execution had been seen when it was placed.
const LITTLE: u64 = 8;
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
/// See [`PlacingSettings::leaf_bytes`].
const LEAF_BYTES: usize = 160;
/// Once a chain has this many bytes, rprof inlines no more leaves into it: an arena has room for any chain without inlined
/// bodies.
const COPIES: usize = 256 << 10;
/// Number of threads whose counts are read.
const THREADS: usize = 4;

/// When and how hot blocks are relaid out.
#[derive(Debug, Clone, Copy)]
pub struct PlacingSettings {
    /// Time from a program's start to the first relayout.
    pub after: Duration,
    /// Time from there to the second relayout.
    pub again: Duration,
    /// Factor by which that interval grows each time.
    pub longer: u32,
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
    /// The settings that measured best for this CPU. Where `loop` is quick, no landing takes a branch anyway.
    fn default() -> Self {
        let spare_branches_from = if has_quick_loop() { usize::MAX } else { MANY_BRANCHES };
        PlacingSettings {
            after: FIRST,
            again: AGAIN,
            longer: LONGER,
            spare_branches_from,
            short_code_from: MANY_BRANCHES,
            worth: WORTH,
            leaf_bytes: LEAF_BYTES,
        }
    }
}

/// The state of relayout: recent counts, and the plan.
#[derive(Debug)]
pub struct Placing {
    settings: PlacingSettings,
    begun: Instant,
    due: Instant,
    interval: Duration,
    /// Counts at the last look.
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
    /// Regions of the threads whose counts were read.
    regions: Vec<u32>,
    /// Number of hot blocks at the last relayout.
    hot: usize,
}

impl Placing {
    /// Nothing was executed yet.
    pub fn new(settings: PlacingSettings) -> Self {
        let begun = Instant::now();
        Placing {
            settings,
            begun,
            due: begun + settings.after,
            interval: settings.again,
            before: Vec::new(),
            blocks: 0,
            round: 0,
            executed: vec![0],
            plan: VecDeque::new(),
            hot_blocks: AddressMap::default(),
            regions: Vec::new(),
            hot: 0,
        }
    }

    /// Time of the next look for hot blocks.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether relayout is due in a code cache that has `blocks` by now. Relayout of a cache that is still filling waits.
    fn is_time(&mut self, now: Instant, blocks: usize) -> bool {
        let new = blocks.saturating_sub(std::mem::replace(&mut self.blocks, blocks));
        let is_due = now >= self.due;
        let fills = self.round == 0 && new * FILLING > blocks && now < self.begun + PUT_OFF * self.settings.after;
        if is_due && fills {
            self.due = now + LOOK;
        }
        is_due && !fills
    }

    /// All counters begin at 0 again: threads have left the code cache.
    pub(crate) fn forget_counts(&mut self) {
        self.before.clear();
    }

    /// The increase of each counter since the last look.
    fn look(&mut self, now: Instant, counts: Vec<u64>) -> Vec<u64> {
        self.due = now + self.interval;
        self.interval *= self.settings.longer;
        let before = std::mem::replace(&mut self.before, counts);
        let then = before.into_iter().chain(std::iter::repeat(0));
        // A thread that has ended took its counts along.
        self.before.iter().zip(then).map(|(now, then)| now.saturating_sub(then)).collect()
    }
}

/// Looks from time to time.
#[derive(Debug)]
pub struct Looks {
    looked: Instant,
    /// Settings for new code caches.
    pub settings: PlacingSettings,
    /// Interrupts rprof's wait; without it, rprof looks when another event wakes it.
    _wake_up: Option<WakeUp>,
}

impl Looks {
    /// Looks from now on, for code caches with these settings.
    pub fn new(settings: PlacingSettings) -> Self {
        let mut wake_up = WakeUp::new().ok();
        if wake_up.as_mut().is_some_and(|w| w.set(settings.after.min(LOOK)).is_err()) {
            wake_up = None;
        }
        Looks { looked: Instant::now(), settings, _wake_up: wake_up }
    }

    fn is_time(&mut self, now: Instant) -> bool {
        let is_time = now.duration_since(self.looked) >= self.settings.after.min(LOOK);
        if is_time {
            self.looked = now;
        }
        is_time
    }
}

impl Run {
    /// Plans the relayout of all code caches for which it is due.
    pub fn look_for_hot_blocks(&mut self) {
        let now = Instant::now();
        if !self.looks.is_time(now) {
            return;
        }
        // A suitable moment: this code runs now and then, and no thread waits for it.
        heap::advise();
        for (&id, process) in &mut self.processes {
            let (is_time, slots) = {
                let mut space = process.image.space.borrow_mut();
                let blocks = space.blocks.len();
                (space.placing.is_time(now, blocks), space.slots)
            };
            if !is_time {
                continue;
            }
            let mut counts = vec![0; slots as usize];
            let mut regions = Vec::new();
            for thread in self.threads.values().filter(|t| t.process == id).take(THREADS) {
                let add = |slot: u32, n: u64| counts[slot as usize] = n.wrapping_add(counts[slot as usize]);
                // Our own memfd can always be read.
                let _ = thread.regions.borrow().counters(thread.region, slots, add);
                regions.push(thread.region);
            }
            process.image.space.borrow_mut().placing.regions = regions;
            process.plan_places(counts, now);
        }
    }
}

impl CodeCache {
    /// The blocks that cover nearly all `recent` execution: (block, executions).
    fn hot_blocks(&mut self, recent: &[u64]) -> Vec<(BlockId, u64)> {
        let mut all = 0;
        let mut placed_in = vec![0u64; self.placing.executed.len()];
        // Inlined blocks count for their originals.
        let mut counts = vec![0u64; self.blocks.len()];
        for (id, block) in self.blocks.iter().enumerate().filter(|(_, b)| b.alive && b.version == Version::Plain) {
            let count = recent.get(block.slot as usize).map_or(0, |&n| (n as i64 / block.scale()).unsigned_abs());
            let Some(found) = self.find(block.version, block.start).filter(|_| count > 0) else { continue };
            if block.copied || found == id as BlockId {
                let weight = count.saturating_mul(u64::from(block.code.end - block.code.start));
                counts[found as usize] += count;
                all += weight;
                placed_in[block.placed as usize] += weight;
            }
        }
        // Rounds planned from few executions do not count as good placement.
        let known = self.placing.executed.iter().zip(&placed_in).skip(1).filter(|(then, _)| **then >= all / LITTLE);
        let well_placed: u64 = known.map(|(_, weight)| weight).sum();
        self.placing.executed.push(all);
        let executed = counts.into_iter().enumerate().filter(|(_, count)| *count > 0).map(|(id, count)| {
            let code = &self.blocks[id].code;
            (count.saturating_mul(u64::from(code.end - code.start)), id as BlockId, count)
        });
        let mut blocks: Vec<(u64, BlockId, u64)> = executed.collect();
        self.placing.hot = 0;
        if well_placed as f64 > WELL_PLACED * all as f64 {
            return Vec::new();
        }
        blocks.sort_by(|a, b| b.cmp(a));
        let mut covered = 0;
        let enough = |(weight, _, _): &&(u64, BlockId, u64)| {
            let go_on = (covered as f64) < HOT * all as f64;
            covered += weight;
            go_on
        };
        let hot: Vec<_> = blocks.iter().take_while(enough).collect();
        self.placing.hot = hot.len();
        let worth = self.placing.settings.worth;
        hot.into_iter().filter(|block| block.2 >= worth).map(|&(_, id, count)| (id, count)).collect()
    }

    /// Whether a block that is placed in round `places` (0: in none) avoids taken branches.
    pub(crate) fn spares_taken_branches(&self, places: u32) -> bool {
        places > 0 && self.placing.hot >= self.placing.settings.spare_branches_from
    }

    /// Whether the number of hot blocks calls for short code.
    pub(crate) fn is_to_be_short(&self) -> bool {
        self.placing.hot >= self.placing.settings.short_code_from
    }

    /// Whether the block at `at` begins a chain: so do blocks that are called or looked up, because their entry code directly
    /// precedes them.
    fn begins_chain(&self, at: Address) -> bool {
        let place = Version::Plain.place(at);
        let looked_up = self.entries.contains_key(&place) || self.callee_entries.contains_key(&place);
        looked_up || self.callees.contains(&place)
    }

    /// The blocks that may follow `block` in a chain, and whether `block` is its own successor. Blocks that begin a chain are
    /// excluded, except for the usual target of its indirect jump.
    fn runs_into(&self, block: &Decoded) -> ([Option<Address>; 2], bool) {
        if block.end == End::JumpIndirect {
            let is_called = |at: &Address| self.callees.contains(&Version::Plain.place(*at));
            return ([self.usual.target(block.start).filter(|to| !is_called(to)), None], false);
        }
        let all = successors(block.end, block.next());
        (all.map(|s| s.filter(|at| !self.begins_chain(*at))), all.contains(&Some(block.start)))
    }

    /// Writes the next chain of the plan; `false` if there is none. A looked-up address keeps its first entry, which then leads
    /// to the new copy.
    pub(crate) fn place_some(&mut self, source: &mut Source<'_>) -> bool {
        let Some(chain) = self.placing.plan.pop_front() else { return false };
        self.place(source, &chain);
        if self.placing.plan.is_empty() {
            self.placing.hot_blocks = AddressMap::default();
            if self.placing.hot >= MANY {
                let regions = std::mem::take(&mut self.placing.regions);
                self.plan_gathering(&regions);
            }
        }
        true
    }

    /// Writes a chain; blocks that cannot be written keep their old copy.
    fn place(&mut self, source: &mut Source<'_>, chain: &[Placed]) {
        let Some(&Placed { at: start, .. }) = chain.first() else { return };
        let Ok(mut unit) = self.begin_unit(Version::Plain, start) else { return };
        unit.places = self.placing.round;
        let mut exits = Exits::default();
        if let Some(to) = self.write_placed(source, &mut unit, chain, &mut exits) {
            self.end_unit(&mut unit, to);
        }
        self.finish_copies(source, &mut unit, &mut exits);
        self.close(unit);
    }

    /// Writes a chain of hot blocks, up to the first that cannot be written; returns the address that it runs into.
    pub(crate) fn write_placed(
        &mut self,
        source: &mut Source<'_>,
        unit: &mut Superblock,
        chain: &[Placed],
        exits: &mut Exits,
    ) -> Option<Address> {
        let mut next = chain.first().map(|p| p.at);
        for (i, &Placed { at, next_flows, next_is_alone }) in chain.iter().enumerate() {
            // Text that changed meanwhile is no longer relaid out.
            let block = self.find(unit.version, at).and_then(|_| source.block(at));
            let (Some(block), true) = (block, next == Some(at)) else { break };
            (unit.follow, unit.follow_flows) = (chain.get(i + 1).map(|p| p.at), next_flows);
            let rest = chain.get(i + 1..).unwrap_or_default();
            let leaf = self.leaf_behind(source, unit, &block);
            unit.copies_callee = leaf.is_some();
            let parks = next_is_alone && leaf.is_none() && unit.copy.is_none() && rcx_elision::may_leave(&block);
            unit.park = parks && rcx_elision::pays(source, &mut unit.factory, rest);
            let usual = self.usual.target(at);
            unit.usual = usual.map(|at| UsualTarget { at, dead: source.dead_at(at) });
            match self.block_into(unit, source, &block, exits) {
                Ok(runs_into) => next = runs_into,
                Err(_) => break,
            }
            if let Some(leaf) = leaf {
                self.copy_leaf(source, unit, leaf, exits);
            }
        }
        next
    }

    /// The callee to inline at the call that ends `block`, if any: (the call, its callee). Where code is kept short, indirect
    /// calls are not compared with their usual target and are not inlined; direct calls are (on cc1 that makes no difference
    /// beyond the noise).
    fn leaf_behind(&self, source: &mut Source<'_>, unit: &mut Superblock, block: &Decoded) -> Option<(Address, Leaf)> {
        let to = match block.end {
            End::Call(to) => to,
            End::CallIndirect => self.usual.target(block.start).filter(|_| !self.is_to_be_short())?,
            _ => return None,
        };
        let call = block.start + u64::from(block.steps.last()?.offset);
        let Placing { settings, hot_blocks, .. } = &self.placing;
        let (hot, next, most) = ((hot_blocks, &self.usual), block.next(), settings.leaf_bytes);
        let has_room = unit.hot.len() + unit.cold.len() < COPIES;
        (to != next && has_room).then_some(())?;
        Some((call, leaf(source, &mut unit.factory, hot, (to, next), most)?))
    }
}

impl Process {
    /// Plans a relayout from `counts`.
    fn plan_places(&mut self, mut counts: Vec<u64>, now: Instant) {
        let mut space = self.image.space.borrow_mut();
        space.add_flows(&mut counts);
        let recent = space.placing.look(now, counts);
        let blocks: Vec<_> =
            space.hot_blocks(&recent).into_iter().map(|(id, count)| (space.block(id).start, count)).collect();
        let regions = space.placing.regions.clone();
        drop(space);
        let starts: Vec<Address> = blocks.iter().map(|(at, _)| *at).collect();
        self.look_where_jumps_go(&starts, &regions);
        let mut space = self.image.space.borrow_mut();
        let mut source = Source::new(&self.memory, &self.pages, &self.text);
        let mut hot = Vec::new();
        for (at, count) in blocks {
            // Calls of a marker function or of MPI must reach the code that reports the call.
            if space.markers.contains_key(&at.get()) || space.mpi.watched(at.get()).is_some() {
                continue;
            }
            if let Some(block) = source.block(at) {
                let (successors, repeats) = space.runs_into(&block);
                let runs_on = runs_on(&block, successors[0]);
                hot.push(HotBlock { at, count, successors, runs_on, repeats });
            }
        }
        space.placing.hot_blocks = hot.iter().map(|b| (b.at.get(), *b)).collect();
        space.placing.round += 1;
        space.placing.plan = chains(&hot).into();
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
        placing.look(at(&placing, 3601), Vec::new());
        placing.round = 1;
        assert!(placing.is_time(at(&placing, 5000), 4000), "only the first time");
    }
}
