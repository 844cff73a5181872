//! Latencies of each level and the DRAM bandwidth of accesses that prefetchers cannot or hardly follow.

use std::sync::Arc;

use super::bandwidth::dram_bytes;
use crate::machine::bench::arena::{Arena, Pages};
use crate::machine::bench::timing::{Plan, Rate, Work};
use crate::machine::error::MachineError;
use crate::machine::kernels::x86_64::{chase::chase, irregular};
use crate::machine::kernels::{Arguments, Kernel};
use crate::machine::lab::{Effort, Lab, Label};

/// Bytes of a cache line.
pub const LINE: u64 = 64;

/// `lat.{l1,l2,l3,dram}` in seconds and `dram.chase.{1,2,4,8,16}` in byte/s (a line for each hop), huge pages.
pub fn latencies(lab: &mut Lab) -> Result<(), MachineError> {
    let size = |lab: &Lab, level| lab.topology.cache(level).map(|c| c.size);
    let mut sets = Vec::new();
    if let Some(l1) = size(lab, 1) {
        sets.push(("l1", l1 / 2));
    }
    if let Some(l2) = size(lab, 2) {
        sets.push(("l2", l2 / 4));
        if let Some(l3) = size(lab, 3) {
            sets.push(("l3", (4 * l2).min(l3 / 2)));
        }
    }
    for (name, bytes) in sets {
        let label = Label::new(format!("lat.{name}"), "s", 1);
        if lab.leaves_out(&label) {
            continue;
        }
        let nodes = power_of_two_below(bytes / LINE);
        let plan = Plan { seconds: (nodes as f64 * 20e-9).max(200e-6), ..lab.core_plan() };
        // Twice, since which physical pages the buffer gets decides how evenly the sets of L2 fill.
        let first = latency_of(lab, bytes, nodes, plan)?;
        let rate = latency_of(lab, bytes, nodes, plan)?.better(first);
        lab.record_time(label, rate);
    }
    chases(lab, Pages::Huge, "")
}

/// Hops a second of one chain through the lines of a fresh buffer.
fn latency_of(lab: &Lab, bytes: u64, nodes: u64, plan: Plan) -> Result<Rate, MachineError> {
    let arena = Arena::new(lab.team(), 1, bytes, Pages::Huge, false)?;
    link(lab, &arena, nodes)?;
    hops(lab, &arena, nodes, 1, plan)
}

/// Chases of DRAM; `suffix` names the pages where they are not huge.
fn chases(lab: &mut Lab, pages: Pages, suffix: &str) -> Result<(), MachineError> {
    let Some(total) = dram_bytes(lab) else {
        let reason = "too little memory for a buffer of four times the last-level caches";
        lab.missing(Label::new(format!("lat.dram{suffix}"), "s", 1), reason);
        return Ok(());
    };
    for threads in lab.ends() {
        let wanted = [1, 2, 4, 8, 16];
        if !lab.wants_family(&["lat.dram", "dram.chase."], threads) {
            continue;
        }
        if lab.out_of_time() {
            for chains in wanted {
                let label = Label::new(format!("dram.chase.{chains}{suffix}"), "byte/s", threads);
                lab.missing(label, lab.too_late());
            }
            continue;
        }
        let arena = Arena::new(lab.team(), threads, total, pages, false)?;
        let nodes = power_of_two_below(arena.slab / LINE);
        link(lab, &arena, nodes)?;
        for chains in wanted {
            let label = Label::new(format!("dram.chase.{chains}{suffix}"), "byte/s", threads);
            let latency = Label::new(format!("lat.dram{suffix}"), "s", 1);
            let also_latency = chains == 1 && threads == 1;
            let wanted = lab.wants(&label) || (also_latency && lab.wants(&latency));
            if !wanted {
                continue;
            }
            if lab.out_of_time() {
                lab.missing(label, lab.too_late());
                continue;
            }
            let plan = Plan { seconds: 2e-3, ..lab.shared_plan() };
            let rate = hops(lab, &arena, nodes, chains, plan)?;
            if also_latency {
                lab.record_time(latency, rate);
            }
            lab.record(label, rate.scaled(LINE as f64));
        }
    }
    Ok(())
}

/// The greatest power of two that is not above `n`; 1 for 0.
pub fn power_of_two_below(n: u64) -> u64 {
    if n < 2 { 1 } else { 1 << (63 - n.leading_zeros()) }
}

/// A permutation of 2^bits numbers without visible pattern: odd multiplications and shifted exclusive ors are one to one.
fn scatter(n: u64, nodes: u64) -> u64 {
    let bits = nodes.trailing_zeros();
    let mask = nodes - 1;
    let x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
    let x = x ^ (x >> bits.div_ceil(2).max(1));
    let x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
    x ^ (x >> bits.div_ceil(2).max(1))
}

/// Links the first `nodes` lines of each slab into one cycle in scattered order.
pub fn link(lab: &Lab, arena: &Arena, nodes: u64) -> Result<(), MachineError> {
    let slabs = arena.clone();
    let job = move |rank: usize| {
        let base = slabs.slab_address(rank);
        let place = |n: u64| base + LINE * scatter(n & (nodes - 1), nodes);
        for n in 0..nodes {
            // SAFETY: node numbers are below `nodes`, whose lines fit this thread's slab; no other thread writes there.
            unsafe { (place(n) as *mut u64).write(place(n + 1)) };
        }
    };
    lab.team().run(arena.threads, Arc::new(job))
}

/// Hops a second of all threads together with `chains` chains each, evenly spaced on the cycle.
pub fn hops(lab: &Lab, arena: &Arena, nodes: u64, chains: usize, plan: Plan) -> Result<Rate, MachineError> {
    let kernel = chase(chains, lab.features)?;
    let amount = (kernel.work.payload * arena.threads as u64) as f64;
    let arguments = (0..arena.threads).map(|rank| {
        let mut set = Arguments::new();
        for (n, start) in set.chains.iter_mut().enumerate() {
            let position = nodes / 16 * n as u64;
            *start = arena.slab_address(rank) + LINE * scatter(position, nodes);
        }
        set
    });
    lab.watch().rate(&Work::new(kernel, arguments.collect()), amount, plan)
}

/// `dram.stride.{2,4,8,16,page}`, `dram.random`, `dram.gather` (byte/s, a line for each line touched); the last three
/// and the chases on 4 KiB pages, too (`.4k`).
pub fn measure(lab: &mut Lab) -> Result<(), MachineError> {
    let Some(total) = dram_bytes(lab) else { return Ok(()) };
    for (pages, suffix) in [(Pages::Huge, ""), (Pages::Small, ".4k")] {
        if pages == Pages::Small && lab.effort == Effort::Quick {
            continue;
        }
        for threads in lab.ends() {
            if !lab.wants_family(&["dram.stride.", "dram.random", "dram.gather"], threads) {
                continue;
            }
            let arena = Arena::new(lab.team(), threads, total, pages, false)?;
            scattered(lab, &arena, suffix)?;
            if pages == Pages::Small {
                strides(lab, &arena, &STRIDES[4..], suffix)?;
            } else if threads == 1 || lab.effort == Effort::Full {
                strides(lab, &arena, &STRIDES, suffix)?;
            }
        }
        if pages == Pages::Small {
            chases(lab, pages, suffix)?;
        }
    }
    Ok(())
}

/// Random loads and gathers anywhere in the buffer, by all threads.
fn scattered(lab: &mut Lab, arena: &Arena, suffix: &str) -> Result<(), MachineError> {
    let bits = power_of_two_below(arena.total() / LINE).trailing_zeros();
    let kernels: [(&str, Option<Kernel>); 2] = [
        ("dram.random", Some(irregular::random(bits, lab.features)?)),
        ("dram.gather", irregular::gather(bits, lab.features)?),
    ];
    for (id, kernel) in kernels {
        let label = Label::new(format!("{id}{suffix}"), "byte/s", arena.threads);
        let Some(kernel) = kernel else {
            lab.missing(label, "this CPU has no gather instructions");
            continue;
        };
        if lab.leaves_out(&label) {
            continue;
        }
        let amount = (kernel.work.payload * LINE * arena.threads as u64) as f64;
        let arguments = (0..arena.threads).map(|rank| {
            let mut set = Arguments::new();
            set.pointers[0] = arena.slab_address(0);
            // Each thread its own random sequence.
            set.seeds.iter_mut().for_each(|s| *s ^= (rank as u64).wrapping_mul(0x2545_f491_4f6c_dd1d));
            set.lanes.iter_mut().for_each(|s| *s ^= (rank as u32).wrapping_mul(0x9e37_79b9));
            set
        });
        let plan = Plan { seconds: 2e-3, ..lab.shared_plan() };
        let rate = lab.watch().rate(&Work::new(kernel, arguments.collect()), amount, plan)?;
        lab.record(label, rate);
    }
    Ok(())
}

/// Names of the strides, in elements of eight bytes, and their bytes.
const STRIDES: [(&str, u64); 5] = [("2", 16), ("4", 32), ("8", 64), ("16", 128), ("page", 4096)];

/// One load in every stride; `suffix` names the pages where they are not huge.
fn strides(lab: &mut Lab, arena: &Arena, strides: &[(&str, u64)], suffix: &str) -> Result<(), MachineError> {
    for &(name, stride) in strides {
        let label = Label::new(format!("dram.stride.{name}{suffix}"), "byte/s", arena.threads);
        if lab.leaves_out(&label) {
            continue;
        }
        let kernel = irregular::stride(stride, lab.features)?;
        let body = irregular::STRIDE_LOADS * stride;
        // The starts move by up to one stride: leave the last body free.
        let inner = arena.slab / body - 1;
        let touched = stride.min(LINE) * irregular::STRIDE_LOADS * inner;
        let arguments = (0..arena.threads).map(|rank| {
            let mut set = Arguments::new();
            set.pointers[0] = arena.slab_address(rank);
            set.inner = inner;
            set
        });
        let amount = (touched * arena.threads as u64) as f64;
        let rate = lab.watch().rate(&Work::new(kernel, arguments.collect()), amount, lab.shared_plan())?;
        lab.record(label, rate);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scatter_is_a_permutation() {
        for nodes in [1_u64, 2, 64, 256, 4096] {
            let mut seen: Vec<u64> = (0..nodes).map(|n| scatter(n, nodes)).collect();
            seen.sort_unstable();
            assert!(seen.iter().enumerate().all(|(n, x)| n as u64 == *x), "{nodes}");
        }
    }
}
