//! A process of the program: its memory, its text, and the code cache that it shares with its forks.

use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Instant;

use atomic_refcell::AtomicRefCell;
use nix::unistd::Pid;

use crate::instrument::tally::Tally;
use crate::instrument::translator::code_cache::block::{BlockId, Moved, SiteId};
use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::version::Version;
use crate::instrument::translator::kernel::text_ranges::{
    TextRange, Treatment, add_text, find_text, remove_text, text_until, treatment,
};
use crate::instrument::translator::tracer::native::Transitions;
use crate::instrument::translator::tracer::regions::Regions;
use crate::instrument::translator::translate::ahead::{Ahead, Around};
use crate::instrument::translator::translate::returns::Arrival;
use crate::instrument::translator::translate::superblock::TranslateError;
use crate::instrument::translator::translate::text_reader::{Pages, Source};
use crate::instrument::x86_64::decode::LONGEST;
use crate::profile::code::CodeRef;
use crate::tracee::address::{Address, CacheAddress};
use crate::tracee::maps::{Mapping, read_maps};
use crate::tracee::markers::Marker;
use crate::tracee::memory::Memory;

/// Blocks in one chain.
const CHAIN: usize = 16;
/// Blocks of the first chain's callees that rprof translates before it answers a request. The program executes eight in ten of
/// them, as many as of the chain (import of numpy); of the chain's branch targets it executes four in ten, and waiting for those
/// would take the thread longer than another request.
const AT_ONCE: usize = 16;
/// Blocks translated at a time while no thread waits; a thread that asks meanwhile waits for them.
const AHEAD: usize = 3;

/// The code cache and regions that all processes with one program image share.
#[derive(Debug, Clone)]
pub struct ImageRef {
    /// Translations.
    pub space: Arc<AtomicRefCell<CodeCache>>,
    /// Threads' regions.
    pub regions: Arc<AtomicRefCell<Regions>>,
}

/// A process.
#[derive(Debug)]
pub struct Process {
    /// Its id.
    pub pid: Pid,
    /// Its address space.
    pub memory: Memory,
    /// Its executable memory.
    pub text: Vec<TextRange>,
    /// Cache of text read so far.
    pub pages: RefCell<Pages>,
    /// The code cache and regions that it shares.
    pub image: ImageRef,
    /// Its transitions to code that is not translated, and back.
    pub transitions: Transitions,
    /// Blocks to translate while no thread waits.
    pub ahead: Ahead,
    /// When one of its threads last waited for an answer.
    pub asked: Option<Instant>,
}

/// Where control continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// In the cache.
    Cache(CacheAddress),
    /// In the program's own memory: code that is not translated, or no code at all.
    Native(Address),
}

impl Destination {
    /// As a program counter.
    pub fn get(self) -> u64 {
        match self {
            Destination::Cache(at) => at.get(),
            Destination::Native(at) => at.get(),
        }
    }
}

impl ImageRef {
    /// Wraps a new code cache and new regions.
    pub fn new(space: CodeCache, regions: Regions) -> Self {
        ImageRef { space: Arc::new(AtomicRefCell::new(space)), regions: Arc::new(AtomicRefCell::new(regions)) }
    }

    /// Whether another process shares it.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.space) > 1
    }
}

impl Process {
    /// Where control continues in `version` when the program continues at `at`; translates the code if needed. Without a tally,
    /// text must have been located ([`locate`](Self::locate)).
    pub fn destination(
        &mut self,
        version: Version,
        at: Address,
        tally: Option<&mut Tally>,
    ) -> Result<Destination, TranslateError> {
        let mut space = self.image.space.borrow_mut();
        if let Some(id) = space.find(version, at) {
            return Ok(Destination::Cache(space.block(id).way_in()));
        }
        let Some(range) = find_text(&self.text, at) else {
            return Ok(Destination::Native(at));
        };
        if range.located.is_none()
            && let Some(tally) = tally
        {
            space.markers.extend(locate(self.pid, &mut self.text, tally));
        }
        let mut source = Source::new(&self.memory, &self.pages, &self.text);
        let mut around = Around::new(version);
        match space.translate(&mut source, version, at, CHAIN, &mut around.exits) {
            Ok(entry) => {
                around.translate_calls(&mut space, &mut source, AT_ONCE);
                self.ahead.push(around);
                Ok(Destination::Cache(entry))
            }
            Err(TranslateError::NoText(_)) => Ok(Destination::Native(at)),
            Err(error) => Err(error),
        }
    }

    /// Looks up the module of every piece of its text.
    pub fn locate(&mut self, tally: &mut Tally) {
        if self.text.iter().any(|t| t.located.is_none()) {
            let markers = locate(self.pid, &mut self.text, tally);
            self.image.space.borrow_mut().markers.extend(markers);
        }
    }

    /// Translates a few blocks that will probably be executed next; returns whether there were any.
    pub fn translate_ahead(&mut self) -> bool {
        let mut space = self.image.space.borrow_mut();
        let mut source = Source::new(&self.memory, &self.pages, &self.text);
        let Some(mut around) = self.ahead.pop() else {
            let placed = space.place_some(&mut source);
            drop((space, source));
            return placed || self.gather_some();
        };
        around.translate(&mut space, &mut source, AHEAD);
        self.ahead.push(around);
        true
    }

    /// The answer to a thread in `version` that waits at an exit (or at a lookup of `target`: see
    /// [`Arrival::of`]); see [`destination`](Self::destination) for the tally.
    pub fn answer(
        &mut self,
        version: Version,
        site: SiteId,
        target: Address,
        tally: Option<&mut Tally>,
    ) -> Result<Destination, TranslateError> {
        if let Some(arrival) = Arrival::of(site) {
            let destination = self.destination(version, target, tally)?;
            if let Destination::Cache(_) = destination {
                self.image.space.borrow_mut().publish(version, target, arrival);
            }
            return Ok(destination);
        }
        let target = self.image.space.borrow().sites[site as usize].target;
        self.destination(version, target, tally)
    }

    /// Forgets text at `from..to`, which the program unmapped or protected.
    pub fn forget_text(&mut self, from: Address, to: Address) {
        let overlaps = |t: &TextRange| t.start < to && t.end > from;
        if self.text.iter().any(overlaps) {
            self.pages.borrow_mut().forget();
        }
        if remove_text(&mut self.text, from, to) && !self.image.is_shared() {
            self.image.space.borrow_mut().invalidate(from, to);
        }
    }

    /// Adds text at `from..to`, which the program made executable. If the process `parts` from the processes that share its code
    /// cache, their translations stay.
    pub fn learn_text(&mut self, from: Address, to: Address, treatment: Treatment, parts: bool) {
        self.pages.borrow_mut().forget();
        let mut space = self.image.space.borrow_mut();
        if treatment == Treatment::Translate && !parts && space.foreign_block(&self.memory, from, to) {
            space.invalidate(from, to);
        }
        add_text(&mut self.text, TextRange { start: from, end: to, treatment, located: None });
    }

    /// Whether the contents of an open file may change: it is a memfd, or open for writing.
    pub fn may_change(&self, descriptor: u64) -> bool {
        let path = format!("/proc/{}/fd/{}", self.pid, descriptor as i32);
        let is_memory =
            std::fs::read_link(&path).is_ok_and(|path| path.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"));
        // The mode of the link shows how the file was opened.
        is_memory || std::fs::symlink_metadata(path).is_ok_and(|link| link.mode() & 0o200 != 0)
    }

    /// Where the text ends in the middle of the instruction at `at`; `None` if it does not.
    pub fn end_within_instruction(&self, at: Address) -> Option<Address> {
        let room = (text_until(&self.text, at, LONGEST as u64)? - at).min(LONGEST as u64) as usize;
        let mut bytes = [0; LONGEST];
        let size = self.memory.read_some(at, &mut bytes[..room]).unwrap_or(0);
        (0 < size && size < LONGEST).then(|| at + size as u64)
    }

    /// The mapping that now holds `at`.
    pub fn mapping(&self, at: Address) -> Option<Mapping> {
        read_maps(self.pid).ok()?.into_iter().find(|m| m.contains(at))
    }

    /// How memory that becomes executable by `mprotect` is treated.
    pub fn treatment_of(&self, at: Address, writable: bool) -> Treatment {
        match self.mapping(at) {
            Some(mapping) if !writable => treatment(&Mapping { writable: false, ..mapping }),
            _ => Treatment::Native,
        }
    }

    /// The program's state at a cache address, if it is known there: (block, offset in it, moved registers).
    pub fn state_at(&self, at: CacheAddress) -> Option<(BlockId, u16, Moved)> {
        self.image.space.borrow().point_at(at).map(|(id, p)| (id, p.program, p.moved))
    }

    /// The place in the program's files that a cache address belongs to, if known.
    pub fn code_at(&self, at: CacheAddress) -> Option<CodeRef> {
        let (block, offset, _) = self.state_at(at)?;
        let at = self.image.space.borrow().block(block).start + u64::from(offset);
        find_text(&self.text, at)?.located.map(|located| located.code_ref(at))
    }
}

/// Looks up the module of every piece of text; returns the marker functions in those modules.
fn locate(pid: Pid, text: &mut [TextRange], tally: &mut Tally) -> Vec<(u64, Marker)> {
    let Ok(maps) = read_maps(pid) else { return Vec::new() };
    let mut markers = Vec::new();
    for range in text.iter_mut().filter(|t| t.located.is_none()) {
        if let Some(mapping) = maps.iter().find(|m| m.contains(range.start)) {
            let located = tally.locate(pid, mapping);
            range.located = Some(located);
            let found = tally.markers(pid, located.module).iter();
            markers.extend(found.map(|&(at, marker)| (at.wrapping_add(located.bias), marker)));
        }
    }
    markers
}
