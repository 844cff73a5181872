//! Latencies of L1, L2 and DRAM, and the cost of a launch: work that takes little power, so it fills pauses.

use crate::gpu::campaign::Campaign;
use crate::gpu::driver::{Direction, Grid, HostKind};
use crate::gpu::error::GpuError;
use crate::gpu::log;
use crate::gpu::ptx::{Cached, Launch, chase, empty, flush, link};

/// Bytes from one line to the next.
const LINE: u64 = 128;
/// Lines met in DRAM, each once, and the part of the arena over which they are spread.
const DRAM_LINES: u64 = 8000;
const DRAM_SPREAD: u64 = 256 << 20;
/// The data that L2 is filled with before: none of these lines.
const FLUSHED: u64 = 512 << 20;
/// Least hops in L2 and in L1: a millisecond, since the timer's steps may be a microsecond.
const LEAST_HOPS: [u64; 2] = [8192, 65_536];
/// Launches of one measurement of their cost.
const LAUNCHES: u64 = 1000;
const WAITS: u64 = 300;

/// One round of each latency.
///
/// # Errors
/// [`GpuError`].
pub fn round(campaign: &mut Campaign) -> Result<(), GpuError> {
    let l1 = (campaign.l1_set() / 4).min(16 << 10);
    hops(campaign, "gpu.lat.l1", Cached::L1AndL2, (l1 / LINE, l1), false)?;
    let l2 = (campaign.gpu.l2_bytes / 4).max(1 << 20);
    hops(campaign, "gpu.lat.l2", Cached::L2Only, (4096.min(l2 / LINE), l2), false)?;
    let spread = DRAM_SPREAD.min(campaign.arena.bytes / 4);
    hops(campaign, "gpu.lat.dram", Cached::L2Only, (DRAM_LINES.min(spread / LINE / 4), spread), true)
}

/// Time of a hop over `lines` lines spread over `bytes`. `cold`: each is met once, none is in L2; else all are met before, too.
fn hops(
    campaign: &mut Campaign,
    id: &str,
    cached: Cached,
    (lines, bytes): (u64, u64),
    cold: bool,
) -> Result<(), GpuError> {
    let (Some(chase), Some(link), Some(flush)) =
        (campaign.function(&chase(cached))?, campaign.function(&link())?, campaign.function(&flush())?)
    else {
        return Ok(());
    };
    let order = order(lines, bytes);
    let first = order.first().copied().unwrap_or(0);
    // The order lies behind the lines.
    let at = campaign.arena.at;
    let list = at + bytes;
    let host = campaign.host(HostKind::Pinned, 0)?;
    let words: Vec<u8> = order.iter().flat_map(|offset| offset.to_ne_bytes()).collect();
    campaign.cuda.write_host(host, &words)?;
    campaign.cuda.copy(Direction::In, list, host, words.len() as u64)?;
    let linked = campaign.grid(1, 256, lines, [at, list, 0]);
    campaign.cuda.time(&link, &[linked])?;
    let hops = if cold { lines } else { LEAST_HOPS[usize::from(cached == Cached::L1AndL2)].max(lines) };
    let one = |count| Grid { launch: Launch { blocks: 1, threads: 1, iters: 1, count }, arrays: [at + first, 0, 0] };
    let shot = if cold {
        let rest = campaign.arena.bytes / 2;
        let (per_sm, threads) = campaign.full();
        let over = campaign.grid(per_sm, threads, FLUSHED.min(rest) / 16, [at + rest, 0, 0]);
        campaign.cuda.time(&flush, &[over])?;
        campaign.cuda.time(&chase, &[one(lines)])?
    } else {
        campaign.cuda.time(&chase, &[one(lines), one(hops)])?
    };
    let Some(shot) = shot.last() else { return Ok(()) };
    let clocks = shot.clocks as f64 / hops as f64;
    let clock_hz = shot.clock_hz.unwrap_or(campaign.gpu.clock_hz);
    log::line(|| format!("{id}: {clocks:.1} clocks, {:.2} ns", clocks / clock_hz * 1e9));
    if clocks > 0.0 {
        campaign.ledger.note(id, "s", clock_hz / clocks, Some(clock_hz));
    }
    Ok(())
}

/// Byte offsets of `lines` lines spread over `bytes`, in an order without a pattern, each once.
fn order(lines: u64, bytes: u64) -> Vec<u64> {
    let step = (bytes / lines.max(1)) & !(LINE - 1);
    let mut all: Vec<u64> = (0..lines).map(|line| line * step.max(LINE)).collect();
    // Fisher and Yates, with a linear congruence.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for i in (1..all.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.swap(i, ((state >> 33) % (i as u64 + 1)) as usize);
    }
    all
}

/// One round of the cost of a launch: the host's time for each of many, and with waiting for each.
///
/// # Errors
/// [`GpuError`].
pub fn launch(campaign: &mut Campaign) -> Result<(), GpuError> {
    let Some(function) = campaign.function(&empty())? else { return Ok(()) };
    let grid = Grid { launch: Launch { blocks: 1, threads: 32, iters: 1, count: 0 }, arrays: [0; 3] };
    for (id, wait, n) in [("gpu.launch", false, LAUNCHES), ("gpu.launch.wait", true, WAITS)] {
        let seconds = campaign.cuda.time_host(&function, grid, wait, n)? / n as f64;
        log::line(|| format!("{id}: {:.3} us", seconds * 1e6));
        campaign.ledger.note(id, "s", 1.0 / seconds.max(1e-9), None);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_met_once_and_no_pattern_is_left() {
        let mut order = order(8000, 256 << 20);
        let ascending = order.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((3000..5000).contains(&ascending));
        order.sort_unstable();
        order.dedup();
        assert_eq!(order.len(), 8000);
        assert!(order.iter().all(|offset| offset % LINE == 0 && *offset < 256 << 20));
    }
}
