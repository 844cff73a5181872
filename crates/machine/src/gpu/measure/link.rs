//! The link between host and GPU.

use crate::gpu::campaign::{COPIED, Campaign};
use crate::gpu::driver::{Direction, HostKind};
use crate::gpu::error::GpuError;
use crate::gpu::log;
use crate::gpu::ptx::{Stream, stream};

/// The kinds of copies.
pub const COPIES: [(&str, Direction, HostKind); 4] = [
    ("gpu.link.h2d.pinned", Direction::In, HostKind::Pinned),
    ("gpu.link.d2h.pinned", Direction::Out, HostKind::Pinned),
    ("gpu.link.h2d.pageable", Direction::In, HostKind::Pageable),
    ("gpu.link.d2h.pageable", Direction::Out, HostKind::Pageable),
];

/// Sizes of the curves over size.
const SIZES: [u64; 6] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, COPIED];
/// Copies of each size in a curve.
const TIMES: usize = 4;

/// One round of the copies of page-locked memory.
///
/// # Errors
/// [`GpuError`].
pub fn pinned(campaign: &mut Campaign) -> Result<(), GpuError> {
    one_of_each(campaign, HostKind::Pinned)
}

/// One round of the copies of pageable memory.
///
/// # Errors
/// [`GpuError`].
pub fn pageable(campaign: &mut Campaign) -> Result<(), GpuError> {
    one_of_each(campaign, HostKind::Pageable)
}

fn one_of_each(campaign: &mut Campaign, wanted: HostKind) -> Result<(), GpuError> {
    for (id, way, kind) in COPIES.into_iter().filter(|copy| copy.2 == wanted) {
        let host = campaign.host(kind, 0)?;
        // The first one warms up.
        let mut least = f64::INFINITY;
        for _ in 0..2 {
            least = least.min(campaign.cuda.copy(way, campaign.arena.at, host, COPIED)?);
        }
        note(campaign, id, COPIED, least);
    }
    Ok(())
}

/// Both directions at once; and a kernel that reads the host's memory in place.
///
/// # Errors
/// [`GpuError`].
pub fn mixed(campaign: &mut Campaign) -> Result<(), GpuError> {
    let hosts = [campaign.host(HostKind::Pinned, 0)?, campaign.host(HostKind::Pinned, 1)?];
    let seconds = campaign.cuda.copy_both([campaign.arena.at, campaign.arena.at + COPIED], hosts, COPIED)?;
    note(campaign, "gpu.link.both.pinned", 2 * COPIED, seconds);
    if let Some(function) = campaign.function(&stream(Stream::Read, 8))? {
        let seen = campaign.cuda.mapped(hosts[0])?;
        let (per_sm, threads) = campaign.full();
        let grid = campaign.grid(per_sm, threads, COPIED / 16, [seen, 0, 0]);
        let seconds = campaign.cuda.time(&function, &[grid])?.first().map_or(0.0, |shot| shot.seconds);
        note(campaign, "gpu.link.zerocopy", COPIED, seconds);
    }
    Ok(())
}

/// Managed memory that the host has written moves to the GPU when a kernel updates it, and back when the host uses it.
///
/// # Errors
/// [`GpuError`].
pub fn managed(campaign: &mut Campaign) -> Result<(), GpuError> {
    if !campaign.identity.managed {
        return Ok(());
    }
    let Some(function) = campaign.function(&stream(Stream::Update, 4))? else { return Ok(()) };
    let host = campaign.host(HostKind::Managed, 0)?;
    campaign.cuda.touch(host, COPIED)?;
    let (per_sm, threads) = campaign.full();
    let grid = campaign.grid(per_sm, threads, COPIED / 16, [host, 0, 0]);
    let seconds = campaign.cuda.time(&function, &[grid])?.first().map_or(0.0, |shot| shot.seconds);
    note(campaign, "gpu.link.managed.to-gpu", COPIED, seconds);
    let seconds = campaign.cuda.touch(host, COPIED)?;
    note(campaign, "gpu.link.managed.to-cpu", COPIED, seconds);
    Ok(())
}

fn note(campaign: &mut Campaign, id: &str, bytes: u64, seconds: f64) {
    log::line(|| format!("{id}: {:.2} GB/s", bytes as f64 / seconds / 1e9));
    if seconds > 0.0 && seconds.is_finite() {
        campaign.ledger.note(id, "byte/s", bytes as f64 / seconds, None);
    }
}

/// The curves over size.
///
/// # Errors
/// [`GpuError`].
pub fn over_size(campaign: &mut Campaign) -> Result<(), GpuError> {
    for (id, way, kind) in COPIES {
        let host = campaign.host(kind, 0)?;
        let mut points = Vec::new();
        for bytes in SIZES {
            let mut least = f64::INFINITY;
            for _ in 0..TIMES {
                least = least.min(campaign.cuda.copy(way, campaign.arena.at, host, bytes)?);
            }
            points.push((bytes as f64, bytes as f64 / least.max(1e-9)));
        }
        campaign.ledger.sweep(id, "byte", "byte/s", points);
    }
    Ok(())
}
