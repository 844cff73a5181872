//! Decodes threads' address buffers and hands the accesses to the access sink.

use std::collections::HashMap;
use std::ops::Range;

use crate::strings::{self, Run};
use crate::translator::code_cache::block::BlockId;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::hash::AddressMap;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::probe_site::{ProbeSite, Shape};
use crate::translator::code_cache::records::{self, Reader};
use crate::translator::code_cache::version::Version;
use crate::translator::program::thread::Thread;
use crate::translator::sampling::pc_sampling::Unseen;
use rprof_isa::facts::AccessKind;
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::data::Allocation;
use rprof_profile::evidence::memory::{Access, AccessSink, Amount, Executed};

/// The access sink, and the numbers of its instructions.
pub struct AccessBuffer {
    sink: Box<dyn AccessSink>,
    /// Instructions that no window has seen.
    pub unseen: Unseen,
    sites: Vec<CodeRef>,
    by_place: AddressMap<(u32, u64), u32>,
    batch: Vec<Access>,
    /// Number and kind of the instruction with the entries being decoded.
    now: (u32, AccessKind),
    bytes: Vec<u8>,
    /// Numbers of the instructions drained last, by probe. Each program has its own probes, and so has each version.
    recent: Vec<Option<(CodeRef, Version, u32)>>,
    /// By thread: the buffer address from which on the buffer is complete, if that began in the middle of it.
    complete_from: HashMap<u32, u64>,
    /// Executions since the last report.
    deltas: Vec<Amount>,
}

/// Entries of the table of recent numbers.
const RECENT: usize = 1024;

/// Empties the buffer of a thread that does not run, for `version`.
pub fn empty(contexts: &Contexts, context: u32, version: Version) {
    contexts.set(context, layout::CURSOR, contexts.base(context).get() + u64::from(version.buffer()));
}

/// Switches a thread with an empty buffer to `version`.
pub fn enter(drain: &mut Option<AccessBuffer>, contexts: &Contexts, context: u32, thread: u32, version: Version) {
    match drain {
        Some(drain) => drain.enter(contexts, context, thread, version),
        None => empty(contexts, context, version),
    }
}

impl Reader for AccessBuffer {
    fn block(&mut self, _id: BlockId) {}

    fn probe(&mut self, number: u32, probe: &ProbeSite) {
        self.now = (self.recent_number(number, probe), probe.kind);
    }

    fn access(&mut self, address: u64, bytes: u32) {
        let (site, kind) = self.now;
        self.batch.push(Access { address, bytes, site, kind });
    }

    fn repeated(&mut self, runs: &[Run]) {
        strings::accesses(runs, self.now.0, &mut self.batch);
    }
}

impl AccessBuffer {
    /// For a run with this sink.
    pub fn new(sink: Box<dyn AccessSink>) -> Self {
        AccessBuffer {
            sink,
            unseen: Unseen::default(),
            sites: Vec::new(),
            by_place: AddressMap::default(),
            batch: Vec::new(),
            now: (0, AccessKind::Load),
            bytes: Vec::new(),
            recent: vec![None; RECENT],
            complete_from: HashMap::new(),
            deltas: Vec::new(),
        }
    }

    /// The version that the sink wants threads to be in.
    pub fn wanted(&self) -> Version {
        Version::of(self.sink.phase())
    }

    /// Lets the sink do a part of its deferred work; false if nothing is left.
    pub fn work(&mut self) -> bool {
        self.sink.work()
    }

    /// Lets the sink do all of its deferred work.
    pub fn catch_up(&mut self) {
        self.sink.catch_up();
    }

    /// Whether the sink has deferred work.
    pub fn is_behind(&self) -> bool {
        self.sink.is_behind()
    }

    /// Notifies the sink that the phase has been long enough.
    pub fn end_phase(&mut self) {
        self.sink.end_phase();
    }

    /// Notifies the sink that `thread`, with an empty buffer, is in `version` from now on.
    pub fn enter(&mut self, contexts: &Contexts, context: u32, thread: u32, version: Version) {
        self.sink.enter(thread, version.phase());
        self.start(contexts, context, thread, version);
    }

    /// Empties a thread's buffer, and asks the sink which lines to collect.
    fn start(&mut self, contexts: &Contexts, context: u32, thread: u32, version: Version) {
        let mask = self.sink.collect(thread).mask();
        contexts.set(context, layout::SELECT_MASK, mask);
        // Another thread may take a line away between two accesses; bursts, which are complete, show how often.
        contexts.set(context, layout::FILTER, u64::from(mask != 0));
        for i in 0..layout::FILTERED_LINES {
            contexts.set(context, layout::FILTERED + 8 * i, 0);
        }
        empty(contexts, context, version);
    }

    /// Makes a running `thread` record every access from now on, if the sink wants that: the bursts of all threads should
    /// overlap, and a buffer of selected accesses takes long to fill.
    pub fn record_all(&mut self, thread: &Thread) {
        let contexts = thread.contexts.borrow();
        let complete = |mask: u64| mask == 0;
        if !thread.version.collects()
            || thread.version.traces()
            || complete(contexts.get(thread.context, layout::SELECT_MASK))
            || !complete(self.sink.collect(thread.ordinal).mask())
        {
            return;
        }
        contexts.set(thread.context, layout::FILTER, 0);
        contexts.set(thread.context, layout::SELECT_MASK, 0);
        // Accesses that it records before rprof reads the cursor count as selected, which does no harm.
        self.complete_from.insert(thread.ordinal, contexts.get(thread.context, layout::CURSOR));
    }

    /// Hands the accesses of a stopped or waiting thread to the sink, and empties its buffer.
    pub fn drain(&mut self, cache: &CodeCache, thread: &Thread) {
        let contexts = thread.contexts.borrow();
        let start = contexts.base(thread.context).get() + u64::from(layout::BUFFER);
        let size = contexts.get(thread.context, layout::CURSOR).wrapping_sub(start);
        if size > 0 && size <= u64::from(layout::BUFFER_SIZE) {
            self.bytes.resize(size as usize, 0);
            if contexts.read(thread.context, layout::BUFFER, &mut self.bytes).is_ok() {
                let address_space = thread.address_space.as_raw() as u32;
                let all = contexts.get(thread.context, layout::SELECT_MASK) == 0;
                let complete_from = match self.complete_from.get(&thread.ordinal) {
                    Some(at) => at.saturating_sub(start).min(size) as usize,
                    None if all => 0,
                    None => size as usize,
                };
                let about_to = contexts.get(thread.context, layout::REPEAT_FROM);
                self.decode(cache, 0..complete_from, about_to);
                if !self.batch.is_empty() {
                    self.sink.record_selected(thread.ordinal, address_space, &self.batch);
                }
                self.decode(cache, complete_from..size as usize, about_to);
                if !self.batch.is_empty() {
                    self.sink.record(thread.ordinal, address_space, &self.batch);
                }
            }
        }
        self.complete_from.remove(&thread.ordinal);
        self.start(&contexts, thread.context, thread.ordinal, thread.version);
    }

    /// Notifies the sink that a thread with a drained buffer is about to end.
    pub fn ending(&mut self) {
        self.sink.ending();
    }

    /// Notifies the sink that `thread` has ended, with its buffer drained.
    pub fn ended(&mut self, thread: u32) {
        self.sink.ended(thread);
    }

    /// Decodes a part of the bytes into the batch. `about_to` is the repeat count of the latest `rep` instruction.
    fn decode(&mut self, cache: &CodeCache, part: Range<usize>, about_to: u64) {
        self.batch.clear();
        let bytes = std::mem::take(&mut self.bytes);
        records::read(&bytes[part], &cache.counters.probe_sites, about_to, self);
        self.bytes = bytes;
    }

    /// The number of the instruction of `probe`, the `id`th of its code cache.
    fn recent_number(&mut self, id: u32, probe: &ProbeSite) -> u32 {
        let index = id as usize % RECENT;
        match self.recent[index] {
            Some((at, version, number)) if at == probe.at && version == probe.version => number,
            _ => {
                if probe.version == Version::Measuring {
                    self.unseen.saw(probe.at);
                }
                let number = self.number(probe.at);
                self.recent[index] = Some((probe.at, probe.version, number));
                number
            }
        }
    }

    fn number(&mut self, at: CodeRef) -> u32 {
        let sites = &mut self.sites;
        *self.by_place.entry((at.module, at.offset)).or_insert_with(|| {
            sites.push(at);
            sites.len() as u32 - 1
        })
    }

    /// Adds executions of `probe` by any thread since the last report.
    pub fn note_delta(&mut self, probe: &ProbeSite, executions: u64, sum: u64) {
        let (accesses, bytes) = probe.accesses(executions, sum);
        let (site, strings) = (self.number(probe.at), matches!(probe.shape, Shape::Repeated { .. }));
        let amount = if strings { bytes } else { accesses };
        self.deltas.push(Amount { site, phase: probe.version.phase(), amount, strings });
    }

    /// Reports the added executions to the sink.
    pub fn report_deltas(&mut self) {
        self.sink.deltas(&self.deltas);
        self.deltas.clear();
    }

    /// Reports `thread`'s executions of `probe` to the sink.
    pub fn executed(&mut self, probe: &ProbeSite, thread: u32, executions: u64, sum: u64) {
        let site = self.number(probe.at);
        let (accesses, bytes) = probe.accesses(executions, sum);
        if accesses > 0 || bytes > 0 {
            let (phase, kind) = (probe.version.phase(), probe.kind);
            let strings = matches!(probe.shape, Shape::Repeated { .. });
            self.sink.executed(Executed { thread, site, phase, kind, accesses, bytes, strings });
        }
    }

    /// Reports an allocation in `address_space` to the sink.
    pub fn allocated(&mut self, address_space: u32, allocation: Allocation) {
        self.sink.allocated(address_space, allocation);
    }

    /// Notifies the sink that `child` begins with a copy of the memory of `parent`.
    pub fn forked(&mut self, parent: u32, child: u32) {
        self.sink.forked(parent, child);
    }

    /// Notifies the sink that `from..to` was unmapped in `address_space`.
    pub fn unmapped(&mut self, address_space: u32, from: u64, to: u64) {
        self.sink.unmapped(address_space, from, to);
    }

    /// Ends the run.
    pub fn finish(self) -> rprof_profile::evidence::memory::MemoryEvidence {
        self.sink.finish(&self.sites)
    }
}
