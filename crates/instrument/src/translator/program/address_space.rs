//! An address space of the program: its memory, its text, and the code cache that it shares with those of its forks.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use nix::unistd::Pid;

use crate::modules::{Modules, SharedModules, Watched};
use crate::translator::code_cache::block::{BlockId, SiteId, SpillState};
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::descriptor::DescriptorKind;
use crate::translator::code_cache::syscall_table::{record_sockets, stop_at_advice, stop_at_writes};
use crate::translator::code_cache::trampoline::Trampoline;
use crate::translator::code_cache::version::Version;
use crate::translator::program::excursions::Transitions;
use crate::translator::program::image::ImageRef;
use crate::translator::translate::ahead::{Ahead, Around};
use crate::translator::translate::arrival::Arrival;
use crate::translator::translate::superblock::TranslateError;
use crate::translator::translate::text_ranges::{
    TextRange, Treatment, Untranslated, add_text, find_piece, find_text, find_untranslated, is_anonymous,
    is_memory_file, remove_text, text_until, treatment,
};
use crate::translator::translate::text_reader::{Pages, Source};
use crate::x86_64::decode::LONGEST;
use rprof_profile::code::CodeRef;
use rprof_tracee::address::{Address, CacheAddress};
use rprof_tracee::maps::{Mapping, read_maps};
use rprof_tracee::memory::Memory;
use rprof_tracee::sockets::open_sockets;

/// Blocks in one chain.
const CHAIN: usize = 16;
/// Blocks of the first chain's callees that rprof translates before it answers a request. The program executes eight in ten of
/// them, as many as of the chain (import of numpy); of the chain's branch targets it executes four in ten, and waiting for those
/// would take the thread longer than another request.
const AT_ONCE: usize = 16;
/// Blocks translated at a time while no thread waits; a thread that asks meanwhile waits for them.
const AHEAD: usize = 3;

/// How often memory may be made writable and executable again before its code is no longer translated.
const REWRITES: u32 = 8;
const PAGE: u64 = 4096;

/// The memory of a process, or of several that share it (`vfork`, `CLONE_VM`).
#[derive(Debug)]
pub struct AddressSpace {
    /// The process that had it first: its id.
    pub pid: Pid,
    /// Its bytes.
    pub memory: Memory,
    /// Its executable memory.
    pub text: Vec<TextRange>,
    /// Cache of text read so far.
    pub pages: RefCell<Pages>,
    /// The modules of the run.
    pub modules: SharedModules,
    /// The code cache and contexts that it shares.
    pub image: ImageRef,
    /// Its contexts in which the tables are mapped.
    pub with_tables: BTreeSet<u32>,
    /// Its first instruction is in code that is not translated.
    pub begins_natively: bool,
    /// By page: how often it took back translated code to write it.
    pub rewrites: HashMap<u64, u32>,
    /// By first address of a file's text: when its file was last written, and when that was looked at, as of the last visit.
    pub files: HashMap<Address, (SystemTime, SystemTime)>,
    /// Pages of text that were written while it was watched.
    pub written: BTreeSet<u64>,
    /// By first address of a file's text: its pages that were no longer the file's at the last visit.
    pub private: HashMap<Address, Vec<u64>>,
    /// Its transitions to code that is not translated, and back.
    pub transitions: Transitions,
    /// Blocks to translate while no thread waits.
    pub ahead: Ahead,
    /// When one of its threads last waited for an answer.
    pub asked: Option<Instant>,
}

/// The place at which control continues.
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

impl AddressSpace {
    /// The memory of process `pid` with its executable parts `text`, to be executed from `image`.
    pub fn new(pid: Pid, memory: Memory, text: Vec<TextRange>, modules: &SharedModules, image: ImageRef) -> Self {
        AddressSpace {
            pid,
            memory,
            text,
            pages: RefCell::default(),
            modules: modules.clone(),
            image,
            with_tables: BTreeSet::new(),
            begins_natively: false,
            rewrites: HashMap::new(),
            files: HashMap::new(),
            written: BTreeSet::new(),
            private: HashMap::new(),
            transitions: Transitions::new(),
            ahead: Ahead::default(),
            asked: None,
        }
    }

    /// rprof's mappings there: (address, bytes).
    pub fn mappings(&self) -> impl Iterator<Item = (Address, u64)> {
        let contexts = self.image.contexts.borrow().mapping();
        let all: Vec<(Address, u64)> = self.image.cache.borrow().mappings().chain([contexts]).collect();
        all.into_iter()
    }

    /// An instruction `syscall` in its code cache, for calls in the program's name.
    pub fn gadget(&self) -> Option<Address> {
        self.image.cache.borrow().arenas.first().map(|arena| Address::new(arena.stubs.gadget.get()))
    }

    /// The place at which control continues in `version` when the program continues at `at`; translates the code if
    /// needed.
    pub fn destination(&mut self, version: Version, at: Address) -> Result<Destination, TranslateError> {
        let mut cache = self.image.cache.borrow_mut();
        if let Some(id) = cache.find(version, at) {
            let known = cache.trampolines.get(&id);
            if known.is_none_or(|known| Trampoline::read(&self.memory, at).is_some_and(|now| now.is_like(known))) {
                return Ok(Destination::Cache(cache.block(id).way_in()));
            }
            cache.invalidate(at, at + 1);
        }
        let Some(range) = find_text(&self.text, at) else {
            drop(cache);
            return self.untranslated_destination(version, at);
        };
        if range.located.is_none() {
            locate(self.pid, &mut self.text, &mut self.modules.lock(), &mut cache);
        }
        let mut source = Source::new(&self.memory, &self.pages, &self.text);
        let mut around = Around::new(version);
        match cache.translate(&mut source, version, at, CHAIN, &mut around.exits) {
            Ok(entry) => {
                around.translate_calls(&mut cache, &mut source, AT_ONCE);
                self.ahead.push(around);
                Ok(Destination::Cache(entry))
            }
            Err(TranslateError::NoText(_)) => Ok(Destination::Native(at)),
            Err(error) => Err(error),
        }
    }

    /// The place at which control continues for `at`, which is not to be translated: unless it is a trampoline, in the
    /// program's own memory.
    fn untranslated_destination(&mut self, version: Version, at: Address) -> Result<Destination, TranslateError> {
        // A stack grows.
        if find_piece(&self.text, at).is_none()
            && let Some(mapping) = self.mapping(at).filter(|m| m.executable)
            && let treatment @ Treatment::Native(_) = treatment(&mapping)
        {
            add_text(&mut self.text, TextRange { start: mapping.start, end: mapping.end, treatment, located: None });
        }
        let native = Ok(Destination::Native(at));
        let Some(trampoline) = find_piece(&self.text, at).and_then(|_| Trampoline::read(&self.memory, at)) else {
            return native;
        };
        self.locate();
        let Some(located) = find_piece(&self.text, at).and_then(|range| range.located) else { return native };
        let mut cache = self.image.cache.borrow_mut();
        cache.translate_trampoline(version, (at, located.code_ref(at)), trampoline)?;
        Ok(cache.find(version, at).map_or(Destination::Native(at), |id| Destination::Cache(cache.block(id).way_in())))
    }

    /// Looks up the module of every piece of its text.
    pub fn locate(&mut self) {
        if self.text.iter().any(|t| t.located.is_none()) {
            locate(self.pid, &mut self.text, &mut self.modules.lock(), &mut self.image.cache.borrow_mut());
        }
    }

    /// Translates a few blocks that will probably be executed next; returns whether there were any.
    pub fn translate_ahead(&mut self) -> bool {
        let mut cache = self.image.cache.borrow_mut();
        let mut source = Source::new(&self.memory, &self.pages, &self.text);
        let Some(mut around) = self.ahead.pop() else {
            let mut placing = self.image.placing.borrow_mut();
            return placing.place_some(&mut cache, &mut source)
                || placing.gather_some(&cache, &self.image.contexts.borrow());
        };
        around.translate(&mut cache, &mut source, AHEAD);
        self.ahead.push(around);
        true
    }

    /// Whether a plan of relayout is being carried out.
    pub fn is_relaid_out(&self) -> bool {
        self.image.placing.borrow().is_carrying_out()
    }

    /// Plans the relayout of its hot blocks from the counters of threads, those in the contexts that follow.
    pub fn plan_relayout(&mut self, counts: (Vec<u64>, Vec<u32>), now: Instant) {
        let mut cache = self.image.cache.borrow_mut();
        let mut source = Source::new(&self.memory, &self.pages, &self.text);
        let contexts = self.image.contexts.borrow();
        self.image.placing.borrow_mut().plan(&mut cache, &contexts, &mut source, counts, now);
    }

    /// The answer to a thread in `version` that waits at an exit (or at a lookup of `target`: see
    /// [`Arrival::of`]).
    pub fn answer(&mut self, version: Version, site: SiteId, target: Address) -> Result<Destination, TranslateError> {
        if let Some(arrival) = Arrival::of(site) {
            let destination = self.destination(version, target)?;
            if let Destination::Cache(_) = destination {
                self.image.cache.borrow_mut().publish(version, target, arrival);
            }
            return Ok(destination);
        }
        self.destination(version, self.requested(site, target))
    }

    /// The address that a thread asks for which waits at an exit, or at a lookup of `target`: at an exit the mailbox has an older one.
    pub fn requested(&self, site: SiteId, target: Address) -> Address {
        match Arrival::of(site) {
            Some(_) => target,
            None => self.image.cache.borrow().sites[site as usize].target,
        }
    }

    /// Forgets text at `from..to`, which the program unmapped or protected.
    pub fn forget_text(&mut self, from: Address, to: Address) {
        let overlaps = |t: &TextRange| t.start < to && t.end > from;
        if self.text.iter().any(overlaps) {
            self.pages.borrow_mut().forget();
        }
        if remove_text(&mut self.text, from, to) && !self.image.is_shared() {
            self.image.cache.borrow_mut().invalidate(from, to);
        }
    }

    /// Drops the translations of `from..to` if the text there is not what it was. If the process `parts` from the processes that share
    /// its code cache, their translations stay.
    pub fn compare_text(&mut self, from: Address, to: Address, parts: bool) {
        self.pages.borrow_mut().forget();
        let mut cache = self.image.cache.borrow_mut();
        if !parts && cache.foreign_block(&self.memory, from, to) {
            cache.invalidate(from, to);
        }
    }

    /// Adds text at `from..to`, which the program made executable. If the process `parts` from the processes that share its code
    /// cache, their translations stay.
    pub fn learn_text(&mut self, from: Address, to: Address, treatment: Treatment, parts: bool) {
        if treatment == Treatment::Translate {
            self.compare_text(from, to, parts);
        }
        self.pages.borrow_mut().forget();
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

    /// The end of the text if it is in the middle of the instruction at `at`, otherwise `None`.
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

    /// How memory at `from..to` that becomes executable by `mprotect` is treated.
    pub fn treatment_of(&self, from: Address, to: Address, writable: bool) -> Treatment {
        let Some(mapping) = self.mapping(from) else { return Treatment::Native(Untranslated::Unseen) };
        let (anonymous, in_memory) = (is_anonymous(&mapping), is_memory_file(&mapping));
        Treatment::Native(match treatment(&Mapping { writable, ..mapping }) {
            Treatment::Native(why) => why,
            Treatment::Translate if in_memory => Untranslated::Shared,
            Treatment::Translate if anonymous && self.is_rewritten(from, to) => Untranslated::Rewritten,
            Treatment::Translate
                if anonymous && open_for_writing(self.pid).iter().any(|path| is_memory_of_process(path)) =>
            {
                Untranslated::ThroughProc
            }
            Treatment::Translate => return Treatment::Translate,
        })
    }

    /// Takes note that it is about to write at `from..to`, if code there is translated.
    pub fn note_rewriting(&mut self, from: Address, to: Address) {
        for range in self.text.iter().filter(|t| t.is_translated_in(from, to)) {
            stop_at_advice(&self.image.cache.borrow().tables);
            self.written.extend(pages(range.start.max(from), range.end.min(to)));
            for page in pages(range.start.max(from), range.end.min(to)) {
                *self.rewrites.entry(page).or_default() += 1;
            }
        }
    }

    /// Takes note that text at `from..to` was written, by whatever means.
    pub fn note_written(&mut self, from: Address, to: Address) {
        self.written.extend(pages(from, to));
    }

    /// The memory at `from..to` is gone; later mappings there begin anew.
    pub fn forget_rewriting(&mut self, from: Address, to: Address) {
        self.rewrites.retain(|page, _| !pages(from, to).contains(page));
    }

    /// Whether it wrote there time after time.
    fn is_rewritten(&self, from: Address, to: Address) -> bool {
        self.rewrites.iter().any(|(page, &times)| times >= REWRITES && pages(from, to).contains(page))
    }

    /// Has its writes stop if the memory of a process is among what it has `open` for writing, from another program or from before a visit.
    pub fn watch_writes(&self, open: &[PathBuf]) {
        if open.iter().any(|path| is_memory_of_process(path)) {
            stop_at_writes(&self.image.cache.borrow().tables);
        }
    }

    /// Why code at `at` is not translated; `None` if there is no code: a thread that goes there gets a signal at once.
    pub fn untranslated(&self, at: Address) -> Option<Untranslated> {
        match find_untranslated(&self.text, at) {
            None | Some(Untranslated::Unseen) if !self.mapping(at).is_some_and(|m| m.executable) => None,
            why => Some(why.unwrap_or(Untranslated::Unseen)),
        }
    }

    /// The program's state at a cache address, if it is known there: (block, offset in it, moved registers).
    pub fn state_at(&self, at: CacheAddress) -> Option<(BlockId, u16, SpillState)> {
        self.image.cache.borrow().point_at(at).map(|(id, p)| (id, p.program, p.moved))
    }

    /// The place in the program's files of an address in its text.
    pub fn place(&self, at: Address) -> Option<CodeRef> {
        find_text(&self.text, at)?.located.map(|located| located.code_ref(at))
    }

    /// The place in the program's files that a cache address belongs to, if known.
    pub fn code_at(&self, at: CacheAddress) -> Option<CodeRef> {
        let (block, offset, _) = self.state_at(at)?;
        let at = self.image.cache.borrow().block(block).start + u64::from(offset);
        find_text(&self.text, at)?.located.map(|located| located.code_ref(at))
    }
}

/// Files that process `pid` has open for writing, as the links of its descriptors say.
pub fn open_for_writing(pid: Pid) -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    // The mode of the link shows how the file was opened.
    let may_write = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|link| link.mode() & 0o200 != 0);
    descriptors.map(|d| d.path()).filter(may_write).filter_map(|path| std::fs::read_link(path).ok()).collect()
}

/// Whether a descriptor's link is that of a process's memory.
fn is_memory_of_process(link: &Path) -> bool {
    link.starts_with("/proc") && link.file_name().is_some_and(|name| name == "mem")
}

/// The pages in `from..to`.
pub fn pages(from: Address, to: Address) -> Range<u64> {
    from.get() / PAGE..to.get().div_ceil(PAGE)
}

/// Looks up the module of every piece of text; enters the watched functions in those modules.
fn locate(pid: Pid, text: &mut [TextRange], modules: &mut Modules, cache: &mut CodeCache) {
    let Ok(maps) = read_maps(pid) else { return };
    for range in text.iter_mut().filter(|t| t.located.is_none()) {
        if let Some(mapping) = maps.iter().find(|m| m.contains(range.start)) {
            let located = modules.locate(pid, mapping);
            range.located = Some(located);
            let Watched { markers, mpi, blas } = modules.watched(pid, located.module);
            cache.markers.extend(markers.iter().map(|&(at, marker)| (at.wrapping_add(located.bias), marker)));
            let text = range.start.get()..range.end.get();
            cache.watched.mpi.add(located.module, mpi, located.bias, text);
            if cache.watched.mpi.begins_to_see_sockets() {
                record_sockets(&cache.tables);
                open_sockets(pid).into_iter().for_each(|fd| cache.set_descriptor(fd, DescriptorKind::New));
            }
            cache.watched.blas.add(located.module, blas, located.bias);
        }
    }
}
