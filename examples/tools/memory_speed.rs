//! Accesses per second of CPU time that the cache model handles, by kind of stream: `cargo run --release --example tools -- memory_speed`.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use rprof::isa::facts::AccessKind::{self, Load, NtStore, Store};
use rprof::memory::{CacheModel, Geometry, PageColoring};
use rprof::profile::evidence::memory::{Access, AccessSink, Collection, selected};

const BATCH: usize = 4096;
const ACCESSES: u64 = 1 << 25;

/// Address, site and kind of access number `i`.
type Stream = fn(i: u64) -> (u64, u32, AccessKind);

fn random(i: u64) -> u64 {
    (i ^ 0x9e37).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

const STREAMS: [(&str, Stream); 7] = [
    ("one line", |i| (0x1000 + i % 8 * 8, 0, Load)),
    ("L1-resident, 16 KiB, 32 B", |i| (0x10_0000 + i % 512 * 32, (i % 4) as u32, Load)),
    ("L2-resident, 512 KiB, 32 B", |i| (0x10_0000 + i % 16384 * 32, (i % 4) as u32, Load)),
    ("read, 32 B", |i| (0x10_0000 + i * 32 % (1 << 30), 0, Load)),
    ("triad, 32 B", |i| {
        let kind = if i % 3 == 2 { Store } else { Load };
        (((i % 3) << 32) + (i / 3 * 32) % (1 << 30), (i % 3) as u32, kind)
    }),
    ("NT store, 32 B", |i| (0x10_0000 + i * 32 % (1 << 30), 0, NtStore)),
    ("random in 256 MiB", |i| (0x10_0000 + random(i) % (1 << 28), 0, Load)),
];

/// CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// Seconds in the model per access of the program, those that a selecting engine leaves out included.
fn seconds_per_access(mut sink: Box<dyn AccessSink>, bytes: u32, stream: Stream) -> f64 {
    let mut batch = Vec::with_capacity(BATCH);
    let (mut seconds, mut i) = (0.0, 0);
    while i < ACCESSES {
        let collection = sink.collect(0);
        batch.clear();
        while batch.len() < BATCH && i < ACCESSES {
            let (address, site, kind) = stream(i);
            i += 1;
            if selected(address, collection.mask()) {
                batch.push(Access { address, bytes, site, kind });
            }
        }
        let began = cpu_time();
        match collection {
            Collection::All => sink.record(0, 1, &batch),
            Collection::Selected { .. } => sink.record_selected(0, 1, &batch),
        }
        seconds += (cpu_time() - began).as_secs_f64();
    }
    sink.finish(&[]);
    seconds / ACCESSES as f64
}

pub fn main() {
    println!("{:<28} {:>15} {:>10} {:>15}", "stream", "exact, access/s", "ns/access", "sampled, ns");
    for (name, stream) in STREAMS {
        let (geometry, warnings) = Geometry::of_host(&[], 2);
        let placement = PageColoring::of_host();
        let bytes = if name.contains("32 B") { 32 } else { 8 };
        let exact = CacheModel::exact(geometry.clone(), placement, warnings.clone());
        let exact = seconds_per_access(Box::new(exact), bytes, stream);
        let sampled = CacheModel::sampled(geometry, placement, warnings);
        let sampled = seconds_per_access(Box::new(sampled), bytes, stream);
        println!("{name:<28} {:>15.3e} {:>10.2} {:>15.2}", 1.0 / exact, 1e9 * exact, 1e9 * sampled);
    }
}
