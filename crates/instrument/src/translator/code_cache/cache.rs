//! A code cache: everything translated for one address space, shared by processes that were forked from one another.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};

use iced_x86::{Decoder, DecoderOptions};

use crate::translator::code_cache::arena::{Arena, INT3, Part};
use crate::translator::code_cache::block::{Block, BlockId, CallSite, SafePoint, Site, SiteId, SpillState};
use crate::translator::code_cache::chunks::Chunks;
use crate::translator::code_cache::counters::{Counters, Sum};
use crate::translator::code_cache::hash::AddressMap;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::lookups::Lookups;
use crate::translator::code_cache::predicted_targets::PredictedTargets;
use crate::translator::code_cache::shared::Shared;
use crate::translator::code_cache::syscall_table::write_tables;
use crate::translator::code_cache::trampoline::Trampoline;
use crate::translator::code_cache::version::{Place, Version};
use crate::translator::code_cache::watched_places::WatchedPlaces;
use crate::x86_64::decode::MAX_BYTES;
use crate::x86_64::emit::{Code, RCX, RSP, relative};
use rprof_tracee::address::{Address, CacheAddress};
use rprof_tracee::markers::Marker;
use rprof_tracee::memory::Memory;

/// The purpose of one of rprof's own `int3` instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnTrap {
    /// An exit or a lookup with a mailbox that rprof does not poll.
    Exit,
    /// A system call that rprof looks at.
    Call,
    /// Invalidated text.
    Dropped,
    /// A `cpuid` that rprof answers.
    Cpuid,
}

/// How relaid-out code is written, which depends on how many hot blocks there are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Landings avoid taken branches.
    pub spares_branches: bool,
    /// Code is kept short.
    pub is_short: bool,
}

/// The page of text that an address lies in.
pub(crate) fn page_of(at: Address) -> u64 {
    at.get() >> 12
}

/// A code cache.
#[derive(Debug)]
pub struct CodeCache {
    /// A number that no other code cache has or had.
    pub(crate) serial: u32,
    pub(crate) arenas: Vec<Arena>,
    pub(crate) tables: Shared,
    pub(crate) blocks: Chunks<Block>,
    pub(crate) points: Vec<SafePoint>,
    pub(crate) code_pool: Vec<u8>,
    pub(crate) by_start: AddressMap<Place, BlockId>,
    /// Blocks that start in each page of the program's text.
    pub(crate) by_page: AddressMap<u64, Vec<BlockId>>,
    /// By arena, in order of their entries.
    pub(crate) by_entry: Vec<Vec<BlockId>>,
    pub(crate) sites: Chunks<Site>,
    /// Exits that wait for a block at an address.
    pub(crate) waiting: AddressMap<Place, Vec<SiteId>>,
    pub(crate) call_sites: Vec<CallSite>,
    /// There is an access sink: rprof reports the executions of its instructions.
    pub(crate) has_sink: bool,
    /// Blocks that end in an instruction that rprof cannot follow.
    pub(crate) far: HashSet<BlockId>,
    /// Blocks that are trampolines, with their source.
    pub(crate) trampolines: HashMap<BlockId, Trampoline>,
    /// No more arenas can be mapped near their text.
    no_room_near: bool,
    /// Targets of lookups, and callees.
    pub(crate) lookups: Lookups,
    /// Its counters, and their counts.
    pub(crate) counters: Counters,
    /// How relaid-out code is written.
    pub(crate) style: Style,
    /// Predicted targets of indirect jumps and calls.
    pub(crate) usual: PredictedTargets,
    /// Marker functions by their addresses.
    pub(crate) markers: AddressMap<u64, Marker>,
    /// Functions with recorded calls, and the return addresses of these.
    pub(crate) watched: WatchedPlaces,
    /// rprof answers `cpuid`: where it stands in the cache.
    pub(crate) answers_cpuid: bool,
    pub(crate) cpuids: HashSet<CacheAddress>,
}

impl CodeCache {
    /// An empty one with these tables and arenas.
    pub fn new(tables: Shared, arenas: Vec<Arena>) -> Self {
        write_tables(&tables);
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
            call_sites: Vec::new(),
            has_sink: false,
            far: HashSet::new(),
            trampolines: HashMap::new(),
            no_room_near: false,
            lookups: Lookups::default(),
            counters: Counters::default(),
            style: Style::default(),
            usual: PredictedTargets::default(),
            markers: AddressMap::default(),
            watched: WatchedPlaces::default(),
            answers_cpuid: false,
            cpuids: HashSet::new(),
        }
    }

    /// Adds an arena that was to be near `near`.
    pub fn add_arena(&mut self, arena: Arena, near: Address) {
        self.no_room_near |= !arena.reaches(near.get());
        self.arenas.push(arena);
        self.by_entry.push(Vec::new());
    }

    /// Its mappings in the program: (address, bytes).
    pub fn mappings(&self) -> impl Iterator<Item = (Address, u64)> + '_ {
        std::iter::once((self.tables.base, self.tables.size())).chain(self.arenas.iter().map(Arena::mapping))
    }

    /// Says whether the mailboxes are being read.
    pub fn set_polling(&self, polling: bool) {
        self.tables.word(u64::from(layout::POLLING)).store(u64::from(polling), Ordering::SeqCst);
    }

    /// The first of `n` new counters that follow one another; `None` if a context has no room for them.
    pub(crate) fn new_slots(&mut self, n: u32) -> Option<u32> {
        self.counters.new_slots(n)
    }

    /// A new counter; `None` if a context has no room for more.
    pub(crate) fn new_slot(&mut self) -> Option<u32> {
        self.new_slots(1)
    }

    /// Whether a block that relayout number `places` (0: none) writes avoids taken branches.
    pub(crate) fn spares_taken_branches(&self, places: u32) -> bool {
        places > 0 && self.style.spares_branches
    }

    /// Whether the number of hot blocks calls for short code.
    pub(crate) fn is_to_be_short(&self) -> bool {
        self.style.is_short
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

    /// The bytes at `at` in the cache.
    pub(crate) fn code_at<const N: usize>(&self, at: CacheAddress) -> Option<[u8; N]> {
        let mut code = [0; N];
        self.arenas[self.arena_of(at)?].read(at, &mut code).ok()?;
        Some(code)
    }

    /// The nearest arena with room for a block at `at`; `None` if all are full, or if the near ones are full and another one may
    /// fit near.
    pub(crate) fn choose_arena(&self, at: Address) -> Option<usize> {
        let (free, full): (Vec<_>, Vec<_>) = self.arenas.iter().enumerate().partition(|(_, a)| a.has_room());
        let is_near = |a: &Arena| a.reaches(at.get());
        let (nearest, arena) = free.into_iter().min_by_key(|(_, a)| a.distance(at.get()))?;
        let wants_another = !is_near(arena) && !self.no_room_near && full.into_iter().any(|(_, a)| is_near(a));
        (!wants_another).then_some(nearest)
    }

    /// The block with `at` in its hot code.
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

    /// The point at `at`, with a known program state.
    pub fn point_at(&self, at: CacheAddress) -> Option<(BlockId, SafePoint)> {
        let (id, point) = self.last_point(at)?;
        let point = self.points[point];
        (self.block(id).entry + u64::from(point.cache) == at).then_some((id, point))
    }

    /// The counter and kind of the run-time sum of the instruction at `offset` of a block, if a thread at `at` has begun the sum.
    /// Iterations are added behind the instruction; lanes have been added before it.
    pub fn sum_before(&self, id: BlockId, offset: u16, at: CacheAddress) -> Option<(u32, Sum)> {
        let block = &self.blocks[id as usize];
        let points = &self.points[block.points.start as usize..block.points.end as usize];
        let last = points.iter().rfind(|p| p.program == offset).map(|p| block.entry + u64::from(p.cache))?;
        let dynamic = self.counters.dynamic.iter().find(|d| d.block == id && d.offset == u32::from(offset))?;
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

    /// Links every exit that waits for `id` to it. Its code must have been written.
    pub(crate) fn link_waiting(&mut self, id: BlockId) {
        let block = &self.blocks[id as usize];
        let place = block.version.place(block.start);
        for site in self.waiting.remove(&place).unwrap_or_default() {
            if !self.link(site, id) {
                self.waiting.entry(place).or_default().push(site);
            }
        }
    }

    /// Relinks every exit and lookup of `old` to `id`, another copy of it.
    pub(crate) fn supersede(&mut self, old: BlockId, id: BlockId) {
        for site in std::mem::take(&mut self.blocks[old as usize].incoming) {
            if !self.link(site, id) {
                self.blocks[old as usize].incoming.push(site);
            }
        }
    }

    /// Links an exit to a block; `false` if there is no room for the jump: then the exit stays unchanged.
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

    /// The valid blocks that start at the program's addresses `from..to`.
    fn in_range(&self, from: Address, to: Address) -> impl Iterator<Item = BlockId> + '_ {
        let blocks = self.pages(from, to).into_iter().flat_map(|page| self.by_page[&page].iter().copied());
        blocks.filter(move |&id| {
            let block = self.block(id);
            block.alive && block.start >= from && block.start < to
        })
    }

    /// Whether a valid block starts at the program's addresses `from..to`.
    pub fn holds_blocks(&self, from: Address, to: Address) -> bool {
        self.in_range(from, to).next().is_some()
    }

    /// The valid blocks that have a byte of the program's addresses `from..to`.
    fn overlapping(&self, from: Address, to: Address) -> impl Iterator<Item = BlockId> + '_ {
        self.in_range(reaching(from), to).filter(move |&id| self.block(id).next() > from)
    }

    /// Whether a block translated at `from..to` differs from the code in `memory`.
    pub fn foreign_block(&self, memory: &Memory, from: Address, to: Address) -> bool {
        let mut now = Vec::new();
        self.overlapping(from, to).any(|id| {
            let code = self.block_code(id);
            now.resize(code.len(), 0);
            memory.read(self.block(id).start, &mut now).is_err() || now != code
        })
    }

    /// Invalidates the translations of the program's addresses `from..to`: a thread that jumps there asks for a new one.
    pub fn invalidate(&mut self, from: Address, to: Address) {
        self.usual.forget(from, to);
        let mut doomed: Vec<BlockId> = self.overlapping(from, to).collect();
        while let Some(id) = doomed.pop() {
            let block = &mut self.blocks[id as usize];
            if !std::mem::replace(&mut block.alive, false) {
                continue;
            }
            let (place, incoming) = (block.version.place(block.start), std::mem::take(&mut block.incoming));
            let (chained, caller, head) = (block.chained, block.version.place(block.next()), block.head);
            let own = block.landing.filter(|l| l.own);
            doomed.extend(chained);
            // The landing may lead behind an inlined callee; then the block behind is chained to that body instead of to this
            // block.
            if let Some(landing) = own {
                self.close_tag(landing.tag);
            }
            if let Some(tag) = head {
                self.close_tag(tag);
            }
            if self.lookups.callers.get(&caller) == Some(&id) {
                self.lookups.callers.remove(&caller);
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
        for page in self.pages(reaching(from), to) {
            if let Some(ids) = self.by_page.get_mut(&page) {
                ids.retain(|&id| self.blocks[id as usize].alive);
            }
        }
    }

    /// Writes traps into an invalidated block, at places with a known program state, for threads in it or about to enter
    /// it.
    fn expel(&self, id: BlockId) {
        let block = self.block(id);
        let Some(arena) = self.arena_of(block.entry) else { return };
        let mut code = vec![0; (block.end - block.entry) as usize];
        if self.arenas[arena].read(block.entry, &mut code).is_err() {
            return;
        }
        // The code around a system call continues after the call, even if the text was invalidated.
        let points = &self.points[block.points.start as usize..block.points.end as usize];
        for point in points.iter().filter(|p| p.moved != SpillState::RcxIsNext) {
            let rest = code.get(point.cache as usize..).unwrap_or_default();
            let length = Decoder::new(64, rest, DecoderOptions::NONE).decode().len();
            // The address behind a one-byte instruction cannot be distinguished from that behind a trap. But a thread that enters
            // must not execute even that instruction.
            if length > 1 || length == 1 && point.cache == 0 {
                self.arenas[arena].trap_at(block.entry + u64::from(point.cache));
            }
        }
    }

    /// Whether a thread that reaches `at` traps because the block there was invalidated.
    pub fn expels_at(&self, at: CacheAddress) -> bool {
        let dropped = self.point_at(at).is_some_and(|(id, _)| !self.block(id).alive);
        dropped && self.code_at(at) == Some([INT3])
    }

    /// Address at which a thread at `rip` entered an invalidated block, if it did. If not `surely`, another signal may hide the
    /// `int3`: then `rip` must be an address that the thread cannot have reached otherwise.
    pub fn expelled_at(&self, rip: u64, surely: bool) -> Option<CacheAddress> {
        let at = CacheAddress::new(rip.wrapping_sub(1));
        let trapped = surely || self.point_at(CacheAddress::new(rip)).is_none();
        (trapped && self.expels_at(at)).then_some(at)
    }

    /// The trap of rprof that a thread has just executed if its program counter is `rip`; see [`expelled_at`](Self::expelled_at)
    /// for `surely`.
    pub fn own_trap(&self, rip: u64, surely: bool) -> Option<OwnTrap> {
        let at = CacheAddress::new(rip.wrapping_sub(1));
        let stubs = self.arenas[self.arena_of(at)?].stubs;
        match at {
            _ if at == stubs.trap => Some(OwnTrap::Exit),
            _ if at == stubs.call_trap => Some(OwnTrap::Call),
            _ if surely && self.cpuids.contains(&at) => Some(OwnTrap::Cpuid),
            _ => self.expelled_at(rip, surely).map(|_| OwnTrap::Dropped),
        }
    }

    fn unlink(&mut self, site: SiteId) {
        let patch = self.sites[site as usize].patch;
        let Some(arena) = self.arena_of(patch) else { return };
        // A thread that still enters the invalidated block traps there.
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

/// Where the first block may start that reaches to `from`.
fn reaching(from: Address) -> Address {
    Address::new(from.get().saturating_sub(MAX_BYTES as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translator::code_cache::arena::ARENA;

    fn shared(size: u64, base: u64) -> Shared {
        // SAFETY: a constant name; the descriptor returned is ours.
        let memfd = unsafe { std::os::fd::FromRawFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), 0)) };
        std::fs::File::from(std::os::fd::OwnedFd::try_clone(&memfd).unwrap()).set_len(size).unwrap();
        Shared::map(memfd, size, Address::new(base)).unwrap()
    }

    #[test]
    fn a_full_arena_is_followed_by_one_that_is_near_as_long_as_there_is_room() {
        let arena = |base| Arena::new(shared(ARENA, base));
        let (middle, high) = (Address::new(0x5555_5555_4000), Address::new(0x7f00_0000_0000));
        let beside = |text: Address, megabytes: u64| arena(text.get() - (megabytes << 20));
        let mut cache =
            CodeCache::new(shared(layout::TABLES, 0x5400_0000_0000), vec![beside(middle, 1000), beside(high, 1000)]);
        assert_eq!((cache.choose_arena(middle), cache.choose_arena(high)), (Some(0), Some(1)));
        assert_eq!(cache.choose_arena(Address::new(0x7000_0000_0000)), Some(1), "near none: the nearest");
        let most = vec![0x90; (ARENA / 2 - (1 << 20)) as usize];
        cache.arenas[0].append(Part::Cold, &most);
        assert!(cache.arenas[0].has_room_for_a_link());
        assert_eq!((cache.choose_arena(middle), cache.choose_arena(high)), (None, Some(1)));
        assert_eq!(cache.choose_arena(Address::new(0x40_0000)), Some(1), "the low 2 GiB are reached from everywhere");
        cache.add_arena(beside(middle, 900), middle);
        assert_eq!(cache.choose_arena(middle), Some(2));
        cache.arenas[2].append(Part::Cold, &most);
        assert_eq!(cache.choose_arena(middle), None);
        cache.add_arena(arena(0x6000_0000_0000), middle);
        assert_eq!(cache.choose_arena(middle), Some(3), "there is no room near");
        cache.arenas[0].append(Part::Cold, &vec![0x90; (1 << 20) - (1 << 18)]);
        assert!(!cache.arenas[0].has_room_for_a_link());
    }
}
