//! The model's hit curve beside this host's measured one: `rprof machine --json | memory_curve`.
//!
//! For each size of a working set the depth from which a line comes on average: 0 for L1 to 3 for memory, so that a point
//! is hundredths of a level. Sizes within a factor of two of a cache are transitions.
//!
//! - *chase*, the evidence for hits: one thread follows pointers through all lines of the set in random order, on huge pages.
//!   Every load waits for the one before it and no prefetcher knows the next one, so the time of a hop is the latency of
//!   the level that has the line. The depth lies where that time lies between the levels' `lat.*`, which `rprof machine`
//!   measured with other buffers, in another order and at one size of each level.
//!   Beyond L2 sixteen such chains, evenly spaced on the cycle, are followed at once: of a last level that a host shares with others
//!   these take what is not used for a millisecond. On a guest with 32 MiB of it a hop through 12 MiB took 69 ns by one chain, in
//!   rounds of 14 ms, and 15 ns by sixteen, in rounds of 0.2 ms. They ask for less than any level delivers, so that a hop
//!   still takes the latency.
//! - *model*: the shares of the lines that each level serves in a round of the same hops in the same order.
//! - *stream*, for comparison: where the time a byte of `workingset.read` lies between those of the levels' read ceilings. A
//!   bandwidth is no measure of hits: prefetchers fetch ahead, banks of L2 collide at some sizes, and in small sets the loop costs more than
//!   the loads.

use std::io::Read;
use std::time::{Duration, Instant};

use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, Geometry, Placement};
use rprof::profile::Machine;
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, Traffic};

const LATENCIES: [&str; 4] = ["lat.l1", "lat.l2", "lat.l3", "lat.dram"];
const READS: [&str; 4] = ["l1.read", "l2.read", "l3.read", "dram.read"];
const LINE: u64 = 64;
const HUGE: usize = 2 << 20;
/// Runs of a size, of which the fastest counts, and how long each takes at least.
const RUNS: usize = 7;
const RUN: Duration = Duration::from_millis(1);
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

    /// Seconds of a hop when `N` chains follow the cycle through the lines of `order`, chain n from the n-th of `N` equal parts on.
    fn chase<const N: usize>(&self, order: &[u32]) -> f64 {
        for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
            // SAFETY: the mapping holds all lines of the order.
            unsafe { self.at(*from).write(self.at(*to) as u64) };
        }
        let part = order.len() / N;
        let mut at: [*mut u64; N] = std::array::from_fn(|n| self.at(order[n * part]));
        let mut hops = |count: usize| {
            let start = Instant::now();
            for _ in 0..count {
                for at in &mut at {
                    // SAFETY: each line of the order holds the address of the next one.
                    *at = unsafe { at.read_volatile() } as *mut u64;
                }
            }
            start.elapsed()
        };
        let mut count = part;
        // The first rounds bring the lines in, too.
        while hops(count) < RUN || count < 2 * part {
            count *= 2;
        }
        (0..RUNS).map(|_| hops(count).as_secs_f64() / count as f64).fold(f64::INFINITY, f64::min)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped; nothing refers to it any more.
        unsafe { libc::munmap(self.mapping.cast(), self.bytes) };
    }
}

/// The lines in the order in which `chains` chains on a cycle visit them.
fn visited(cycle: &[u32], chains: usize) -> Vec<u32> {
    let part = cycle.len() / chains;
    (0..part).flat_map(|hop| (0..chains).map(move |chain| cycle[chain * part + hop])).collect()
}

/// The numbers below `count` in random order.
fn shuffled(count: u32) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut order: Vec<u32> = (0..count).collect();
    for last in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    order
}

/// Traffic of `rounds` rounds through the lines.
fn rounds(machine: &Machine, order: &[u32], rounds: usize) -> Traffic {
    let (geometry, warnings) = Geometry::of_host(&machine.caches, 1);
    let mut sink = Box::new(CacheModel::exact(geometry, Placement::HugePages, warnings));
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
fn modelled(machine: &Machine, order: &[u32]) -> f64 {
    let (before, after) = (rounds(machine, order, 2), rounds(machine, order, 3));
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

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap_or_else(|e| fail(&e));
    let machine: Machine = serde_json::from_str(&text).unwrap_or_else(|e| fail(&e));
    let Some(latencies) = times(&machine, LATENCIES, |latency| latency) else {
        return println!("SKIPPED: no latency of some level");
    };
    let reads = times(&machine, READS, f64::recip);
    let Some(sweep) = machine.sweeps.iter().find(|s| s.id == "workingset.read" && s.threads == 1) else {
        return println!("SKIPPED: no working-set sweep");
    };
    let largest = sweep.points.iter().map(|p| p.0).fold(0.0, f64::max);
    let l2 = machine.caches.iter().find(|c| c.level == 2).map_or(f64::INFINITY, |c| c.size as f64);
    let lines = Lines::new(largest as u64).unwrap_or_else(|e| fail(&e));
    println!(
        "{:>12} {:>8} {:>7} {:>7} {:>7} {:>8} {:>7}",
        "bytes", "ns a hop", "chase", "model", "points", "GB/s", "stream"
    );
    let mut worst = 0.0f64;
    for &(bytes, rate) in &sweep.points {
        let beyond = bytes > l2;
        let count = (bytes as u64 / LINE) as usize;
        let cycle = shuffled(if beyond { count / CHAINS * CHAINS } else { count } as u32);
        let hop = if beyond { lines.chase::<CHAINS>(&cycle) } else { lines.chase::<1>(&cycle) };
        let order = visited(&cycle, if beyond { CHAINS } else { 1 });
        let (found, expected) = (depth(&latencies, hop), modelled(&machine, &order));
        let points = 100.0 * (expected - found);
        let near = |cache: f64| (0.5..2.0).contains(&(bytes / cache));
        let transition = machine.caches.iter().any(|cache| near(cache.size as f64));
        if !transition {
            worst = worst.max(points.abs());
        }
        let stream = reads.map_or("-".into(), |reads| format!("{:.2}", depth(&reads, rate.recip())));
        let mark = if transition { " transition" } else { "" };
        let (nanoseconds, rate) = (1e9 * hop, rate / 1e9);
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
