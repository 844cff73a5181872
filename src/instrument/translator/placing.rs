//! Hot blocks are written a second time, once it is known which they are: close together, in the order in which they are
//! executed ([`chains`](super::chains)), and with fewer counters ([`flow`](super::flow)). Every exit and every lookup that
//! led to the first copy then leads to the second; both count.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::ahead::Exits;
use super::block::BlockId;
use super::chains::{HotBlock, Placed, chains, successors};
use super::flow::runs_on;
use super::heap;
use super::parked;
use super::process::Process;
use super::run::Run;
use super::source::Source;
use super::space::CodeSpace;
use super::usual::UsualTarget;
use super::version::Version;
use crate::instrument::x86_64::decode::{Decoded, End};
use crate::instrument::x86_64::quick::has_quick_loop;
use crate::target::address::Address;
use crate::target::wake_up::WakeUp;

/// When the blocks of a code space are placed first after its start: a program that ends sooner has nothing of it.
const FIRST: Duration = Duration::from_millis(300);
/// A code space that grew by more than one block in so many since the look before is still being filled: the program
/// starts, what is hot will soon be something else, and whoever asks would wait for the plan.
const FILLING: usize = 16;
/// For how long at most such a space is put off: so many times the interval.
const PUT_OFF: u32 = 3;
/// How much longer it takes each time.
const LONGER: u32 = 4;
/// How often it is looked whether that time has come, at most.
const LOOK: Duration = Duration::from_millis(50);
/// The share of what was executed of late that is in hot blocks.
const HOT: f64 = 0.995;
/// If so much of it was in blocks that are well placed, they stay where they are.
const WELL_PLACED: f64 = 0.9;
/// So many hot blocks may lie on more small pages than the processor remembers. For fewer, huge pages are only memory taken.
const MANY: usize = 2000;
/// So many have more taken branches than it remembers, and more code than is quickly at hand (measured: CPython has 4,000 hot
/// blocks and is slower if branches are spared, but faster if indirect calls compare their usual target in place; it is the other
/// way round with 3,000 functions that call two others each, which have 15,000, and with cc1, which has 58,000).
const MANY_BRANCHES: usize = 10_000;
/// Threads whose counts are looked at.
const THREADS: usize = 4;

/// When and how hot blocks are placed.
#[derive(Debug, Clone, Copy)]
pub struct PlacingSettings {
    /// How long after a program's start they are placed first.
    pub after: Duration,
    /// From so many on they have more taken branches than the processor remembers: their landings spare them at the cost of
    /// flags that are saved.
    pub spare_branches_from: usize,
    /// From so many on their code is to be short: returns share what looks their address up, and indirect calls do not compare
    /// their usual target in place. (Not measured on AMD's.)
    pub short_code_from: usize,
}

impl Default for PlacingSettings {
    /// What was found best for this CPU. Where a `loop` is quick, no landing takes a branch anyway.
    fn default() -> Self {
        let spare_branches_from = if has_quick_loop() { usize::MAX } else { MANY_BRANCHES };
        PlacingSettings { after: FIRST, spare_branches_from, short_code_from: MANY_BRANCHES }
    }
}

/// What is known of how hot blocks are.
#[derive(Debug)]
pub struct Placing {
    settings: PlacingSettings,
    begun: Instant,
    due: Instant,
    interval: Duration,
    /// Counts when we looked last.
    before: Vec<u64>,
    /// How many blocks there were when it was looked whether it is time.
    blocks: usize,
    /// How often hot blocks were placed.
    pub(super) round: u32,
    /// Chains still to be written.
    plan: VecDeque<Vec<Placed>>,
    /// Regions of the threads whose counts were looked at.
    regions: Vec<u32>,
    /// How many blocks were hot when they were placed last.
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
            interval: settings.after,
            before: Vec::new(),
            blocks: 0,
            round: 0,
            plan: VecDeque::new(),
            regions: Vec::new(),
            hot: 0,
        }
    }

    /// When it is looked for hot blocks again.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether hot blocks are to be placed in a code space that has `blocks` by now. One that is still being filled is
    /// put off.
    fn is_time(&mut self, now: Instant, blocks: usize) -> bool {
        let new = blocks.saturating_sub(std::mem::replace(&mut self.blocks, blocks));
        let is_due = now >= self.due;
        let fills = self.round == 0 && new * FILLING > blocks && now < self.begun + PUT_OFF * self.interval;
        if is_due && fills {
            self.due = now + LOOK;
        }
        is_due && !fills
    }

    /// How often each counter was increased since the last look, if it is time for another.
    fn look(&mut self, now: Instant, counts: Vec<u64>) -> Vec<u64> {
        self.interval *= LONGER;
        self.due = now + self.interval;
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
    /// For code spaces that begin.
    pub settings: PlacingSettings,
    /// Interrupts our wait; without it we look when there is something else to do.
    _wake_up: Option<WakeUp>,
}

impl Looks {
    /// From now on, for code spaces whose blocks are placed so.
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
    /// Plans new places for the hot blocks of code spaces whose time has come.
    pub fn look_for_hot_blocks(&mut self) {
        let now = Instant::now();
        if !self.looks.is_time(now) {
            return;
        }
        // As good a moment as any: now and then, and nobody waits.
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

impl CodeSpace {
    /// The blocks that nearly everything was spent in which was executed `recent`ly: (block, executions).
    fn hot_blocks(&self, recent: &[u64]) -> Vec<(BlockId, u64)> {
        let mut blocks: Vec<(u64, BlockId, u64)> = Vec::new();
        let (mut all, mut well_placed) = (0, 0);
        for (id, block) in self.blocks.iter().enumerate().filter(|(_, b)| b.alive && b.version == Version::Plain) {
            let count = recent.get(block.slot as usize).map_or(0, |&n| (n as i64 / block.scale()).unsigned_abs());
            let weight = count.saturating_mul(u64::from(block.code.end - block.code.start));
            if count > 0 && self.find(block.version, block.start) == Some(id as BlockId) {
                blocks.push((weight, id as BlockId, count));
                all += weight;
                well_placed += if block.placed > 0 { weight } else { 0 };
            }
        }
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
        blocks.iter().take_while(enough).map(|&(_, id, count)| (id, count)).collect()
    }

    /// Whether a block that is placed in round `places` (0: in none) is to spare taken branches.
    pub(super) fn spares_taken_branches(&self, places: u32) -> bool {
        places > 0 && self.placing.hot >= self.placing.settings.spare_branches_from
    }

    /// Whether there are so many hot blocks that their code is to be short.
    pub(super) fn is_to_be_short(&self) -> bool {
        self.placing.hot >= self.placing.settings.short_code_from
    }

    /// What is called or looked up begins a chain: what that needs stands right before it.
    fn begins_chain(&self, at: Address) -> bool {
        let place = Version::Plain.place(at);
        let looked_up = self.entries.contains_key(&place) || self.callee_entries.contains_key(&place);
        looked_up || self.callees.contains(&place)
    }

    /// What the cache can run into behind `block`: nothing that begins a chain, but for what its jump usually goes to. And
    /// whether it is one of those itself.
    fn runs_into(&self, block: &Decoded) -> ([Option<Address>; 2], bool) {
        if block.end == End::JumpIndirect {
            let is_called = |at: &Address| self.callees.contains(&Version::Plain.place(*at));
            return ([self.usual.target(block.start).filter(|to| !is_called(to)), None], false);
        }
        let all = successors(block.end, block.next());
        (all.map(|s| s.filter(|at| !self.begins_chain(*at))), all.contains(&Some(block.start)))
    }

    /// Writes the next chain of the plan; `false` if there is none. An address that is looked up keeps its first entry,
    /// which then leads to the new copy.
    pub(super) fn place_some(&mut self, source: &mut Source<'_>) -> bool {
        let Some(chain) = self.placing.plan.pop_front() else { return false };
        self.place(source, &chain);
        if self.placing.plan.is_empty() && self.placing.hot >= MANY {
            let regions = std::mem::take(&mut self.placing.regions);
            self.plan_gathering(&regions);
        }
        true
    }

    /// What cannot be written stays where it is.
    fn place(&mut self, source: &mut Source<'_>, chain: &[Placed]) {
        let Some(&Placed { at: start, .. }) = chain.first() else { return };
        let version = Version::Plain;
        let Ok(mut unit) = self.begin_unit(version, start) else { return };
        unit.places = self.placing.round;
        let mut exits = Exits::default();
        let mut next = Some(start);
        for (i, &Placed { at, next_flows, next_is_alone }) in chain.iter().enumerate() {
            // Text that was changed meanwhile is not placed any more.
            let block = self.find(version, at).and_then(|_| source.block(at));
            let (Some(block), true) = (block, next == Some(at)) else { break };
            (unit.follow, unit.follow_flows) = (chain.get(i + 1).map(|p| p.at), next_flows);
            let rest = chain.get(i + 1..).unwrap_or_default();
            unit.park = next_is_alone && parked::may_leave(&block) && parked::pays(source, &mut unit.factory, rest);
            let usual = self.usual.target(at);
            unit.usual = usual.map(|at| UsualTarget { at, dead: source.dead_at(at) });
            match self.block_into(&mut unit, source, &block, &mut exits) {
                Ok(runs_into) => next = runs_into,
                Err(_) => break,
            }
        }
        if let Some(to) = next {
            self.end_unit(&mut unit, to);
        }
        self.close(unit);
    }
}

impl Process {
    /// Plans new places for hot blocks, now that `counts` are known.
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
            if let Some(block) = source.block(at) {
                let (successors, repeats) = space.runs_into(&block);
                let runs_on = runs_on(&block, successors[0]);
                hot.push(HotBlock { at, count, successors, runs_on, repeats });
            }
        }
        space.placing.hot = hot.len();
        space.placing.round += 1;
        space.placing.plan = chains(&hot).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_space_that_fills_are_placed_later_but_they_are() {
        let first = Duration::from_millis(300);
        let at = |placing: &Placing, n: u64| placing.begun + Duration::from_millis(n);
        let settings = PlacingSettings { after: first, ..PlacingSettings::default() };
        let mut placing = Placing::new(settings);
        assert!(!placing.is_time(at(&placing, 299), 900), "it is not due");
        assert!(!placing.is_time(at(&placing, 301), 1000), "a tenth is new");
        assert_eq!(placing.due(), at(&placing, 351), "until then it may be lent");
        assert!(!placing.is_time(at(&placing, 340), 1000), "it was put off");
        assert!(placing.is_time(at(&placing, 351), 1001), "it hardly grows any more");
        let mut placing = Placing::new(settings);
        assert!(!placing.is_time(at(&placing, 800), 1000));
        assert!(placing.is_time(at(&placing, 901), 2000), "not for ever");
        placing.look(at(&placing, 901), Vec::new());
        placing.round = 1;
        assert!(placing.is_time(at(&placing, 3000), 4000), "only the first time");
    }
}
