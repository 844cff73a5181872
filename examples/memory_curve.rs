//! The model's hit curve beside this host's measured one: `rprof machine --json | memory_curve`.
//!
//! For each size of the working-set sweep (reads, one thread) the depth from which a line comes on average: 0 for L1 to 3
//! for memory. Measured: where the time a byte lies between those of the levels' read ceilings. Modelled: the shares of the
//! lines that each level serves in a round through that many bytes. A point is hundredths of a level; sizes within a
//! factor of two of a cache are transitions.

use std::io::Read;

use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, Geometry, Placement};
use rprof::profile::Machine;
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, Traffic};

const LEVELS: [&str; 4] = ["l1.read", "l2.read", "l3.read", "dram.read"];
const LINE: u64 = 64;

/// Traffic of `rounds` rounds through `bytes` bytes.
fn rounds(machine: &Machine, bytes: u64, rounds: u64) -> Traffic {
    let (geometry, warnings) = Geometry::of_host(&machine.caches, 1);
    let mut sink = Box::new(CacheModel::exact(geometry, Placement::HugePages, warnings));
    for _ in 0..rounds {
        let lines: Vec<u64> = (0..bytes / LINE).collect();
        for batch in lines.chunks(4096) {
            let access = |i: &u64| Access { address: (1 << 32) + i * LINE, bytes: 64, site: 0, kind: AccessKind::Load };
            sink.record(0, 1, &batch.iter().map(access).collect::<Vec<_>>());
        }
    }
    let evidence = sink.finish(&[CodeRef { module: 0, offset: 0 }]);
    let mut total = Traffic::default();
    evidence.sites.iter().for_each(|site| total.add(&site.traffic));
    total
}

/// Mean depth of a round after the caches have settled.
fn modelled(machine: &Machine, bytes: u64) -> f64 {
    let (before, after) = (rounds(machine, bytes, 2), rounds(machine, bytes, 3));
    let lines = (bytes / LINE) as f64;
    let missed = |misses: fn(&Traffic) -> f64| (misses(&after) - misses(&before)) / lines;
    missed(|t| t.l1_misses) + missed(|t| t.l2_misses) + missed(|t| t.l3_misses)
}

/// Depth at which a byte takes `seconds`, between the levels' times.
fn measured(times: &[f64; 4], seconds: f64) -> f64 {
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

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap_or_else(|e| fail(&e));
    let machine: Machine = serde_json::from_str(&text).unwrap_or_else(|e| fail(&e));
    let Some(times) = LEVELS.iter().map(|id| machine.value(id, 1).map(f64::recip)).collect::<Option<Vec<_>>>() else {
        return println!("SKIPPED: no read ceiling of some level");
    };
    let times: [f64; 4] = [times[0], times[1], times[2], times[3]];
    let sweep = machine.sweeps.iter().find(|s| s.id == "workingset.read" && s.threads == 1);
    println!("{:>12} {:>9} {:>9} {:>9} {:>7}", "bytes", "GB/s", "measured", "modelled", "points");
    let mut worst = 0.0f64;
    for &(bytes, rate) in sweep.map_or(&[][..], |s| &s.points) {
        let (found, expected) = (measured(&times, rate.recip()), modelled(&machine, bytes as u64));
        let points = 100.0 * (expected - found);
        let near = |cache: f64| (0.5..2.0).contains(&(bytes / cache));
        let transition = machine.caches.iter().any(|cache| near(cache.size as f64));
        if !transition {
            worst = worst.max(points.abs());
        }
        let mark = if transition { " transition" } else { "" };
        println!("{bytes:>12.0} {:>9.1} {found:>9.2} {expected:>9.2} {points:>+7.0}{mark}", rate / 1e9);
    }
    println!("worst away from transitions: {worst:.0} points");
}

fn fail(error: &dyn std::error::Error) -> ! {
    eprintln!("memory_curve: {error}");
    std::process::exit(125)
}
