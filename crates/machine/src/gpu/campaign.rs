//! The bench for one GPU: its driver, its buffers, compiled kernels, and results.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::driver::{Cuda, Function, Grid, HostKind, Identity, Shot};
use super::error::GpuError;
use super::ledger::Ledger;
use super::log;
use super::ptx::{Kernel, Launch, Unit, fill};
use crate::suite::campaign::Effort;
use rprof_profile::gpu::Gpu;
use rprof_profile::machine::Missing;

/// Least size of the buffer in the GPU's memory.
const LEAST_ARENA: u64 = 1 << 30;
/// More than the bytes of clock records and code.
const BESIDE: u64 = 8 << 20;
/// With less than this nothing can be measured.
const LEAST_USEFUL: u64 = 2 * COPIED;
/// Times L2 that it should be: fewer let part of a stream hit there (4 times: one quarter).
const TIMES_L2: u64 = 32;
/// Bytes of the buffers on the host, and of those of the device that are copied.
pub const COPIED: u64 = 64 << 20;
/// Time of one launch.
pub const LAUNCH_S: f64 = 0.0015;
/// Most trips of a kernel's loop.
const MOST_TRIPS: f64 = 4e9;

/// A buffer.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// Its start.
    pub at: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The bench.
pub struct Campaign {
    /// The driver, with this GPU current.
    pub cuda: Cuda,
    /// The facts about the GPU.
    pub gpu: Gpu,
    /// More of them.
    pub identity: Identity,
    /// How thoroughly.
    pub effort: Effort,
    /// Memory of the GPU: all kernels work in it.
    pub arena: Buffer,
    /// The results.
    pub ledger: Ledger,
    /// When tensor instructions last ran.
    pub last_tensor: Option<Instant>,
    /// After this, nothing begins.
    pub deadline: Instant,
    /// Doubts, for the user.
    pub doubts: Vec<String>,
    functions: HashMap<String, Rc<Function>>,
    hosts: Vec<(HostKind, u64)>,
}

impl Campaign {
    /// Opens the GPU and takes its memory.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn open(
        mut cuda: Cuda,
        gpu: Gpu,
        identity: Identity,
        effort: Effort,
        budget: Duration,
    ) -> Result<Campaign, GpuError> {
        let begin = Instant::now();
        cuda.enter(gpu.index)?;
        let (free, total) = cuda.memory()?;
        let wanted = (TIMES_L2 * gpu.l2_bytes).max(LEAST_ARENA).next_multiple_of(LEAST_ARENA);
        // Never more than half of the free memory, managed memory included.
        let bytes = wanted.min((free / 2).saturating_sub(COPIED + BESIDE)) & !((1 << 21) - 1);
        if bytes < LEAST_USEFUL {
            return Err(GpuError::Crowded { free });
        }
        log::line(|| format!("{}: {free} of {total} B free, {:.3} s to open", gpu.name, begin.elapsed().as_secs_f64()));
        let arena = Buffer { at: cuda.allocate(bytes)?, bytes };
        let mut doubts = Vec::new();
        if total.saturating_sub(free) > (total / 20).max(3 << 29) {
            let taken = total.saturating_sub(free) >> 20;
            doubts.push(format!("{taken} MiB of its {} MiB are taken: others may be using it", total >> 20));
        }
        if bytes < wanted {
            doubts.push(format!(
                "half of its free memory leaves {} MiB to measure DRAM with, where {} MiB are wanted, so that part of it comes from L2",
                bytes >> 20,
                wanted >> 20
            ));
        }
        let (ledger, deadline) = (Ledger::new(gpu.index, gpu.clock_hz), begin + budget);
        let (functions, hosts, last_tensor) = (HashMap::new(), Vec::new(), None);
        let mut campaign =
            Campaign { cuda, gpu, identity, effort, arena, ledger, last_tensor, deadline, doubts, functions, hosts };
        campaign.fill()?;
        Ok(campaign)
    }

    fn fill(&mut self) -> Result<(), GpuError> {
        if let Some(function) = self.function(&fill())? {
            let grid = self.grid(2, 1024, self.arena.bytes / 16, [self.arena.at, 0, 0]);
            self.cuda.time(&function, &[grid])?;
        }
        Ok(())
    }

    /// The compiled `kernel`; `None` if this GPU cannot run it.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn function(&mut self, kernel: &Kernel) -> Result<Option<Rc<Function>>, GpuError> {
        let (major, minor) = self.gpu.capability;
        if !kernel.runs_on(major, minor) {
            return Ok(None);
        }
        if let Some(function) = self.functions.get(&kernel.name) {
            return Ok(Some(Rc::clone(function)));
        }
        let begin = Instant::now();
        let function = Rc::new(self.cuda.compile(kernel)?);
        log::line(|| {
            let (ms, of) = (begin.elapsed().as_secs_f64() * 1e3, &function);
            format!("{}: {ms:.1} ms to compile, {} registers, {} B spilled", kernel.name, of.registers, of.spilled)
        });
        self.functions.insert(kernel.name.clone(), Rc::clone(&function));
        Ok(Some(function))
    }

    /// A grid of `per_sm` blocks on each multiprocessor, with one trip.
    pub fn grid(&self, per_sm: u32, threads: u32, count: u64, arrays: [u64; 3]) -> Grid {
        let blocks = per_sm * self.gpu.multiprocessors.max(1);
        Grid { launch: Launch { blocks, threads, iters: 1, count }, arrays }
    }

    /// Blocks on a multiprocessor and their threads that fill it, in large blocks.
    pub fn full(&self) -> (u32, u32) {
        if self.gpu.threads_per_multiprocessor.is_multiple_of(1024) { (2, 1024) } else { (3, 512) }
    }

    /// Bytes of a multiprocessor's L1 that surely hold data: about half of it.
    pub fn l1_set(&self) -> u64 {
        const LEAST: u64 = 32 << 10;
        let half = u64::from(self.gpu.shared_per_multiprocessor) / 2;
        (LEAST << (half / LEAST).max(1).ilog2()).max(LEAST)
    }

    /// Notes for `ids` that they have no value because of `error`.
    pub fn fail(&mut self, ids: &[&str], error: &GpuError) {
        log::line(|| format!("{}: {error}", ids.join(" ")));
        for id in ids {
            let unit = super::catalogue::unit(id);
            self.ledger.missing(id, unit, Missing::Host, &error.to_string());
        }
    }

    /// The grid with as many trips as take about `seconds`, beginning with those that it has. Runs the kernel.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn aim(&mut self, function: &Function, grid: Grid, seconds: f64) -> Result<Grid, GpuError> {
        let mut iters = f64::from(grid.launch.iters.max(1));
        for _ in 0..12 {
            let took = self.cuda.time(function, &[trips(grid, iters)])?.first().map_or(seconds, |shot| shot.seconds);
            let factor = seconds / took.max(1e-7);
            if (0.2..=5.0).contains(&factor) || (factor < 1.0 && iters <= 1.0) {
                iters *= factor;
                break;
            }
            iters = (iters * (0.7 * factor).clamp(0.01, 40.0)).clamp(1.0, MOST_TRIPS);
        }
        Ok(trips(grid, iters))
    }

    /// Rate of `n` launches in work a second, the median one's, and its clock.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn rate(&mut self, function: &Function, grid: Grid, n: usize) -> Result<(f64, Option<f64>), GpuError> {
        let mut shots: Vec<Shot> = self.cuda.time(function, &vec![grid; n])?;
        shots.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let median = shots.get(shots.len() / 2).copied();
        let work = function.kernel.work(&grid.launch);
        Ok(median.map_or((0.0, None), |shot| (work / shot.seconds.max(1e-9), shot.clock_hz)))
    }

    /// A buffer of [`COPIED`] bytes on the host, kept until the end.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn host(&mut self, kind: HostKind, which: usize) -> Result<u64, GpuError> {
        while self.hosts.iter().filter(|(of, _)| *of == kind).count() <= which {
            let at = self.cuda.host_memory(kind, COPIED)?;
            self.cuda.touch(at, COPIED)?;
            self.hosts.push((kind, at));
        }
        Ok(self.hosts.iter().filter(|(of, _)| *of == kind).nth(which).map_or(0, |(_, at)| *at))
    }

    /// Gives everything back. Returns the facts and the results.
    pub fn close(self) -> (Gpu, Ledger) {
        let Campaign { mut cuda, gpu, ledger, arena, hosts, .. } = self;
        for (kind, at) in hosts {
            // The end of the process does the same.
            let _ = cuda.free_host_memory(kind, at);
        }
        let _ = cuda.free(arena.at);
        cuda.leave();
        (gpu, ledger)
    }
}

fn trips(grid: Grid, iters: f64) -> Grid {
    let iters = iters.round().clamp(1.0, MOST_TRIPS) as u32;
    Grid { launch: Launch { iters, ..grid.launch }, ..grid }
}

/// The unit of a kernel's rate.
pub fn unit(kernel: &Kernel) -> &'static str {
    match kernel.unit {
        Unit::Flop => "flop/s",
        Unit::Op => "op/s",
        Unit::Byte => "byte/s",
        Unit::Hop | Unit::Nothing => "s",
    }
}
