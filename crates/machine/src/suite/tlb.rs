//! How far the TLB reaches, and the latency over the working set on 4 KiB pages and on huge ones.
//!
//! One line of each page shows the reach: the lines of eight thousand pages fit an L2 of a MiB, those of more pages the last cache. The
//! extra time of a hop on small pages is therefore address translation alone, without DRAM.

use std::sync::Arc;

use super::irregular::{Chase, LINE, PLANNED_LINK, hops, link, power_of_two_below, scatter, visit};
use crate::error::MachineError;
use crate::harness::arena::{Arena, Content, Pages};
use crate::harness::timing::{Plan, Work};
use crate::kernels::Arguments;
use crate::kernels::x86_64::chase;
use crate::suite::campaign::{Campaign, Label};
use rprof_profile::machine::{Ceiling, Sweep};

/// Extra cycles of a hop on small pages from which on it needs a page walk: more than the seven to nine of a second-level TLB, less than
/// the load of an entry from L2.
const WALK_CYCLES: f64 = 12.0;

/// From set to set.
const STEP: f64 = 2.0;

/// Bytes of a small page, and pages of the smallest set for `tlb.reach`.
const PAGE: u64 = 4096;
const FEWEST_PAGES: u64 = 16;

/// `tlb.reach`: the bytes of the most 4 KiB pages that can be visited in scattered order without page walks; and the sweeps
/// `latency.{huge,4k}`: seconds of one hop over the bytes of the working set, one thread.
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    let label = Label::new("tlb.reach", "byte", 1);
    if !campaign.wants(&label) {
        return Ok(());
    }
    if campaign.is_left_out(&label) {
        return Ok(());
    }
    if campaign.far_bytes().is_none() {
        campaign.missing(label, "too little memory for a buffer of four times the last-level caches");
        return Ok(());
    }
    let translated = [visits(campaign, Pages::Huge)?, visits(campaign, Pages::Split)?];
    let [Some(huge), Some(small)] = translated else {
        campaign.too_late(label);
        return Ok(());
    };
    let mut curves = Vec::new();
    for (pages, name) in [(Pages::Huge, "huge"), (Pages::Split, "4k")] {
        let Some(points) = curve(campaign, pages)? else {
            campaign.too_late(label);
            return Ok(());
        };
        let (x_unit, y_unit) = ("byte".into(), "s".into());
        curves.push(Sweep { id: format!("latency.{name}"), x_unit, y_unit, threads: 1, points });
    }
    let Some(source) = campaign.found("lat.l2", 1).cloned() else {
        campaign.too_late(label);
        return Ok(());
    };
    match reach(&huge, &small) {
        Some(bytes) => {
            let source = Ceiling { spread: Some(STEP - 1.0), ..source };
            campaign.derive(
                label,
                bytes,
                &source,
                "one line of each page, where small pages leave huge ones, to a factor of two",
            );
        }
        None => campaign.missing(label, "small pages cost no more than huge ones up to the largest set"),
    }
    curves.into_iter().for_each(|curve| campaign.sweep(curve));
    Ok(())
}

/// Cycles of a hop over the bytes of the pages, of each of which it visits one line. Each point has its own clock, which may jump
/// meanwhile. `None` if the time is used up.
fn visits(campaign: &mut Campaign, pages: Pages) -> Result<Option<Vec<(f64, f64)>>, MachineError> {
    let Some(arena) = campaign.far(1, pages)? else { return Ok(None) };
    let most = power_of_two_below(arena.slab / PAGE);
    let mut points = Vec::new();
    let mut count = FEWEST_PAGES;
    while count <= most {
        if campaign.out_of_time() {
            return Ok(None);
        }
        link_pages(campaign, &arena, count)?;
        let kernel = chase::chase(1, campaign.features)?;
        let hops = kernel.work.payload;
        let mut arguments = Arguments::new();
        arguments.chains[0] = line_of(&arena, 0);
        let work = Work::new(kernel, vec![arguments]);
        // Visit all of them once before timing.
        campaign.watch().time(&work, count.div_ceil(hops), 1)?;
        let plan = Plan { seconds: (count as f64 * 20e-9).max(100e-6), pieces: 1, repetitions: 4, fastest: 4 };
        let rate = campaign.watch().rate(&work, hops as f64, plan)?;
        points.push(((count * PAGE) as f64, rate.clock_hz / rate.best));
        count = (count as f64 * STEP) as u64;
    }
    Ok(Some(points))
}

/// Address of the visited line of page `page`; the lines of neighbouring pages lie in different sets of the caches.
fn line_of(arena: &Arena, page: u64) -> u64 {
    arena.slab_address(0) + PAGE * page + LINE * ((page ^ (page >> 6)) % (PAGE / LINE))
}

/// Links one line of each of the first `count` pages into one cycle in scattered order.
fn link_pages(campaign: &Campaign, arena: &Arena, count: u64) -> Result<(), MachineError> {
    let slab = arena.clone();
    let job = move |_rank: usize| {
        for position in 0..count {
            let [from, to] = [position, (position + 1) % count].map(|p| line_of(&slab, scatter(p, count)));
            // SAFETY: the slab has at least `count` pages, and no other thread writes it now.
            unsafe { (from as *mut u64).write(to) };
        }
    };
    arena.note_content(Content::Any);
    campaign.watch().plan(count as f64 * PLANNED_LINK);
    campaign.team().run(1, Arc::new(job))
}

/// Seconds of a hop over sets of 16 KiB up to more than the caches hold, in factors of two; `None` if the time is used up.
fn curve(campaign: &mut Campaign, pages: Pages) -> Result<Option<Vec<(f64, f64)>>, MachineError> {
    let Some(arena) = campaign.far(1, pages)? else { return Ok(None) };
    let most = power_of_two_below((2 * campaign.topology.llc_total).min(arena.slab) / LINE);
    let mut points = Vec::new();
    let mut nodes = (16 << 10) / LINE;
    while nodes <= most {
        if campaign.out_of_time() {
            return Ok(None);
        }
        link(campaign, &arena, nodes)?;
        visit(campaign, &arena, nodes)?;
        // Long enough to walk over a set that fits the caches; for a larger one a part of it is enough.
        let seconds = (nodes as f64 * 20e-9).clamp(200e-6, 4e-3);
        let plan = Plan { seconds, pieces: 1, repetitions: 3, fastest: 2 };
        let rate = hops(campaign, &arena, nodes, Chase { threads: 1, chains: 1 }, plan)?;
        points.push(((nodes * LINE) as f64, 1.0 / rate.best));
        nodes = (nodes as f64 * STEP) as u64;
    }
    Ok(Some(points))
}

/// The last set before a hop costs [`WALK_CYCLES`] more on small pages than on huge ones, there and with twice the set.
fn reach(huge: &[(f64, f64)], small: &[(f64, f64)]) -> Option<f64> {
    let walked: Vec<bool> = huge.iter().zip(small).map(|(h, s)| s.1 - h.1 > WALK_CYCLES).collect();
    let first = walked.windows(2).position(|pair| pair[0] && pair[1])?;
    small.get(first.checked_sub(1)?).map(|p| p.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reach_is_the_last_set_at_the_price_of_huge_pages() {
        let sets = [1.0, 2.0, 4.0, 8.0, 16.0];
        let huge = sets.map(|x| (x, 10.0));
        let with = |prices: [f64; 5]| std::array::from_fn::<_, 5, _>(|i| (sets[i], prices[i]));
        assert_eq!(reach(&huge, &with([10.0, 10.0, 19.0, 30.0, 40.0])), Some(4.0));
        // One point that a neighbour disturbed is not the end.
        assert_eq!(reach(&huge, &with([10.0, 30.0, 12.0, 30.0, 40.0])), Some(4.0));
        assert_eq!(reach(&huge, &with([10.0; 5])), None);
    }
}
