//! Accesses per second that the cache model handles, by kind of stream: `cargo run --release --example memory_speed`.

use std::time::Instant;

use rprof::isa::facts::AccessKind::{self, Load, NtStore, Store};
use rprof::memory::{CacheModel, Geometry, Placement};
use rprof::profile::evidence::memory::{Access, AccessSink};

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
        ((i % 3) << 32 | (i / 3 * 32) % (1 << 30), (i % 3) as u32, kind)
    }),
    ("NT store, 32 B", |i| (0x10_0000 + i * 32 % (1 << 30), 0, NtStore)),
    ("random in 256 MiB", |i| (0x10_0000 + random(i) % (1 << 28), 0, Load)),
];

fn main() {
    println!("{:<28} {:>12} {:>12}", "stream", "accesses/s", "ns/access");
    for (name, stream) in STREAMS {
        let (geometry, warnings) = Geometry::of_host(&[], 2);
        let mut sink = Box::new(CacheModel::exact(geometry, Placement::of_host(), warnings));
        let mut batch = Vec::with_capacity(BATCH);
        let mut seconds = 0.0;
        for start in (0..ACCESSES).step_by(BATCH) {
            batch.clear();
            batch.extend((start..start + BATCH as u64).map(|i| {
                let (address, site, kind) = stream(i);
                Access { address, bytes: if name.contains("32 B") { 32 } else { 8 }, site, kind }
            }));
            let began = Instant::now();
            sink.record(0, 1, &batch);
            seconds += began.elapsed().as_secs_f64();
        }
        println!("{name:<28} {:>12.3e} {:>12.2}", ACCESSES as f64 / seconds, 1e9 * seconds / ACCESSES as f64);
        sink.finish(&[]);
    }
}
