//! A code space: everything translated for one address space, shared by processes that were forked from one another.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU32, Ordering};

use iced_x86::{Decoder, DecoderOptions};

use crate::instrument::translator::code_cache::arena::{Arena, INT3, Part, REACH};
use crate::instrument::translator::code_cache::block::{Block, BlockId, CallSite, Moved, Point, Site, SiteId};
use crate::instrument::translator::code_cache::chunks::Chunks;
use crate::instrument::translator::code_cache::hash::{AddressHasher, AddressMap};
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::code_cache::shared::Shared;
use crate::instrument::translator::code_cache::version::{Place, Version};
use crate::instrument::translator::counts::execution_deltas::ExecutionDeltas;
use crate::instrument::translator::counts::flush_on_exit::Unsettled;
use crate::instrument::translator::counts::read_counters::Totals;
use crate::instrument::translator::relayout::hot_code::{Placing, PlacingSettings};
use crate::instrument::translator::relayout::huge::Stretch;
use crate::instrument::translator::relayout::lookup_order::Leaders;
use crate::instrument::translator::relayout::target_prediction::Usual;
use crate::instrument::translator::translate::probes::ProbeSite;
use crate::instrument::x86_64::decode::MAX_BYTES;
use crate::instrument::x86_64::emit::{Code, RCX, RSP, relative};
use crate::tracee::address::{Address, CacheAddress};
use crate::tracee::markers::Marker;
use crate::tracee::memory::Memory;

/// A run-time sum that a counter holds.
#[derive(Debug, Clone, Copy)]
pub struct DynamicSlot {
    /// Its counter.
    pub slot: u32,
    /// The instruction's block.
    pub block: BlockId,
    /// Byte offset of the instruction in the block.
    pub offset: u32,
    /// What it sums.
    pub sum: Sum,
    /// Bytes from the block's entry behind which active lanes have been added.
    pub added_at: u32,
}

/// What a run-time sum is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sum {
    /// Iterations of a `rep` instruction.
    Iterations,
    /// Active lanes.
    Lanes,
}

/// What an `int3` of ours is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnTrap {
    /// An exit, or a lookup, that nobody polls for.
    Exit,
    /// A system call that rprof looks at.
    Call,
    /// Text that was dropped.
    Dropped,
}

/// The page of text that an address lies in.
pub(crate) fn page_of(at: Address) -> u64 {
    at.get() >> 12
}

/// A code space.
#[derive(Debug)]
pub struct CodeCache {
    /// Tells it from others, also from those that are no more.
    pub(crate) serial: u32,
    pub(crate) arenas: Vec<Arena>,
    pub(crate) tables: Shared,
    pub(crate) blocks: Chunks<Block>,
    pub(crate) points: Vec<Point>,
    pub(crate) code_pool: Vec<u8>,
    pub(crate) by_start: AddressMap<Place, BlockId>,
    /// Blocks that start in each page of the program's text.
    pub(crate) by_page: AddressMap<u64, Vec<BlockId>>,
    /// By arena, in order of their entries.
    pub(crate) by_entry: Vec<Vec<BlockId>>,
    pub(crate) sites: Chunks<Site>,
    /// Exits that wait for a block at an address.
    pub(crate) waiting: AddressMap<Place, Vec<SiteId>>,
    /// The exit of an address's entry for lookups.
    pub(crate) entries: AddressMap<Place, SiteId>,
    pub(crate) call_sites: Vec<CallSite>,
    pub(crate) slots: u32,
    pub(crate) dynamic: Vec<DynamicSlot>,
    /// System calls whose numbers are counted: the block, and the first of [`layout::CALL_NUMBERS`] counters.
    pub(crate) numbered_calls: Vec<(BlockId, u32)>,
    /// The exits of addresses' entries for lookups of returns, but for those behind calls.
    pub(crate) return_entries: AddressMap<Place, SiteId>,
    /// Blocks that end in a call, by where it returns to.
    pub(crate) callers: AddressMap<Place, BlockId>,
    /// The same for lookups of indirect calls.
    pub(crate) callee_entries: AddressMap<Place, SiteId>,
    /// What is called directly.
    pub(crate) callees: HashSet<Place, BuildHasherDefault<AddressHasher>>,
    /// Versions whose lookup tables are filled.
    pub(crate) prepared: [bool; Version::ALL.len()],
    /// There is an access sink: executions of its instructions are to be told.
    pub(crate) has_sink: bool,
    /// What the entries of buffers mean; instructions of versions that note nothing, too.
    pub(crate) probe_sites: Vec<ProbeSite>,
    /// Counted so far.
    pub(crate) totals: Totals,
    /// Blocks that end in what cannot be followed.
    pub(crate) far: HashSet<BlockId>,
    /// Arenas can no more be mapped near what they are for.
    no_room_near: bool,
    /// Where hot blocks are to stand.
    pub(crate) placing: Placing,
    /// What is to be in huge pages.
    pub(crate) gathering: VecDeque<Stretch>,
    /// Where indirect jumps go.
    pub(crate) usual: Usual,
    /// What lookups find first.
    pub(crate) leaders: Leaders,
    /// Where a thread that ends leaves a counter wrong.
    pub(crate) unsettled: Vec<Unsettled>,
    /// What the access sink has been told of the counters.
    pub(crate) course: ExecutionDeltas,
    /// Marker functions by their addresses.
    pub(crate) markers: AddressMap<u64, Marker>,
    /// What was executed in marked regions: counters by path, in place of the thread.
    pub(crate) marked: Totals,
}

impl CodeCache {
    /// An empty one with these tables and arenas.
    pub fn new(tables: Shared, arenas: Vec<Arena>) -> Self {
        crate::instrument::translator::kernel::syscall_table::write_tables(&tables);
        let by_entry = arenas.iter().map(|_| Vec::new()).collect();
        // Site 0 means "a lookup"; its entry is never linked.
        let none = Site {
            patch: CacheAddress::new(0),
            target: Address::new(0),
            version: Version::Plain,
            calls: false,
            stub: None,
            linked: None,
        };
        let mut sites = Chunks::new();
        sites.push(none);
        static SPACES: AtomicU32 = AtomicU32::new(0);
        CodeCache {
            serial: SPACES.fetch_add(1, Ordering::Relaxed),
            arenas,
            tables,
            blocks: Chunks::new(),
            points: Vec::new(),
            code_pool: Vec::new(),
            by_start: AddressMap::default(),
            by_page: AddressMap::default(),
            by_entry,
            sites,
            waiting: AddressMap::default(),
            entries: AddressMap::default(),
            call_sites: Vec::new(),
            slots: 0,
            dynamic: Vec::new(),
            numbered_calls: Vec::new(),
            return_entries: AddressMap::default(),
            callee_entries: AddressMap::default(),
            callees: HashSet::default(),
            callers: AddressMap::default(),
            prepared: [false; Version::ALL.len()],
            has_sink: false,
            probe_sites: Vec::new(),
            totals: Totals::default(),
            far: HashSet::new(),
            no_room_near: false,
            placing: Placing::new(PlacingSettings::default()),
            gathering: VecDeque::new(),
            usual: Usual::default(),
            leaders: Leaders::default(),
            unsettled: Vec::new(),
            course: ExecutionDeltas::default(),
            markers: AddressMap::default(),
            marked: Totals::default(),
        }
    }

    /// Adds an arena that was to be near `near`.
    pub fn add_arena(&mut self, arena: Arena, near: Address) {
        self.no_room_near |= arena.distance(near.get()) >= REACH;
        self.arenas.push(arena);
        self.by_entry.push(Vec::new());
    }

    /// Where the program has the tables; below 2 GB.
    pub fn tables_at(&self) -> u32 {
        self.tables.base.get() as u32
    }

    /// What the program has mapped of it: (address, bytes).
    pub fn mappings(&self) -> impl Iterator<Item = (Address, u64)> + '_ {
        std::iter::once((self.tables.base, self.tables.size())).chain(self.arenas.iter().map(Arena::mapping))
    }

    /// Says whether the mailboxes are being read.
    pub fn set_polling(&self, polling: bool) {
        self.tables.word(u64::from(layout::POLLING)).store(u64::from(polling), Ordering::SeqCst);
    }

    /// The first of `n` new counters that follow one another; `None` if a region has no room for them.
    pub(crate) fn new_slots(&mut self, n: u32) -> Option<u32> {
        (self.slots + n <= layout::MAX_SLOTS).then(|| {
            self.slots += n;
            self.slots - n
        })
    }

    /// A new counter; `None` if a region has no room for more.
    pub(crate) fn new_slot(&mut self) -> Option<u32> {
        self.new_slots(1)
    }

    /// The block of `version` that starts at `at`.
    pub fn find(&self, version: Version, at: Address) -> Option<BlockId> {
        self.by_start.get(&version.place(at)).copied()
    }

    /// A block.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }

    /// A block's bytes in the program.
    pub fn block_code(&self, id: BlockId) -> &[u8] {
        let range = &self.blocks[id as usize].code;
        &self.code_pool[range.start as usize..range.end as usize]
    }

    /// The arena that holds a cache address.
    pub fn arena_of(&self, at: CacheAddress) -> Option<usize> {
        self.arenas.iter().position(|a| a.contains(at))
    }

    /// What stands at `at` in the cache.
    pub(crate) fn code_at<const N: usize>(&self, at: CacheAddress) -> Option<[u8; N]> {
        let mut code = [0; N];
        self.arenas[self.arena_of(at)?].read(at, &mut code).ok()?;
        Some(code)
    }

    /// The nearest arena with room for a block at `at`; `None` if all are full, or all that are near while there may be
    /// another one near.
    pub(crate) fn choose_arena(&self, at: Address) -> Option<usize> {
        let (free, full): (Vec<_>, Vec<_>) = self.arenas.iter().enumerate().partition(|(_, a)| a.has_room());
        let is_near = |a: &Arena| a.distance(at.get()) < REACH;
        let (nearest, arena) = free.into_iter().min_by_key(|(_, a)| a.distance(at.get()))?;
        let wants_another = !is_near(arena) && !self.no_room_near && full.into_iter().any(|(_, a)| is_near(a));
        (!wants_another).then_some(nearest)
    }

    /// The block whose hot code holds `at`.
    pub fn block_at(&self, at: CacheAddress) -> Option<BlockId> {
        let blocks = &self.by_entry[self.arena_of(at)?];
        let after = blocks.partition_point(|&id| self.blocks[id as usize].entry <= at);
        let id = *blocks.get(after.checked_sub(1)?)?;
        (at < self.blocks[id as usize].end).then_some(id)
    }

    /// The last point up to `at` of the block there: (block, its index among all points).
    pub(crate) fn last_point(&self, at: CacheAddress) -> Option<(BlockId, usize)> {
        let id = self.block_at(at)?;
        let block = &self.blocks[id as usize];
        let offset = (at - block.entry) as u32;
        let first = block.points.start as usize;
        // Several points may share a place; the last is the one that is executed there.
        let found = self.points[first..block.points.end as usize].partition_point(|p| p.cache <= offset);
        Some((id, first + found.checked_sub(1)?))
    }

    /// What is known of the program's state at `at`.
    pub fn point_at(&self, at: CacheAddress) -> Option<(BlockId, Point)> {
        let (id, point) = self.last_point(at)?;
        let point = self.points[point];
        (self.block(id).entry + u64::from(point.cache) == at).then_some((id, point))
    }

    /// The counter of the run-time sum of the instruction at `offset` of a block that stands at `at`, behind what is done
    /// before it; and whether it sums iterations, which it adds behind it, or lanes, which were added.
    pub fn sum_before(&self, id: BlockId, offset: u16, at: CacheAddress) -> Option<(u32, Sum)> {
        let block = &self.blocks[id as usize];
        let points = &self.points[block.points.start as usize..block.points.end as usize];
        let last = points.iter().rfind(|p| p.program == offset).map(|p| block.entry + u64::from(p.cache))?;
        let dynamic = self.dynamic.iter().find(|d| d.block == id && d.offset == u32::from(offset))?;
        let has_begun = match dynamic.sum {
            Sum::Iterations => at == last,
            Sum::Lanes => (at - block.entry) as u32 >= dynamic.added_at,
        };
        has_begun.then_some((dynamic.slot, dynamic.sum))
    }

    /// Enters an exit.
    pub(crate) fn new_site(&mut self, patch: CacheAddress, version: Version, target: Address) -> SiteId {
        self.sites.push(Site { patch, target, version, calls: false, stub: None, linked: None });
        self.sites.len() as SiteId - 1
    }

    /// Writes the stub of an exit at `code`'s end and makes it wait for its target.
    pub(crate) fn write_stub(&mut self, code: &mut Code, arena: usize, site: SiteId) -> CacheAddress {
        let stub = code.here();
        if self.sites[site as usize].calls {
            code.add_small(RSP, 8);
        }
        code.save(layout::SAVE_RCX, RCX);
        code.constant(RCX, u64::from(site));
        code.jump(self.arenas[arena].stubs.direct);
        let entry = &mut self.sites[site as usize];
        entry.stub = Some(stub);
        self.waiting.entry(entry.place()).or_default().push(site);
        stub
    }

    /// Leads every exit that waits for `id` to it. Its code must have been written.
    pub(crate) fn link_waiting(&mut self, id: BlockId) {
        let block = &self.blocks[id as usize];
        let place = block.version.place(block.start);
        for site in self.waiting.remove(&place).unwrap_or_default() {
            if !self.link(site, id) {
                self.waiting.entry(place).or_default().push(site);
            }
        }
    }

    /// Leads every exit and lookup that was linked to `old` to `id`, another copy of it.
    pub(crate) fn supersede(&mut self, old: BlockId, id: BlockId) {
        for site in std::mem::take(&mut self.blocks[old as usize].incoming) {
            if !self.link(site, id) {
                self.blocks[old as usize].incoming.push(site);
            }
        }
    }

    /// Leads an exit to a block; `false` if there is no room for the way there: then it stays as it is.
    fn link(&mut self, site: SiteId, id: BlockId) -> bool {
        let patch = self.sites[site as usize].patch;
        let Some(arena) = self.arena_of(patch).filter(|&a| self.arenas[a].has_room_for_a_link()) else { return false };
        let mut cold = Code::new(self.arenas[arena].next(Part::Cold));
        let entry = self.entry_for(site, id, &mut cold);
        let value = cold.reach(patch, entry);
        self.arenas[arena].append(Part::Cold, cold.bytes());
        self.arenas[arena].patch(patch, value);
        self.note_link(site, id);
        true
    }

    /// `site` leads to `id` now.
    pub(crate) fn note_link(&mut self, site: SiteId, id: BlockId) {
        self.sites[site as usize].linked = Some(id);
        self.blocks[id as usize].incoming.push(site);
    }

    /// The pages of `from..to` in which blocks start.
    fn pages(&self, from: Address, to: Address) -> Vec<u64> {
        if from >= to {
            return Vec::new();
        }
        let (first, last) = (page_of(from), page_of(to - 1));
        if last - first < self.by_page.len() as u64 {
            return (first..=last).filter(|page| self.by_page.contains_key(page)).collect();
        }
        self.by_page.keys().copied().filter(|page| (first..=last).contains(page)).collect()
    }

    /// The blocks that start at the program's addresses `from..to`, as far as they were not dropped.
    fn in_range(&self, from: Address, to: Address) -> impl Iterator<Item = BlockId> + '_ {
        let blocks = self.pages(from, to).into_iter().flat_map(|page| self.by_page[&page].iter().copied());
        blocks.filter(move |&id| {
            let block = self.block(id);
            block.alive && block.start >= from && block.start < to
        })
    }

    /// Whether anything at the program's addresses `from..to` is translated.
    pub fn holds_blocks(&self, from: Address, to: Address) -> bool {
        self.in_range(from, to).next().is_some()
    }

    /// Whether anything that is translated at `from..to` is not what `memory` has there.
    pub fn foreign_block(&self, memory: &Memory, from: Address, to: Address) -> bool {
        let mut now = Vec::new();
        self.in_range(from, to).any(|id| {
            let code = self.block_code(id);
            now.resize(code.len(), 0);
            memory.read(self.block(id).start, &mut now).is_err() || now != code
        })
    }

    /// Forgets the translations of the program's addresses `from..to`: whoever jumps there asks again.
    pub fn invalidate(&mut self, from: Address, to: Address) {
        self.usual.forget(from, to);
        // A block that starts before may reach into it.
        let before = Address::new(from.get().saturating_sub(MAX_BYTES as u64));
        let mut doomed: Vec<BlockId> = self.in_range(before, to).filter(|&id| self.block(id).next() > from).collect();
        while let Some(id) = doomed.pop() {
            let block = &mut self.blocks[id as usize];
            if !std::mem::replace(&mut block.alive, false) {
                continue;
            }
            let (place, incoming) = (block.version.place(block.start), std::mem::take(&mut block.incoming));
            let (chained, caller, head) = (block.chained, block.version.place(block.next()), block.head);
            let own = block.landing.filter(|l| l.own);
            doomed.extend(chained);
            // It may lead behind a copy of a callee, to which the block behind is chained instead of to this one.
            if let Some(landing) = own {
                self.close_tag(landing.tag);
            }
            if let Some(tag) = head {
                self.close_tag(tag);
            }
            if self.callers.get(&caller) == Some(&id) {
                self.callers.remove(&caller);
            }
            self.close_landing(chained);
            if self.by_start.get(&place) == Some(&id) {
                self.by_start.remove(&place);
            }
            for site in incoming {
                self.unlink(site);
            }
            self.expel(id);
        }
        for page in self.pages(before, to) {
            if let Some(ids) = self.by_page.get_mut(&page) {
                ids.retain(|&id| self.blocks[id as usize].alive);
            }
        }
    }

    /// Whoever is in a block that was dropped, or about to run into it, traps where its state is known.
    fn expel(&self, id: BlockId) {
        let block = self.block(id);
        let Some(arena) = self.arena_of(block.entry) else { return };
        let mut code = vec![0; (block.end - block.entry) as usize];
        if self.arenas[arena].read(block.entry, &mut code).is_err() {
            return;
        }
        // What stands around a system call is gone on with when the call has been made, whatever became of the text.
        let points = &self.points[block.points.start as usize..block.points.end as usize];
        for point in points.iter().filter(|p| p.moved != Moved::RcxIsNext) {
            let rest = code.get(point.cache as usize..).unwrap_or_default();
            let length = Decoder::new(64, rest, DecoderOptions::NONE).decode().len();
            // Behind an instruction of one byte it could not be told from a trap. Who enters must not execute even that.
            if length > 1 || length == 1 && point.cache == 0 {
                self.arenas[arena].trap_at(block.entry + u64::from(point.cache));
            }
        }
    }

    /// Whether whoever comes to `at` traps because the block there was dropped.
    pub fn expels_at(&self, at: CacheAddress) -> bool {
        let dropped = self.point_at(at).is_some_and(|(id, _)| !self.block(id).alive);
        dropped && self.code_at(at) == Some([INT3])
    }

    /// Where a thread whose program counter is `rip` has just come to what was dropped, if it has. An `int3` may only have been
    /// executed if another signal hides it (not `surely`): then `rip` must be no place that it can have come to otherwise.
    pub fn expelled_at(&self, rip: u64, surely: bool) -> Option<CacheAddress> {
        let at = CacheAddress::new(rip.wrapping_sub(1));
        let trapped = surely || self.point_at(CacheAddress::new(rip)).is_none();
        (trapped && self.expels_at(at)).then_some(at)
    }

    /// Which trap of ours a thread has come to whose program counter is `rip` behind it; see [`expelled_at`](Self::expelled_at)
    /// for `surely`.
    pub fn own_trap(&self, rip: u64, surely: bool) -> Option<OwnTrap> {
        let at = CacheAddress::new(rip.wrapping_sub(1));
        let stubs = self.arenas[self.arena_of(at)?].stubs;
        match at {
            _ if at == stubs.trap => Some(OwnTrap::Exit),
            _ if at == stubs.call_trap => Some(OwnTrap::Call),
            _ => self.expelled_at(rip, surely).map(|_| OwnTrap::Dropped),
        }
    }

    fn unlink(&mut self, site: SiteId) {
        let patch = self.sites[site as usize].patch;
        let Some(arena) = self.arena_of(patch) else { return };
        // Who is still led to what was dropped traps there.
        if self.sites[site as usize].stub.is_none() && !self.arenas[arena].has_room_for_a_stub() {
            return;
        }
        let mut cold = Code::new(self.arenas[arena].next(Part::Cold));
        let stub = match self.sites[site as usize].stub {
            Some(stub) => {
                self.waiting.entry(self.sites[site as usize].place()).or_default().push(site);
                stub
            }
            None => self.write_stub(&mut cold, arena, site),
        };
        self.arenas[arena].append(Part::Cold, cold.bytes());
        self.arenas[arena].patch(patch, relative(patch, stub));
        self.sites[site as usize].linked = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::translator::code_cache::arena::ARENA;

    fn shared(size: u64, base: u64) -> Shared {
        // SAFETY: a constant name; the descriptor returned is ours.
        let memfd = unsafe { std::os::fd::FromRawFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), 0)) };
        std::fs::File::from(std::os::fd::OwnedFd::try_clone(&memfd).unwrap()).set_len(size).unwrap();
        Shared::map(memfd, size, Address::new(base)).unwrap()
    }

    #[test]
    fn a_full_arena_is_followed_by_one_that_is_near_as_long_as_there_is_room() {
        let arena = |base| Arena::new(shared(ARENA, base), 0);
        let (low, high) = (Address::new(0x40_0000), Address::new(0x7f00_0000_0000));
        let mut space =
            CodeCache::new(shared(layout::TABLES, 0x7000_0000), vec![arena(0x1000_0000), arena(high.get())]);
        assert_eq!((space.choose_arena(low), space.choose_arena(high)), (Some(0), Some(1)));
        assert_eq!(space.choose_arena(Address::new(0x6000_0000_0000)), Some(1), "near none: the nearest");
        let most = vec![0x90; (ARENA / 2 - (1 << 20)) as usize];
        space.arenas[0].append(Part::Cold, &most);
        assert!(space.arenas[0].has_room_for_a_link());
        assert_eq!((space.choose_arena(low), space.choose_arena(high)), (None, Some(1)));
        space.add_arena(arena(0x2000_0000), low);
        assert_eq!(space.choose_arena(low), Some(2));
        space.arenas[2].append(Part::Cold, &most);
        assert_eq!(space.choose_arena(low), None);
        space.add_arena(arena(0x6000_0000_0000), low);
        assert_eq!(space.choose_arena(low), Some(3), "there is no room near");
        space.arenas[0].append(Part::Cold, &vec![0x90; (1 << 20) - (1 << 18)]);
        assert!(!space.arenas[0].has_room_for_a_link());
    }
}
