//! The memory model's own memory: at most 256 MiB whatever the program does. A process of its own, with an allocator that
//! counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, Geometry, LastLevelPolicy, Level, PageColoring};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, Amount, Executed, Phase};

/// The limit that the project promises.
const LIMIT: usize = 256 << 20;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    MOST.fetch_max(NOW.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises are those that the system's allocator wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A large server: 192 cores, 1 MiB of L2 each, 32 MiB of L3 for eight.
fn server() -> Geometry {
    Geometry {
        l1: Level { size: 48 << 10, ways: 12, shared_by: 1 },
        l2: Some(Level { size: 1 << 20, ways: 16, shared_by: 1 }),
        last: Level { size: 32 << 20, ways: 16, shared_by: 8 },
        policy: LastLevelPolicy::Victim,
        l2_inclusive: true,
        cores: 192,
    }
}

/// A program of `threads` threads with `sites` instructions each, over `pages` pages.
fn feed(mut sink: Box<dyn AccessSink>, threads: u32, sites: u32, pages: u64) {
    let mut page = 0;
    let mut batch = Vec::with_capacity(4096);
    for turn in 0..sites.div_ceil(4096) {
        for thread in 0..threads {
            batch.clear();
            for site in (turn * 4096..sites).take(4096) {
                page = (page + 0x9e37) % pages;
                batch.push(Access { address: page * 4096 + 0x1_0000_0000, bytes: 8, site, kind: AccessKind::Store });
            }
            sink.record(thread, 1, &batch);
        }
    }
    // The sink gets the executions of the program, so that it weights windows.
    for phase in [Phase::Opening, Phase::Pause, Phase::Measuring] {
        let amount = |site| Amount { site, phase, amount: 1 << 20, strings: false };
        sink.deltas(&(0..sites).map(amount).collect::<Vec<_>>());
    }
    let per_thread = (0..sites).flat_map(|site| (0..threads).map(move |thread| (site, thread)));
    for (site, thread) in per_thread.take(500_000) {
        let (phase, kind) = (Phase::Opening, AccessKind::Store);
        sink.executed(Executed { thread, site, phase, kind, accesses: 1, bytes: 8, strings: false });
    }
    let places: Vec<CodeRef> = (0..sites).map(|site| CodeRef { module: 0, offset: u64::from(site) }).collect();
    let evidence = sink.finish(&places);
    let written: f64 = evidence.sites.iter().map(|s| s.traffic.l1_write).sum();
    assert!(written > 0.0);
}

#[test]
fn the_model_stays_within_its_limit() {
    // Many pages, many threads, many instructions, and all of it.
    for (threads, sites, pages) in [(2, 500_000, 3 << 20), (2000, 300, 1 << 16), (600, 2000, 3 << 20)] {
        // As in a run, and without the queries of the host's processes.
        for (exact, of_host) in [(true, true), (false, true), (true, false), (false, false)] {
            let before = NOW.load(Relaxed);
            MOST.store(before, Relaxed);
            let sink = match exact {
                true => CacheModel::exact(server(), PageColoring::SmallPages, Vec::new()),
                false => CacheModel::sampled(server(), PageColoring::SmallPages, Vec::new()),
            };
            let sink = if of_host { sink.of_host_processes() } else { sink };
            feed(Box::new(sink), threads, sites, pages);
            let most = MOST.load(Relaxed) - before;
            println!(
                "{threads} threads, {sites} instructions, {pages} pages, exact {exact}, of the host {of_host}: {:.0} MiB",
                most as f64 / 1048576.0
            );
            assert!(most <= LIMIT, "{most} bytes");
        }
    }
}
