//! Evidence of the memory model: bytes that crossed each level, by the instruction that caused them.

use serde::{Deserialize, Serialize};

use crate::code::CodeRef;
use crate::evidence::data::{Allocation, DataEvidence};
use crate::evidence::pages::PagesEvidence;
use crate::run::Warning;
use rprof_isa::facts::AccessKind;

/// One memory access as the counting engine reports it to an access sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Run-time virtual address.
    pub address: u64,
    /// Bytes (of one lane for gathers and scatters; the whole run for `rep`, split by the engine into ≤ 2^31).
    pub bytes: u32,
    /// The engine's number for the instruction; [`MemoryEvidence::sites`] is indexed by it through the engine's table.
    pub site: u32,
    /// Kind.
    pub kind: AccessKind,
}

impl Access {
    /// The address of its last byte.
    #[inline]
    pub fn last_byte(&self) -> u64 {
        self.address.saturating_add(u64::from(self.bytes.max(1)) - 1)
    }
}

/// The phase of sampling in which an engine collected accesses. Programs are sampled in time: windows of collection
/// alternate with pauses, in which the engine counts executions only.
///
/// ```text
/// Opening ─▶ Pause ─▶ Warming ─▶ Measuring ─▶ Pause ─▶ …
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Phase {
    /// From the program's start on: its accesses represent themselves only.
    #[default]
    Opening,
    /// Nothing is collected.
    Pause,
    /// Its accesses bring the model's state up to date. They represent only those instructions that no other phase saw.
    Warming,
    /// Its accesses represent those of the pauses, too.
    Measuring,
}

/// Accesses of one kind that an instruction executed in one thread and phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// The thread.
    pub thread: u32,
    /// The instruction.
    pub site: u32,
    /// The phase.
    pub phase: Phase,
    /// Kind of the accesses.
    pub kind: AccessKind,
    /// Their number; active lanes for gathers and scatters.
    pub accesses: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The accesses are of string instructions (`rep`): of any length, and split if the engine had to interrupt them. Their
    /// amount is therefore measured in bytes.
    pub strings: bool,
}

/// Accesses of one instruction in one phase, summed over all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The instruction.
    pub site: u32,
    /// The phase.
    pub phase: Phase,
    /// Number of accesses; bytes for string instructions.
    pub amount: u64,
    /// As in [`Executed::strings`].
    pub strings: bool,
}

/// The interface of a memory model to the counting engine. `session` connects the two.
///
/// An engine that can collect in phases asks [`phase`](Self::phase) after every batch and reports a thread's phase with
/// [`enter`](Self::enter); one that cannot stays in the first phase.
///
/// An engine that can leave accesses out asks [`collect`](Self::collect) before it fills a thread's next buffer, and
/// hands the buffer to `record` or `record_selected` accordingly. One that cannot calls `record` alone.
///
/// A sink may defer the work on a batch, so that the thread that filled it can go on. The engine calls
/// [`work`](Self::work) when it is idle, and prolongs pauses while the sink [is behind](Self::is_behind).
pub trait AccessSink: Send {
    /// Accesses of `thread` (index into the counted evidence's threads) in program order, none left out. Batches of
    /// different threads arrive in an order that approximates time.
    fn record(&mut self, thread: u32, process: u32, batch: &[Access]);

    /// Accesses in program order, filtered: the engine kept an access if [`selected`] admits the line that it starts in or the
    /// next one, or if it is longer than a line. Further accesses do no harm.
    fn record_selected(&mut self, thread: u32, process: u32, batch: &[Access]) {
        self.record(thread, process, batch);
    }

    /// Does a part of the deferred work; false if nothing is left.
    fn work(&mut self) -> bool {
        false
    }

    /// Does all deferred work.
    fn catch_up(&mut self) {}

    /// Whether work is deferred: no pause may end before the sink has done it.
    fn is_behind(&self) -> bool {
        false
    }

    /// The accesses that the engine should collect of `thread` next.
    fn collect(&mut self, _thread: u32) -> Collection {
        Collection::All
    }

    /// The phase that all threads should be in.
    fn phase(&self) -> Phase {
        Phase::Opening
    }

    /// `thread` is in `phase` from now on; batches of it that follow were collected there.
    fn enter(&mut self, _thread: u32, _phase: Phase) {}

    /// `thread` has ended: nothing of it follows. Without this call, the model assumes that the thread runs on for a while.
    fn ended(&mut self, _thread: u32) {}

    /// A thread is about to end, and its process, which is still there, perhaps with it.
    fn ending(&mut self) {}

    /// The present phase was long enough. Pauses end only so.
    fn end_phase(&mut self) {}

    /// A window begins to measure: the amounts executed since the last call. An engine that does not know them need not call this;
    /// [`executed`](Self::executed) then includes them.
    fn deltas(&mut self, _amounts: &[Amount]) {}

    /// Before the end: accesses executed, whether collected or not. An engine that knows its block counts reports all of them.
    fn executed(&mut self, _executed: Executed) {}

    /// `process` was given memory. An engine that sees large allocations reports them before the program accesses them.
    fn allocated(&mut self, _process: u32, _allocation: Allocation) {}

    /// `child` begins with a copy of the memory of `parent`.
    fn forked(&mut self, _parent: u32, _child: u32) {}

    /// The mapping of `process` at `from..to` was removed or replaced.
    fn unmapped(&mut self, _process: u32, _from: u64, _to: u64) {}

    /// Ends the run. `sites[i]` is the address of the instruction numbered `i`.
    fn finish(self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence;
}

/// Which accesses an engine collects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Collection {
    /// Every one.
    All,
    /// Those that [`selected`] admits with this mask.
    Selected {
        /// A run of bits from bit 6 on, at most up to bit 10.
        mask: u64,
    },
}

impl Collection {
    /// The mask for an in-line check: 0 admits everything.
    pub fn mask(self) -> u64 {
        match self {
            Collection::All => 0,
            Collection::Selected { mask } => mask,
        }
    }
}

/// Multiplier of page numbers: 2³² times the square of the golden section, so that the uppermost bits of the product take
/// all values evenly, whatever the distance of the pages (Knuth, The Art of Computer Programming 3, 6.4).
pub const PAGE_FACTOR: u32 = 0x61c8_8647;
/// Distance of bits 27–31 of that product from bits 6–10 of an address.
pub const PRODUCT_SHIFT: u32 = 21;

/// Whether sampling with `mask` keeps the line of `address`. With n bits in the mask: one line in 2ⁿ, as many
/// in every 4 KiB page, the same ones at all times, and evenly many for almost all strides. (An exclusive or of address bits
/// alone would not do: lines a page and a line apart have bits 6–10 and 12–16 in step.)
///
/// `(bits 6–10 ^ bits 27–31 of page number × PAGE_FACTOR) & mask = 0`. In line, without other registers than `t` and `u`:
///
/// ```text
/// lea t, [operand];  rorx u, t, 12;  imul u, u, factor;  rorx u, u, 21;  xor t, u;  test t, gs:[mask]
/// ```
pub fn selected(address: u64, mask: u64) -> bool {
    let product = (address >> 12).wrapping_mul(u64::from(PAGE_FACTOR));
    (address ^ product >> PRODUCT_SHIFT) & mask == 0
}

/// The result of the memory model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MemoryEvidence {
    /// `exact` or `sampled`.
    pub mode: String,
    /// Expected relative error of the bytes, from line sampling and from calibration. The error from window sampling is recorded per
    /// instruction.
    pub error: Option<f64>,
    /// How pages were placed, in words: L2 and the last level are indexed by physical address, which the model does not know.
    pub page_placement: String,
    /// The model simulated the levels behind L1 for one line in `one_in`.
    pub one_in: u32,
    /// The model simulated concurrent threads on one core, so their interference is not known.
    pub one_core: bool,
    /// Traffic that the model predicts for each `dram.*` ceiling kernel, over the bytes that the kernel moves by definition.
    pub calibration: Vec<(String, f64)>,
    /// One entry per (site, thread).
    pub sites: Vec<SiteTraffic>,
    /// Pages that were touched.
    pub pages: PagesEvidence,
    /// The limit of compulsory misses; `None`: not known.
    #[serde(default)]
    pub first_touches: Option<FirstTouches>,
    /// Data that lines were brought from.
    pub data: DataEvidence,
    /// Doubts about these figures.
    pub warnings: Vec<Warning>,
}

/// First touches come once: all pages that arrived limit the compulsory misses of all instructions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FirstTouches {
    /// Lines of these pages.
    pub lines: f64,
    /// The part of the lines beyond that which repeated misses bring: those that the last level has no room for.
    pub missing: f64,
}

impl FirstTouches {
    /// Turns compulsory misses beyond the limit into repeated misses, or into hits: a window in which pages arrive represents pauses in
    /// which none did.
    pub fn apply(&self, sites: &mut [SiteTraffic]) {
        let all: f64 = sites.iter().map(|site| site.traffic.compulsory).sum();
        if all <= self.lines {
            return;
        }
        let too_many = 1.0 - self.lines / all;
        for traffic in sites.iter_mut().map(|site| &mut site.traffic) {
            let beyond = too_many * traffic.compulsory;
            let found = (beyond * (1.0 - self.missing)).min(traffic.l3_misses);
            let stays = if traffic.l3_misses > 0.0 { 1.0 - found / traffic.l3_misses } else { 1.0 };
            traffic.compulsory -= beyond;
            traffic.capacity += beyond * self.missing;
            traffic.l3_misses -= found;
            traffic.l3_scatter *= stays;
            traffic.dram_read = (traffic.dram_read - found * LINE_BYTES).max(0.0);
            traffic.dram_fill *= stays;
            traffic.dram_overwritten *= stays;
            traffic.dram_used_again *= stays;
            traffic.small_page_lines *= stays;
            traffic.huge_page_lines *= stays;
        }
    }
}

/// Traffic that one instruction of one thread caused.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SiteTraffic {
    /// The instruction (module indexes the counted evidence's modules).
    pub at: CodeRef,
    /// Index into the counted evidence's threads.
    pub thread: u32,
    /// The figures.
    pub traffic: Traffic,
}

/// Bytes in a cache line.
pub const LINE_BYTES: f64 = 64.0;

/// Bytes and misses. Fractions occur when sets are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Traffic {
    /// Loads as executed.
    pub l1_read: f64,
    /// Stores as executed.
    pub l1_write: f64,
    /// L2 → L1.
    pub l2_read: f64,
    /// L1 → L2 write-backs.
    pub l2_write: f64,
    /// Into L2 from beyond.
    pub l3_read: f64,
    /// Out of L2 (dirty), and NT stores on their way.
    pub l3_write: f64,
    /// Memory → last cache.
    pub dram_read: f64,
    /// Last cache → memory, NT stores.
    pub dram_write: f64,
    /// The part of `dram_read` due to stores (write-allocate fills).
    pub dram_fill: f64,
    /// The part of `dram_fill` of instructions that overwrite such lines whole, and write little else.
    #[serde(default)]
    pub dram_overwritten: f64,
    /// Lines of `dram_fill` that the program used again before they left the caches.
    #[serde(default)]
    pub dram_used_again: f64,
    /// NT stores (part of `dram_write`).
    pub dram_nt: f64,
    /// Lines from memory or past the caches on pages of 4 KiB, and those on huge ones; the page size of the others is not known.
    #[serde(default)]
    pub small_page_lines: f64,
    #[serde(default)]
    pub huge_page_lines: f64,
    /// Misses of L1 in lines.
    pub l1_misses: f64,
    /// Misses of L2 in lines.
    pub l2_misses: f64,
    /// Misses of L3 in lines.
    pub l3_misses: f64,
    /// Last-level misses of lines never seen before.
    pub compulsory: f64,
    /// Last-level misses that a fully associative cache of the same size would also have.
    pub capacity: f64,
    /// Last-level misses that it would not have.
    pub conflict: f64,
    /// L1 misses that a fully associative L1 would not have.
    #[serde(default)]
    pub l1_conflict: f64,
    /// L2 misses that a fully associative L2 would not have.
    #[serde(default)]
    pub l2_conflict: f64,
    /// Misses because another core wrote the line.
    pub coherence: f64,
    /// L1 misses next to a line that the thread missed shortly before.
    pub unit_lines: f64,
    /// Other L1 misses of instructions with a constant stride.
    pub strided_lines: f64,
    /// L1 misses in no such order.
    pub random_lines: f64,
    /// L1 misses of gathers and scatters.
    pub gathered_lines: f64,
    /// Standard errors of the misses of L1, L2 and L3 in a sampled run, from how much its windows differ.
    #[serde(default)]
    pub l1_scatter: f64,
    #[serde(default)]
    pub l2_scatter: f64,
    #[serde(default)]
    pub l3_scatter: f64,
    /// The same of lines written to memory that were dirty in the last cache.
    #[serde(default)]
    pub dram_write_scatter: f64,
    /// Lines that the simulation saw going to or coming from memory: all of them, or those of the sample.
    #[serde(default)]
    pub seen_lines: f64,
    /// The same of lines between L2 and L3.
    #[serde(default)]
    pub l3_seen_lines: f64,
    /// Lines found in the level that held them before a sampling pause: at most this many more came from memory.
    #[serde(default)]
    pub stale_lines: f64,
    /// Those of them found in L2: at most this many more came from L3.
    #[serde(default)]
    pub l3_stale_lines: f64,
    /// Lines from memory first met after a pause and not new: at most this many fewer came from memory.
    #[serde(default)]
    pub cold_lines: f64,
    /// Bytes (part of `l1_read` and `l1_write`) of instructions that a sampled run never saw: their traffic beyond L1
    /// is missing from the other figures.
    #[serde(default)]
    pub unseen: f64,
    /// The part of `unseen` of instructions for which the model's tables had no room.
    #[serde(default)]
    pub untracked: f64,
}

impl Traffic {
    /// Share of the lines from memory or past the caches that lie on pages of 4 KiB; `None` if the page size of no line is known.
    pub fn small_page_share(&self) -> Option<f64> {
        let known = self.small_page_lines + self.huge_page_lines;
        (known > 0.0).then(|| self.small_page_lines / known)
    }

    /// Bytes of fills of lines that were only overwritten; non-temporal stores would avoid them.
    pub fn needless_fills(&self) -> f64 {
        let stayed_unused = 1.0 - self.dram_used_again / self.dram_fill.max(1.0);
        self.dram_overwritten * stayed_unused.clamp(0.0, 1.0)
    }

    /// Lines from memory, whatever the cause of the miss. Lines written by another core are not among them: that core supplies them.
    pub fn misses(&self) -> f64 {
        self.compulsory + self.capacity + self.conflict
    }

    /// Share of the lines met without a constant stride; `None` if the order of no line is known.
    pub fn irregular_share(&self) -> Option<f64> {
        let known = self.lines_of_known_order();
        (known > 0.0).then(|| (self.random_lines + self.gathered_lines) / known)
    }

    /// L1 misses in a known order.
    pub fn lines_of_known_order(&self) -> f64 {
        self.unit_lines + self.strided_lines + self.random_lines + self.gathered_lines
    }

    /// The traffic of `factor` times as much work. The simulated values stay.
    #[must_use]
    pub fn extended(&self, factor: f64) -> Traffic {
        Traffic {
            l1_read: self.l1_read * factor,
            l1_write: self.l1_write * factor,
            l2_read: self.l2_read * factor,
            l2_write: self.l2_write * factor,
            l3_read: self.l3_read * factor,
            l3_write: self.l3_write * factor,
            dram_read: self.dram_read * factor,
            dram_write: self.dram_write * factor,
            dram_fill: self.dram_fill * factor,
            dram_overwritten: self.dram_overwritten * factor,
            dram_used_again: self.dram_used_again * factor,
            dram_nt: self.dram_nt * factor,
            small_page_lines: self.small_page_lines * factor,
            huge_page_lines: self.huge_page_lines * factor,
            l1_misses: self.l1_misses * factor,
            l2_misses: self.l2_misses * factor,
            l3_misses: self.l3_misses * factor,
            compulsory: self.compulsory * factor,
            capacity: self.capacity * factor,
            conflict: self.conflict * factor,
            l1_conflict: self.l1_conflict * factor,
            l2_conflict: self.l2_conflict * factor,
            coherence: self.coherence * factor,
            unit_lines: self.unit_lines * factor,
            strided_lines: self.strided_lines * factor,
            random_lines: self.random_lines * factor,
            gathered_lines: self.gathered_lines * factor,
            l1_scatter: self.l1_scatter * factor,
            l2_scatter: self.l2_scatter * factor,
            l3_scatter: self.l3_scatter * factor,
            dram_write_scatter: self.dram_write_scatter * factor,
            stale_lines: self.stale_lines * factor,
            l3_stale_lines: self.l3_stale_lines * factor,
            cold_lines: self.cold_lines * factor,
            unseen: self.unseen * factor,
            untracked: self.untracked * factor,
            seen_lines: self.seen_lines,
            l3_seen_lines: self.l3_seen_lines,
        }
    }

    /// Adds `more`, field by field.
    pub fn add(&mut self, more: &Traffic) {
        self.l1_read += more.l1_read;
        self.l1_write += more.l1_write;
        self.l2_read += more.l2_read;
        self.l2_write += more.l2_write;
        self.l3_read += more.l3_read;
        self.l3_write += more.l3_write;
        self.dram_read += more.dram_read;
        self.dram_write += more.dram_write;
        self.dram_fill += more.dram_fill;
        self.dram_overwritten += more.dram_overwritten;
        self.dram_used_again += more.dram_used_again;
        self.dram_nt += more.dram_nt;
        self.small_page_lines += more.small_page_lines;
        self.huge_page_lines += more.huge_page_lines;
        self.l1_misses += more.l1_misses;
        self.l2_misses += more.l2_misses;
        self.l3_misses += more.l3_misses;
        self.compulsory += more.compulsory;
        self.capacity += more.capacity;
        self.conflict += more.conflict;
        self.l1_conflict += more.l1_conflict;
        self.l2_conflict += more.l2_conflict;
        self.coherence += more.coherence;
        self.unit_lines += more.unit_lines;
        self.strided_lines += more.strided_lines;
        self.random_lines += more.random_lines;
        self.gathered_lines += more.gathered_lines;
        self.l1_scatter += more.l1_scatter;
        self.l2_scatter += more.l2_scatter;
        self.l3_scatter += more.l3_scatter;
        self.dram_write_scatter += more.dram_write_scatter;
        self.seen_lines += more.seen_lines;
        self.l3_seen_lines += more.l3_seen_lines;
        self.stale_lines += more.stale_lines;
        self.l3_stale_lines += more.l3_stale_lines;
        self.cold_lines += more.cold_lines;
        self.unseen += more.unseen;
        self.untracked += more.untracked;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compulsory_misses_beyond_all_lines_are_repeated_ones_or_none() {
        let traffic =
            Traffic { compulsory: 300.0, l3_misses: 400.0, dram_read: 25_600.0, l3_scatter: 8.0, ..Traffic::default() };
        let site = SiteTraffic { at: CodeRef { module: 0, offset: 0 }, thread: 0, traffic };
        let after = |lines, missing| {
            let mut sites = [site, site];
            FirstTouches { lines, missing }.apply(&mut sites);
            let t = sites[1].traffic;
            [t.compulsory, t.capacity, t.l3_misses, t.dram_read, t.l3_scatter].map(f64::round)
        };
        assert_eq!(after(600.0, 0.0), [300.0, 0.0, 400.0, 25_600.0, 8.0], "no more than there are");
        assert_eq!(after(200.0, 1.0), [100.0, 200.0, 400.0, 25_600.0, 8.0], "the last level has room for none");
        assert_eq!(after(200.0, 0.0), [100.0, 0.0, 200.0, 12_800.0, 4.0], "and for all");
    }
}
