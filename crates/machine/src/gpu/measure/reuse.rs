//! Figure 7 of Lo et al.: effective bandwidth over the size of data and the number of kernels that use them once they are on the GPU.

use crate::gpu::campaign::{COPIED, Campaign};
use crate::gpu::driver::{Direction, HostKind};
use crate::gpu::error::GpuError;
use crate::gpu::ptx::{Stream, stream};

/// How data get to the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Copied(HostKind),
    ZeroCopy,
    Managed,
}

const WAYS: [(&str, Way); 4] = [
    ("pageable", Way::Copied(HostKind::Pageable)),
    ("pinned", Way::Copied(HostKind::Pinned)),
    ("zerocopy", Way::ZeroCopy),
    ("managed", Way::Managed),
];

/// Kernels on the same data.
const KERNELS: [usize; 3] = [1, 8, 64];

/// The curves of 64 MiB.
///
/// # Errors
/// [`GpuError`].
pub fn large(campaign: &mut Campaign) -> Result<(), GpuError> {
    curves(campaign, COPIED, "gpu.reuse")
}

/// Those of 8 MiB.
///
/// # Errors
/// [`GpuError`].
pub fn medium(campaign: &mut Campaign) -> Result<(), GpuError> {
    curves(campaign, 8 << 20, "gpu.reuse-8m")
}

/// Those of 1 MiB.
///
/// # Errors
/// [`GpuError`].
pub fn small(campaign: &mut Campaign) -> Result<(), GpuError> {
    curves(campaign, 1 << 20, "gpu.reuse-1m")
}

/// A curve for each way: a pass of a CPU core, a copy in, n kernels, a copy out. Every pass reads and writes all `bytes`.
fn curves(campaign: &mut Campaign, bytes: u64, family: &str) -> Result<(), GpuError> {
    let has_managed = campaign.identity.managed;
    for (name, way) in WAYS.into_iter().filter(|(_, way)| *way != Way::Managed || has_managed) {
        let mut points = Vec::new();
        for n in KERNELS {
            let seconds = once(campaign, way, bytes, n)?;
            points.push((n as f64, (n as u64 + 1) as f64 * 2.0 * bytes as f64 / seconds.max(1e-9)));
        }
        campaign.ledger.sweep(&format!("{family}.{name}"), "kernels", "byte/s", points);
    }
    Ok(())
}

fn once(campaign: &mut Campaign, way: Way, bytes: u64, kernels: usize) -> Result<f64, GpuError> {
    let Some(function) = campaign.function(&stream(Stream::Update, 4))? else { return Ok(f64::INFINITY) };
    let kind = match way {
        Way::Copied(kind) => kind,
        Way::ZeroCopy => HostKind::Pinned,
        Way::Managed => HostKind::Managed,
    };
    let host = campaign.host(kind, 0)?;
    let data = match way {
        Way::Copied(_) => campaign.arena.at,
        Way::ZeroCopy => campaign.cuda.mapped(host)?,
        Way::Managed => host,
    };
    let (per_sm, threads) = campaign.full();
    let grid = campaign.grid(per_sm, threads, bytes / 16, [data, 0, 0]);
    let mut seconds = campaign.cuda.touch(host, bytes)?;
    if let Way::Copied(_) = way {
        seconds += campaign.cuda.copy(Direction::In, data, host, bytes)?;
    }
    let shots = campaign.cuda.time(&function, &vec![grid; kernels])?;
    seconds += shots.iter().map(|shot| shot.seconds).sum::<f64>();
    if let Way::Copied(_) = way {
        seconds += campaign.cuda.copy(Direction::Out, data, host, bytes)?;
    }
    Ok(seconds)
}
