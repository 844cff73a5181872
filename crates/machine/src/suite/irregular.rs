//! Latencies of each level and the DRAM bandwidth of accesses that prefetchers cannot or hardly follow.

use std::sync::Arc;

use crate::error::MachineError;
use crate::harness::arena::{Arena, Content, Pages};
use crate::harness::rolling_window::Windows;
use crate::harness::timing::{Plan, Rate, Work};
use crate::kernels::x86_64::{chase, irregular};
use crate::kernels::{Arguments, Kernel};
use crate::suite::campaign::{Campaign, Effort, Label};
use rprof_profile::machine::ON_SMALL_PAGES;

/// Bytes of a cache line.
pub const LINE: u64 = 64;

/// `lat.{l1,l2,l3,dram}` in seconds and `dram.chase.{1,2,4,8,16}` in byte/s (a line for each hop), huge pages.
pub fn latencies(campaign: &mut Campaign) -> Result<(), MachineError> {
    let size = |campaign: &Campaign, level| campaign.topology.cache(level).map(|c| c.size);
    let mut sets = Vec::new();
    if let Some(l1) = size(campaign, 1) {
        sets.push(("l1", l1 / 2));
    }
    if let Some(l2) = size(campaign, 2) {
        sets.push(("l2", l2 / 4));
        if let Some(l3) = size(campaign, 3) {
            sets.push(("l3", (4 * l2).min(l3 / 2)));
        }
    }
    for (name, bytes) in sets {
        let label = Label::new(format!("lat.{name}"), "s", 1);
        if campaign.leaves_out(&label) {
            continue;
        }
        let nodes = power_of_two_below(bytes / LINE);
        let seconds = (nodes as f64 * 20e-9).max(200e-6);
        // Each piece meets all lines, at differing distances. A level that neighbours share is timed as a whole.
        let pieces = if name == "l3" { 1 } else { ((seconds / (nodes as f64 * NEAR_HOP)) as u64).max(1) };
        let core = campaign.core_plan();
        let plan = Plan { seconds, pieces: pieces.min(core.pieces), ..core };
        // The physical pages of the buffer decide how evenly the sets of L2 fill: use another buffer in each round.
        let rate = latency_of(campaign, bytes, nodes, plan)?;
        campaign.record_time(label, &rate);
    }
    chases(campaign, Pages::Huge, "")
}

/// Seconds of a hop in L2, at most: 12 to 16 cycles.
const NEAR_HOP: f64 = 6e-9;

/// Hops a second of one chain through the lines of a fresh buffer.
fn latency_of(campaign: &Campaign, bytes: u64, nodes: u64, plan: Plan) -> Result<Rate, MachineError> {
    let arena = Arena::new(campaign.team(), 1, bytes, Pages::Huge, false)?;
    link(campaign, &arena, nodes)?;
    visit(campaign, &arena, nodes)?;
    hops(campaign, &arena, nodes, Chase { threads: 1, chains: 1 }, plan)
}

/// Chains that bring a set into the caches of the first thread.
const VISITORS: usize = 16;

/// Makes the first thread hop over all of a set that its caches can hold. Other threads wrote it, too, and the timed hops might be the
/// first ones to most of its lines.
pub fn visit(campaign: &Campaign, arena: &Arena, nodes: u64) -> Result<(), MachineError> {
    if nodes * LINE > campaign.topology.caches.last().map_or(0, |c| c.size) {
        return Ok(());
    }
    let (work, hops) = chasing(campaign, arena, nodes, Chase { threads: 1, chains: VISITORS })?;
    campaign.watch().time(&work, nodes.div_ceil(hops), 1).map(|_| ())
}

/// Chases of DRAM; `suffix` names the pages if they are not huge.
fn chases(campaign: &mut Campaign, pages: Pages, suffix: &str) -> Result<(), MachineError> {
    if campaign.far_bytes().is_none() {
        let reason = "too little memory for a buffer of four times the last-level caches";
        campaign.missing(Label::new(format!("lat.dram{suffix}"), "s", 1), reason);
        for (threads, chains) in campaign.ends().into_iter().flat_map(|n| [1, 2, 4, 8, 16].map(|chains| (n, chains))) {
            campaign.missing(Label::new(format!("dram.chase.{chains}{suffix}"), "byte/s", threads), reason);
        }
        return Ok(());
    }
    for threads in campaign.ends() {
        let wanted = [1, 2, 4, 8, 16];
        if !campaign.wants_family_on(pages, &["lat.dram", "dram.chase."], threads) {
            continue;
        }
        // One cycle serves all threads if no memory node is nearer to some of them.
        let slabs = if campaign.topology.nodes.len() > 1 { threads } else { 1 };
        let Some(arena) = campaign.far(slabs, pages)? else {
            if threads == 1 {
                campaign.too_late(Label::new(format!("lat.dram{suffix}"), "s", 1));
            }
            for chains in wanted {
                campaign.too_late(Label::new(format!("dram.chase.{chains}{suffix}"), "byte/s", threads));
            }
            continue;
        };
        let nodes = power_of_two_below(arena.slab / LINE);
        link(campaign, &arena, nodes)?;
        for chains in wanted {
            let label = Label::new(format!("dram.chase.{chains}{suffix}"), "byte/s", threads);
            let latency = Label::new(format!("lat.dram{suffix}"), "s", 1);
            let also_latency = chains == 1 && threads == 1;
            let wanted = campaign.wants(&label) || (also_latency && campaign.wants(&latency));
            if !wanted {
                continue;
            }
            if campaign.out_of_time() {
                if also_latency {
                    campaign.too_late(latency);
                }
                campaign.too_late(label);
                continue;
            }
            let plan = Plan { seconds: 2e-3, ..campaign.shared_plan() };
            let rate = hops(campaign, &arena, nodes, Chase { threads, chains }, plan)?;
            if also_latency {
                campaign.record_time(latency, &rate);
            }
            campaign.record(label, &rate.scaled(LINE as f64));
        }
    }
    Ok(())
}

/// The greatest power of two that is not above `n`; 1 for 0.
pub fn power_of_two_below(n: u64) -> u64 {
    if n < 2 { 1 } else { 1 << (63 - n.leading_zeros()) }
}

/// Seconds that a plan counts for linking one line.
pub const PLANNED_LINK: f64 = 8e-9;

/// Odd multipliers of [`scatter`].
const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xbf58_476d_1ce4_e5b9;

/// A permutation of 2^bits numbers without visible pattern: odd multiplications and shifted exclusive ors are bijective.
pub fn scatter(n: u64, nodes: u64) -> u64 {
    let mask = nodes - 1;
    let mix = |x: u64| x ^ (x >> half(nodes));
    mix(mix(n.wrapping_mul(FIRST) & mask).wrapping_mul(SECOND) & mask)
}

/// The number that [`scatter`] makes `place` of.
fn unscatter(place: u64, nodes: u64) -> u64 {
    let mask = nodes - 1;
    // A shift by at least half of the bits undoes itself.
    let mix = |x: u64| x ^ (x >> half(nodes));
    mix(mix(place).wrapping_mul(const { inverse(SECOND) }) & mask).wrapping_mul(const { inverse(FIRST) }) & mask
}

/// Half of the bits of numbers below `nodes`, rounded up.
fn half(nodes: u64) -> u32 {
    nodes.trailing_zeros().div_ceil(2).max(1)
}

/// The inverse of an odd number modulo 2^64: Newton's iteration doubles the number of correct bits, three at first.
const fn inverse(odd: u64) -> u64 {
    let (mut x, mut n) = (odd, 0);
    while n < 5 {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        n += 1;
    }
    x
}

/// Links the first `nodes` lines of each slab into one cycle in scattered order, unless they are linked already. Flushes a set that no
/// cache holds: a chase meets each line once, and would find the last written ones in a cache.
pub fn link(campaign: &Campaign, arena: &Arena, nodes: u64) -> Result<(), MachineError> {
    let content = Content::Cycles { slabs: arena.threads, nodes };
    if arena.content() == content {
        return Ok(());
    }
    let slabs = arena.clone();
    // If there is only one slab, each thread writes a part of it.
    let parts = if arena.threads == 1 { campaign.most() as u64 } else { 1 };
    let job = move |rank: usize| {
        let (base, part) = (slabs.slab_address(rank % slabs.threads), rank as u64 % parts);
        for place in nodes * part / parts..nodes * (part + 1) / parts {
            let next = scatter((unscatter(place, nodes) + 1) & (nodes - 1), nodes);
            // SAFETY: places are below `nodes`, and the slab has room for `nodes` lines; no other thread writes in this
            // part of it.
            unsafe { ((base + LINE * place) as *mut u64).write(base + LINE * next) };
        }
    };
    campaign.watch().plan((nodes * arena.threads as u64) as f64 * PLANNED_LINK);
    campaign.team().run(arena.threads * parts as usize, Arc::new(job))?;
    arena.note_content(content);
    if nodes * LINE * arena.threads as u64 > campaign.topology.llc_total { flush(campaign, arena) } else { Ok(()) }
}

/// Flushes the slabs out of the caches, if the CPU can do so quickly.
pub fn flush(campaign: &Campaign, arena: &Arena) -> Result<(), MachineError> {
    let Some(kernel) = irregular::flush(campaign.features)? else { return Ok(()) };
    let (lines, threads) = (arena.total() / LINE, campaign.most() as u64);
    if lines < threads {
        return Ok(());
    }
    let arguments = (0..threads).map(|rank| {
        let (from, to) = (lines * rank / threads, lines * (rank + 1) / threads);
        let mut set = Arguments::new();
        set.pointers[0] = arena.slab_address(0) + LINE * from;
        set.inner = to - from;
        set
    });
    campaign.watch().time(&Work::new(kernel, arguments.collect()), 1, 1).map(|_| ())
}

/// How `threads` threads chase with `chains` chains each.
#[derive(Debug, Clone, Copy)]
pub struct Chase {
    /// Threads: each in its own slab, or all in the only one.
    pub threads: usize,
    /// Chains of each.
    pub chains: usize,
}

/// Hops a second of all threads together, their chains evenly spaced on the cycle of `nodes`, from another place each time.
pub fn hops(campaign: &Campaign, arena: &Arena, nodes: u64, chase: Chase, plan: Plan) -> Result<Rate, MachineError> {
    let (work, hops) = chasing(campaign, arena, nodes, chase)?;
    campaign.watch().rate(&work, hops as f64, plan)
}

/// The kernel of a chase, and the hops of one iteration of all threads.
fn chasing(campaign: &Campaign, arena: &Arena, nodes: u64, chase: Chase) -> Result<(Work, u64), MachineError> {
    let Chase { threads, chains } = chase;
    let kernel = chase::chase(chains, campaign.features)?;
    let chains = chains as u64;
    let hops = kernel.work.payload * threads as u64;
    let start = arena.turn().wrapping_mul(FIRST) >> 16;
    let arguments = (0..threads as u64).map(|rank| {
        let mut set = Arguments::new();
        for (n, chain) in (0..).zip(&mut set.chains) {
            // If all threads share one cycle, place the chains of all; unused ones may be anywhere.
            let (place, places) =
                if arena.threads == 1 { (rank * chains + n, threads as u64 * chains) } else { (n, chains) };
            let position = start + (nodes as u128 * u128::from(place) / u128::from(places)) as u64;
            *chain = arena.slab_address(rank as usize % arena.threads) + LINE * scatter(position & (nodes - 1), nodes);
        }
        set
    });
    Ok((Work::new(kernel, arguments.collect()), hops))
}

/// `dram.stride.{2,4,8,16,page}`, `dram.random`, `dram.gather` (byte/s, a line for each line touched). The last three and the chases run on
/// 4 KiB pages, too (`.4k`), from contiguous memory: with single pages, the choice of the kernel, and of a hypervisor behind it, makes
/// random loads differ by a half from one buffer to the next (Zen 1, a guest: 1.4 to 2.5 GB/s; these 2.9).
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    if campaign.far_bytes().is_none() {
        return Ok(());
    }
    for (pages, suffix) in [(Pages::Huge, ""), (Pages::Split, ON_SMALL_PAGES)] {
        if pages.are_small() && campaign.effort == Effort::Quick {
            continue;
        }
        for threads in campaign.ends() {
            if !campaign.wants_family_on(pages, &["dram.stride.", "dram.random", "dram.gather"], threads) {
                continue;
            }
            let Some(arena) = campaign.far(threads, pages)? else {
                too_late(campaign, threads, suffix);
                continue;
            };
            scattered(campaign, &arena, suffix)?;
            if pages.are_small() {
                strides(campaign, &arena, &STRIDES[4..], suffix)?;
            } else if threads == 1 || campaign.effort == Effort::Full {
                strides(campaign, &arena, &STRIDES, suffix)?;
            }
        }
        if pages.are_small() {
            chases(campaign, pages, suffix)?;
        }
    }
    Ok(())
}

/// There is no buffer, for lack of time.
fn too_late(campaign: &mut Campaign, threads: usize, suffix: &str) {
    let strides = STRIDES.iter().map(|(name, _)| format!("stride.{name}")).skip(if suffix.is_empty() { 0 } else { 4 });
    let strides = strides.filter(|_| !suffix.is_empty() || threads == 1 || campaign.effort == Effort::Full);
    for id in strides.chain(["random", "gather"].map(String::from)).collect::<Vec<_>>() {
        let label = Label::new(format!("dram.{id}{suffix}"), "byte/s", threads);
        if campaign.wants(&label) {
            campaign.too_late(label);
        }
    }
}

/// Random loads and gathers anywhere in the buffer, by all threads.
fn scattered(campaign: &mut Campaign, arena: &Arena, suffix: &str) -> Result<(), MachineError> {
    let labels = ["random", "gather"].map(|id| Label::new(format!("dram.{id}{suffix}"), "byte/s", arena.threads));
    if labels.iter().any(|label| campaign.wants(label)) && !campaign.out_of_time() {
        flush(campaign, arena)?;
    }
    let bits = power_of_two_below(arena.total() / LINE).trailing_zeros();
    let random = vec![irregular::random(bits, campaign.features)?, irregular::random_held(bits, campaign.features)?];
    let gather = irregular::gather(bits, campaign.features)?.into_iter().collect();
    for (label, kernels) in labels.into_iter().zip::<[Vec<Kernel>; 2]>([random, gather]) {
        if kernels.is_empty() {
            campaign.missing(label, "this CPU has no gather instructions");
            continue;
        }
        if campaign.leaves_out(&label) {
            continue;
        }
        let rates = kernels.into_iter().map(|kernel| scattered_rate(campaign, arena, kernel));
        let rates = rates.collect::<Result<Vec<_>, _>>()?;
        if let Some(rate) = Rate::of_copies(rates) {
            campaign.record(label, &rate);
        }
    }
    Ok(())
}

/// Bytes a second, a line for each load, of a kernel that generates its addresses.
fn scattered_rate(campaign: &Campaign, arena: &Arena, kernel: Kernel) -> Result<Rate, MachineError> {
    let amount = (kernel.work.payload * LINE * arena.threads as u64) as f64;
    let arguments = (0..arena.threads).map(|rank| {
        let mut set = Arguments::new();
        set.pointers[0] = arena.slab_address(0);
        // Each thread its own random sequence.
        set.seeds.iter_mut().for_each(|s| *s ^= (rank as u64).wrapping_mul(0x2545_f491_4f6c_dd1d));
        set.lanes.iter_mut().for_each(|s| *s ^= (rank as u32).wrapping_mul(0x9e37_79b9));
        let places = (rank * set.chains.len()) as u64..;
        set.chains.iter_mut().zip(places).for_each(|(chain, n)| *chain = (n + 1).wrapping_mul(FIRST));
        set
    });
    let plan = Plan { seconds: 2e-3, ..campaign.shared_plan() };
    campaign.watch().rate(&Work::new(kernel, arguments.collect()), amount, plan)
}

/// Names of the strides, in elements of eight bytes, and their bytes.
const STRIDES: [(&str, u64); 5] = [("2", 16), ("4", 32), ("8", 64), ("16", 128), ("page", 4096)];

/// One load in every stride; `suffix` names the pages if they are not huge.
fn strides(campaign: &mut Campaign, arena: &Arena, strides: &[(&str, u64)], suffix: &str) -> Result<(), MachineError> {
    for &(name, stride) in strides {
        let label = Label::new(format!("dram.stride.{name}{suffix}"), "byte/s", arena.threads);
        if campaign.leaves_out(&label) {
            continue;
        }
        let kernel = irregular::stride(stride, campaign.features)?;
        let body = irregular::STRIDE_LOADS * stride;
        // The starts move by up to one stride: leave the last body free.
        let window = arena.window();
        let inner = window / body - 1;
        let touched = stride.min(LINE) * irregular::STRIDE_LOADS * inner;
        let arguments = (0..arena.threads).map(|rank| {
            let mut set = Arguments::new();
            set.pointers[0] = arena.slab_address(rank);
            set.inner = inner;
            set
        });
        let amount = (touched * arena.threads as u64) as f64;
        let windows = Windows { count: arena.slab / window, bytes: window, stride, walked: arena.walked() };
        let work = Work::new(kernel, arguments.collect()).through(windows);
        let rate = campaign.watch().rate(&work, amount, campaign.shared_plan())?;
        campaign.record(label, &rate);
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
            assert!((0..nodes).all(|n| unscatter(scatter(n, nodes), nodes) == n), "{nodes}");
        }
    }
}
