//! Decodes the buffers of traced threads for the burst sink.

use std::collections::HashMap;

use nix::unistd::Pid;

use crate::strings::Run;
use crate::translator::code_cache::block::BlockId;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::probe_site::ProbeSite;
use crate::translator::code_cache::records::{self, Reader};
use crate::translator::program::thread::Thread;
use crate::translator::sampling::access_buffer::empty;
use crate::translator::sampling::burst_pace::Stage;
use rprof_isa::facts::AccessKind;
use rprof_profile::evidence::bursts::{BurstEvidence, BurstSink, TraceEntry, TracedAccess, TracedBlock};
use rprof_tracee::proc_status::read_cpu_seconds;

/// The burst sink, and the threads with bursts that it is recording.
pub struct Bursts {
    sink: Box<dyn BurstSink>,
    /// The stage of the present burst.
    pub(crate) stage: Stage,
    /// Threads in the middle of a burst.
    open: Vec<u32>,
    /// Threads in the version that traces, with their processor seconds when they came there.
    came: Vec<(Pid, f64)>,
    /// Processor seconds that threads spent there since the last call of [`used_s`](Bursts::used_s).
    used_s: f64,
    /// Something was recorded or answered since the last call of [`have_moved`](Bursts::have_moved).
    moved: bool,
    numbers: Numbers,
    entries: Vec<TraceEntry>,
    bytes: Vec<u8>,
}

/// The sink's numbers of blocks.
#[derive(Default)]
struct Numbers {
    /// By the serial number of a code cache and by block; [`NONE`] if it has none yet. Every traced block is looked up here.
    of_cache: Vec<Vec<u32>>,
    /// Blocks that have a number, by (address, module, offset).
    by_place: HashMap<(u64, u32, u64), Vec<Known>>,
    next: u32,
}

/// A block that has a number.
struct Known {
    number: u32,
    code: Vec<u8>,
}

const NONE: u32 = u32::MAX;

impl Numbers {
    /// The number of block `id` of `cache`; introduces it to the sink if it is new.
    fn get(&mut self, cache: &CodeCache, id: BlockId, sink: &mut dyn BurstSink) -> u32 {
        let (serial, at) = (cache.serial as usize, id as usize);
        if self.of_cache.len() <= serial {
            self.of_cache.resize_with(serial + 1, Vec::new);
        }
        let of_cache = &mut self.of_cache[serial];
        if of_cache.len() <= at {
            of_cache.resize(cache.blocks.len().max(at + 1), NONE);
        }
        if of_cache[at] == NONE {
            let (block, code) = (cache.block(id), cache.block_code(id));
            let place = (block.start.get(), block.at.module, block.at.offset);
            let same = self.by_place.entry(place).or_default();
            let known = same.iter().find(|known| known.code == code).map(|known| known.number);
            of_cache[at] = known.unwrap_or_else(|| {
                let number = self.next;
                self.next += 1;
                same.push(Known { number, code: code.to_vec() });
                sink.block(number, TracedBlock { at: block.at, start: block.start.get(), code: code.to_vec() });
                number
            });
        }
        of_cache[at]
    }
}

/// Makes entries of records.
struct Entries<'a> {
    cache: &'a CodeCache,
    sink: &'a mut dyn BurstSink,
    numbers: &'a mut Numbers,
    entries: &'a mut Vec<TraceEntry>,
    offset: u16,
    kind: AccessKind,
}

impl Reader for Entries<'_> {
    fn block(&mut self, id: BlockId) {
        if (id as usize) < self.cache.blocks.len() {
            self.entries.push(TraceEntry::Block(self.numbers.get(self.cache, id, self.sink)));
        }
    }

    fn probe(&mut self, _number: u32, probe: &ProbeSite) {
        (self.offset, self.kind) = (probe.offset, probe.kind);
    }

    fn access(&mut self, address: u64, bytes: u32) {
        self.entries.push(TraceEntry::Access(TracedAccess { address, bytes, offset: self.offset, kind: self.kind }));
    }

    fn repeated(&mut self, runs: &[Run]) {
        for run in runs.iter().filter(|run| run.bytes > 0) {
            self.kind = run.kind;
            self.access(run.address, u32::try_from(run.bytes).unwrap_or(u32::MAX));
        }
    }
}

impl Bursts {
    /// For a run with this sink.
    pub fn new(sink: Box<dyn BurstSink>) -> Self {
        Bursts {
            sink,
            stage: Stage::default(),
            open: Vec::new(),
            came: Vec::new(),
            used_s: 0.0,
            moved: false,
            numbers: Numbers::default(),
            entries: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Whether the sink takes everything.
    pub fn is_continuous(&self) -> bool {
        self.sink.is_continuous()
    }

    /// Whether no more bursts are wanted.
    pub fn is_full(&self) -> bool {
        self.sink.is_full()
    }

    /// Begins the burst of a thread that is in the tracing version from now on, with an empty buffer.
    pub fn begin(&mut self, thread: u32) {
        if !self.open.contains(&thread) {
            self.open.push(thread);
            self.sink.begin(thread);
        }
    }

    /// Ends the burst of a thread, if there is one.
    pub fn end(&mut self, thread: u32) {
        if let Some(at) = self.open.iter().position(|&open| open == thread) {
            self.open.swap_remove(at);
            self.sink.end(thread);
        }
    }

    /// A stopped thread has entered the version that traces.
    pub fn came(&mut self, tid: Pid) {
        self.came.extend(read_cpu_seconds(tid).map(|now_s| (tid, now_s)));
    }

    /// A stopped thread has left it.
    pub fn left(&mut self, tid: Pid) {
        if let Some(at) = self.came.iter().position(|came| came.0 == tid) {
            let (_, then_s) = self.came.swap_remove(at);
            self.used_s += read_cpu_seconds(tid).map_or(0.0, |now_s| (now_s - then_s).max(0.0));
        }
    }

    /// Processor seconds that threads spent in that version since the last call.
    pub fn used_s(&mut self) -> f64 {
        std::mem::take(&mut self.used_s)
    }

    /// Whether a burst is not long enough yet.
    pub fn go_on(&self) -> bool {
        self.open.iter().any(|&thread| self.sink.goes_on(thread))
    }

    /// Whether the burst of `thread` is one of those.
    pub fn goes_on(&self, thread: u32) -> bool {
        self.open.contains(&thread) && self.sink.goes_on(thread)
    }

    /// A traced thread got an answer.
    pub fn note_answer(&mut self) {
        self.moved = true;
    }

    /// Whether something was recorded or answered since the last call.
    pub fn have_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Hands the records of a stopped or waiting traced thread to the sink, and empties its buffer.
    pub fn drain(&mut self, cache: &CodeCache, thread: &Thread) {
        let contexts = thread.contexts.borrow();
        let start = contexts.base(thread.context).get() + u64::from(layout::TRACE_BUFFER);
        let size = contexts.get(thread.context, layout::CURSOR).wrapping_sub(start);
        if size > 0 && self.sink.is_continuous() {
            self.begin(thread.ordinal);
        }
        if self.goes_on(thread.ordinal) && size > 0 && size <= u64::from(layout::TRACE_BUFFER_SIZE) {
            self.bytes.resize(size as usize, 0);
            if contexts.read(thread.context, layout::TRACE_BUFFER, &mut self.bytes).is_ok() {
                let about_to = contexts.get(thread.context, layout::REPEAT_FROM);
                self.entries.clear();
                let (offset, kind) = (0, AccessKind::Load);
                let (sink, numbers, entries) = (&mut *self.sink, &mut self.numbers, &mut self.entries);
                let mut reader = Entries { cache, sink, numbers, entries, offset, kind };
                records::read(&self.bytes, &cache.counters.probe_sites, about_to, &mut reader);
                self.sink.record(thread.ordinal, &self.entries);
                self.moved = true;
            }
        }
        empty(&contexts, thread.context, thread.version);
    }

    /// Ends the run.
    pub fn finish(self) -> BurstEvidence {
        self.sink.finish()
    }
}
