//! The model's hit curve beside this host's measured one: `rprof machine --json | memory_curve`.
//!
//! For each size of a working set the depth from which a line comes on average: 0 for L1 to 3 for memory, so that a point
//! is hundredths of a level. Sizes within a factor of two of a cache are transitions. The model has the caches that a profile
//! of this host has: for a last level that neighbours fill, the share that the sweep over working sets found (`memory-share`).
//!
//! - *chase*, the evidence for hits: one thread follows pointers through all lines of the set, on huge pages. Every load waits
//!   for the one before it and no prefetcher knows the next one, so the time of a hop is the latency of the level that has
//!   the line. The depth lies where that time lies between those of references: of each cache the fastest of three sets well inside
//!   it (some pages suit a core less: 5.8 instead of 4.9 ns in L2 of a Zen 1), of memory the set itself, after its lines were flushed
//!   (memory has no one latency: a Zen 1 guest whose host has four memory nodes took 135 to 192 ns a hop, whichever pages it got).
//!   The thread follows set and references by turns, since the clock changes, and so does the share of a shared level and of memory
//!   that neighbours leave. The median of the depths counts.
//!   The order is random within 64 KiB, one such block after the other. With an order that is random in all of the set, hops wait
//!   for address translation; in a guest whose host has small pages they do so on huge pages, too. On a 2-core Intel guest a hop
//!   through 45 MiB took 54 ns so, and one through 64 MiB 180 ns; in blocks they took 40 ns and 44 ns.
//!   Beyond L2 the thread follows sixteen such chains at once, evenly spaced on the cycle: in a last level that a host shares with
//!   others, the others evict lines that are not used for a millisecond. On a guest with 32 MiB of it a hop through 12 MiB took 69 ns
//!   by one chain, in rounds of 14 ms, and 15 ns by sixteen, in rounds of 0.2 ms. The chains ask for less than any level delivers, so
//!   that a hop still takes the latency.
//! - *model*: the shares of the lines that each level serves in a round of the same hops in the same order.
//! - *stream*, for comparison: where the time a byte of `workingset.read` lies between those of the levels' read ceilings. A
//!   bandwidth is no measure of hits: prefetchers fetch ahead, banks of L2 collide at some sizes, and in small sets the loop costs
//!   more than the loads.

use std::io::Read;
use std::time::{Duration, Instant};

use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, Geometry, Level, PageColoring};
use rprof::profile::Machine;
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, Traffic};

const READS: [&str; 4] = ["l1.read", "l2.read", "l3.read", "dram.read"];
const LINE: u64 = 64;
const HUGE: usize = 2 << 20;
/// Bytes that a chain visits in random order before it goes on to the next ones.
const BLOCK: u64 = 64 << 10;
/// Moments at which a size and the reference sets are followed, one after the other.
const MOMENTS: usize = 7;
/// Runs at a moment, and the least time of each; the fastest run counts.
const RUNS: usize = 3;
const RUN: Duration = Duration::from_millis(1);
/// Sizes of a cache's reference sets, over that in the middle of those that it holds and the one before it does not.
const AROUND: [f64; 3] = [0.7, 1.0, 1.4];
/// Chains beyond L2.
const CHAINS: usize = 16;

/// Memory on huge pages, where the kernel grants them.
struct Lines {
    mapping: *mut u8,
    bytes: usize,
}

impl Lines {
    fn new(bytes: u64) -> std::io::Result<Lines> {
        let bytes = (bytes as usize).next_multiple_of(HUGE) + HUGE;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: advice on our own mapping.
        unsafe { libc::madvise(mapping, bytes, libc::MADV_HUGEPAGE) };
        Ok(Lines { mapping: mapping.cast(), bytes })
    }

    fn at(&self, line: u32) -> *mut u64 {
        let offset = (self.mapping as usize).next_multiple_of(HUGE) - self.mapping as usize;
        self.mapping.wrapping_add(offset + line as usize * LINE as usize).cast()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: `new` mapped it; nothing refers to it any more.
        unsafe { libc::munmap(self.mapping.cast(), self.bytes) };
    }
}

/// A working set: pointers lead through its lines, and `chains` chains follow them at once.
struct Cycle {
    memory: Lines,
    /// Its lines in the order in which the pointers lead through them.
    order: Vec<u32>,
    chains: usize,
}

impl Cycle {
    /// A set of `bytes` bytes.
    fn new(bytes: f64, l2: Level) -> std::io::Result<Cycle> {
        let chains = if bytes > l2.size as f64 { CHAINS } else { 1 };
        let order = shuffled((bytes as u64 / LINE) as u32 / chains as u32 * chains as u32);
        let memory = Lines::new(bytes as u64)?;
        for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
            // SAFETY: the mapping holds all lines of the order.
            unsafe { memory.at(*from).write(memory.at(*to) as u64) };
        }
        Ok(Cycle { memory, order, chains })
    }

    /// The lines in the order in which the chains visit them.
    fn visited(&self) -> Vec<u32> {
        let part = self.order.len() / self.chains;
        (0..part).flat_map(|hop| (0..self.chains).map(move |chain| self.order[chain * part + hop])).collect()
    }

    /// Seconds of a hop.
    fn hop(&self) -> f64 {
        if self.chains > 1 { self.chase::<CHAINS>() } else { self.chase::<1>() }
    }

    /// Seconds of a hop in a round that finds no line in any cache.
    fn flushed_hop(&self) -> f64 {
        let round = || {
            for line in &self.order {
                // SAFETY: a line of our own; every x86-64 CPU can flush it.
                unsafe { std::arch::x86_64::_mm_clflush(self.memory.at(*line).cast()) };
            }
            // SAFETY: a fence has no preconditions.
            unsafe { std::arch::x86_64::_mm_mfence() };
            let part = self.order.len() / self.chains;
            let taken = if self.chains > 1 { self.follower::<CHAINS>()(part) } else { self.follower::<1>()(part) };
            taken.as_secs_f64() / part as f64
        };
        (0..RUNS).map(|_| round()).fold(f64::INFINITY, f64::min)
    }

    /// A function that follows `N` chains for a number of hops, chain n from the n-th of `N` equal parts on, and returns the time.
    fn follower<const N: usize>(&self) -> impl FnMut(usize) -> Duration {
        let part = self.order.len() / N;
        let mut at: [*mut u64; N] = std::array::from_fn(|n| self.memory.at(self.order[n * part]));
        move |count| {
            let start = Instant::now();
            for _ in 0..count {
                for at in &mut at {
                    // SAFETY: each line of the order holds the address of the next one.
                    *at = unsafe { at.read_volatile() } as *mut u64;
                }
            }
            start.elapsed()
        }
    }

    /// Seconds of a hop when `N` chains follow the cycle.
    fn chase<const N: usize>(&self) -> f64 {
        let part = self.order.len() / N;
        let mut hops = self.follower::<N>();
        let mut count = part;
        // The first rounds bring the lines in, too.
        while hops(count) < RUN || count < 2 * part {
            count *= 2;
        }
        (0..RUNS).map(|_| hops(count).as_secs_f64() / count as f64).fold(f64::INFINITY, f64::min)
    }
}

/// The numbers below `count`, those of each block in random order, one block after the other.
fn shuffled(count: u32) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut order: Vec<u32> = (0..count).collect();
    for block in order.chunks_mut((BLOCK / LINE) as usize) {
        for last in (1..block.len()).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.swap(last, (state % (last as u64 + 1)) as usize);
        }
    }
    order
}

/// Traffic of `rounds` rounds through the lines.
fn rounds(geometry: &Geometry, order: &[u32], rounds: usize) -> Traffic {
    let mut sink = Box::new(CacheModel::exact(geometry.clone(), PageColoring::HugePages, Vec::new()));
    for batch in std::iter::repeat_n(order, rounds).flat_map(|order| order.chunks(4096)) {
        let address = |line: &u32| (1 << 32) + u64::from(*line) * LINE;
        let access = |line| Access { address: address(line), bytes: 8, site: 0, kind: AccessKind::Load };
        sink.record(0, 1, &batch.iter().map(access).collect::<Vec<_>>());
    }
    let evidence = sink.finish(&[CodeRef { module: 0, offset: 0 }]);
    let mut total = Traffic::default();
    evidence.sites.iter().for_each(|site| total.add(&site.traffic));
    total
}

/// Mean depth of a round after the caches have settled.
fn modelled(geometry: &Geometry, order: &[u32]) -> f64 {
    let (before, after) = (rounds(geometry, order, 2), rounds(geometry, order, 3));
    let missed = |misses: fn(&Traffic) -> f64| (misses(&after) - misses(&before)) / order.len() as f64;
    missed(|t| t.l1_misses) + missed(|t| t.l2_misses) + missed(|t| t.l3_misses)
}

/// Depth at which something takes `seconds` that takes `times` at the levels.
fn depth(times: &[f64; 4], seconds: f64) -> f64 {
    if seconds <= times[0] {
        return 0.0;
    }
    for level in 0..3 {
        if seconds <= times[level + 1] {
            return level as f64 + (seconds - times[level]) / (times[level + 1] - times[level]);
        }
    }
    3.0
}

/// Seconds at each level, by `seconds` of a ceiling's value.
fn times(machine: &Machine, ids: [&str; 4], seconds: fn(f64) -> f64) -> Option<[f64; 4]> {
    let all: Option<Vec<f64>> = ids.iter().map(|id| machine.value(id, 1).map(seconds)).collect();
    all?.try_into().ok()
}

pub fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap_or_else(|e| fail(&e));
    let machine: Machine = serde_json::from_str(&text).unwrap_or_else(|e| fail(&e));
    let reads = times(&machine, READS, f64::recip);
    let Some(sweep) = machine.sweep("workingset.read", 1) else {
        return println!("SKIPPED: no working-set sweep");
    };
    let (geometry, share) = Geometry::of_host(&machine.caches, 1).0.as_measured(&machine);
    let Geometry { l1, l2: Some(l2), last, .. } = geometry else { return println!("SKIPPED: no L2") };
    share.into_iter().for_each(|warning| println!("{}", warning.text));
    let cycle = |bytes| Cycle::new(bytes, l2).unwrap_or_else(|e| fail(&e));
    // Well inside of a level that begins behind another one.
    let inside = |before: Level, level: Level| (before.size as f64 * level.size as f64).sqrt();
    let middles = [l1.size as f64 / 2.0, inside(l1, l2), inside(l2, last)];
    let references = middles.map(|bytes| AROUND.map(|factor| cycle(factor * bytes)));
    println!(
        "{:>12} {:>8} {:>7} {:>7} {:>7} {:>8} {:>7}",
        "bytes", "ns a hop", "chase", "model", "points", "GB/s", "stream"
    );
    let mut worst = 0.0f64;
    for &(bytes, rate) in &sweep.points {
        let set = cycle(bytes);
        let mut moments: Vec<(f64, f64)> = (0..MOMENTS)
            .map(|_| {
                let fastest = |sets: &[Cycle; 3]| sets.iter().map(Cycle::hop).fold(f64::INFINITY, f64::min);
                let [l1, l2, l3] = references.each_ref().map(fastest);
                let latencies = [l1, l2, l3, set.flushed_hop()];
                let taken = set.hop();
                (depth(&latencies, taken), taken)
            })
            .collect();
        moments.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (found, taken) = moments[MOMENTS / 2];
        let expected = modelled(&geometry, &set.visited());
        let points = 100.0 * (expected - found);
        let near = |cache: Level| (0.5..2.0).contains(&(bytes / cache.size as f64));
        let transition = [l1, l2, last].into_iter().any(near);
        if !transition {
            worst = worst.max(points.abs());
        }
        let stream = reads.map_or("-".into(), |reads| format!("{:.2}", depth(&reads, rate.recip())));
        let mark = if transition { " transition" } else { "" };
        let (nanoseconds, rate) = (1e9 * taken, rate / 1e9);
        println!(
            "{bytes:>12.0} {nanoseconds:>8.2} {found:>7.2} {expected:>7.2} {points:>+7.0} {rate:>8.1} {stream:>7}{mark}"
        );
    }
    println!("worst away from transitions: {worst:.0} points");
}

fn fail(error: &dyn std::error::Error) -> ! {
    eprintln!("memory_curve: {error}");
    std::process::exit(125)
}
