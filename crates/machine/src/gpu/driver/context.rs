//! A GPU's context: code, memory, launches and their times.

use super::{Cuda, LIMIT};
use crate::gpu::error::GpuError;
use crate::gpu::ptx::{Kernel, Launch};
use crate::loader::{CALLS, Call};

/// Most launches that are timed one by one in one go.
pub const MOST_LAUNCHES: usize = 192;
/// Bytes of the clock record of one launch: nine `u64` and space.
const RECORD: u64 = 128;
/// Bytes of the arguments of one launch: seven values and seven pointers to them.
const ARGUMENTS: u64 = 128;
/// Their offset in the scratch memory; the first page is for single results.
const RECORDS_AT: u64 = 4096;
const ARGUMENTS_AT: u64 = RECORDS_AT + MOST_LAUNCHES as u64 * RECORD;
const TIMES_AT: u64 = ARGUMENTS_AT + MOST_LAUNCHES as u64 * ARGUMENTS;
const LOG_AT: u64 = TIMES_AT + 4096;
const LOG: u64 = 4096;
const OPTIONS_AT: u64 = LOG_AT + LOG;
const TEXT_AT: u64 = OPTIONS_AT + 4096;

/// `CUjit_option`s.
const JIT_ERROR_LOG: u32 = 5;
const JIT_ERROR_LOG_BYTES: u32 = 6;
/// `CUfunction_attribute`s.
const FUNCTION_LOCAL_BYTES: u64 = 3;
const FUNCTION_REGISTERS: u64 = 4;
const FUNCTION_DYNAMIC_SHARED: u64 = 8;
/// Dynamic shared memory that needs no permission.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// The GPU in use.
pub(super) struct Context {
    device: u64,
    events: Vec<u64>,
    /// Address of the launches' clock records.
    records: u64,
    /// Two streams, for copies in both directions.
    pub streams: [u64; 2],
}

/// Compiled code of a kernel.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its source, without the text.
    pub kernel: Kernel,
    handle: u64,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: spilled registers.
    pub spilled: u32,
}

/// A launch with its arrays.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Blocks, threads, trips, elements.
    pub launch: Launch,
    /// Device addresses of the kernel's arrays.
    pub arrays: [u64; 3],
}

/// One launch, timed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shot {
    /// From event to event.
    pub seconds: f64,
    /// Clock of the first block's multiprocessor meanwhile, if the kernel notes it.
    pub clock_hz: Option<f64>,
    /// The kernel's own count of clocks, for latencies.
    pub clocks: u64,
}

impl Cuda {
    /// Makes GPU `index` the one that all later calls use.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn enter(&mut self, index: u32) -> Result<(), GpuError> {
        let about = format!("opening GPU {index}");
        let (device, at) = (self.handle(index)?, self.scratch);
        self.call("cuDevicePrimaryCtxRetain", &[at, device], &about)?;
        let context = self.u64_at(at)?;
        self.call("cuCtxSetCurrent", &[context], &about)?;
        let records = self.allocate(MOST_LAUNCHES as u64 * RECORD)?;
        self.fill(records, 0, MOST_LAUNCHES as u64 * RECORD)?;
        let mut events = Vec::new();
        for _ in 0..=MOST_LAUNCHES {
            self.call("cuEventCreate", &[at, 0], &about)?;
            events.push(self.u64_at(at)?);
        }
        let mut streams = [0; 2];
        for stream in &mut streams {
            // 1: does not wait for the default stream.
            self.call("cuStreamCreate", &[at, 1], &about)?;
            *stream = self.u64_at(at)?;
        }
        self.context = Some(Context { device, events, records, streams });
        Ok(())
    }

    /// Gives the GPU back, with all that was allocated on it.
    pub fn leave(&mut self) {
        if let Some(context) = self.context.take() {
            // The end of the process does the same.
            let _ = self.call("cuDevicePrimaryCtxRelease_v2", &[context.device], "closing the GPU");
        }
    }

    /// Free and total bytes of the GPU's memory.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn memory(&mut self) -> Result<(u64, u64), GpuError> {
        let at = self.scratch;
        self.call("cuMemGetInfo_v2", &[at, at + 8], "asking for free memory")?;
        Ok((self.u64_at(at)?, self.u64_at(at + 8)?))
    }

    /// Memory on the GPU.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, GpuError> {
        let at = self.scratch;
        self.call("cuMemAlloc_v2", &[at, bytes], &format!("allocating {} MiB on the GPU", bytes >> 20))?;
        self.u64_at(at)
    }

    /// Gives memory back.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn free(&mut self, address: u64) -> Result<(), GpuError> {
        self.call("cuMemFree_v2", &[address], "freeing memory of the GPU")
    }

    /// Fills `bytes` from `address` on with a word.
    ///
    /// # Errors
    /// [`GpuError`].
    fn fill(&mut self, address: u64, word: u32, bytes: u64) -> Result<(), GpuError> {
        self.call("cuMemsetD32_v2", &[address, u64::from(word), bytes / 4], "filling memory of the GPU")?;
        self.synchronise()
    }

    /// Waits for the GPU.
    ///
    /// # Errors
    /// [`GpuError`]: also those of kernels that ran on it.
    pub fn synchronise(&mut self) -> Result<(), GpuError> {
        self.call("cuCtxSynchronize", &[], "waiting for the GPU")
    }

    /// Compiles `kernel`.
    ///
    /// # Errors
    /// [`GpuError`], with the first line of the compiler's log.
    pub fn compile(&mut self, kernel: &Kernel) -> Result<Function, GpuError> {
        let about = format!("compiling {}", kernel.name);
        let (at, log) = (self.scratch, self.scratch + LOG_AT);
        let text = self.text(&kernel.ptx)?;
        let mut options = Vec::new();
        options.extend([JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES].iter().flat_map(|o| o.to_ne_bytes()));
        options.extend([log, LOG].iter().flat_map(|v| v.to_ne_bytes()));
        let here = self.scratch + OPTIONS_AT;
        self.remote.write(here, &options)?;
        self.remote.write(log, &[0])?;
        let loaded = self.call("cuModuleLoadDataEx", &[at, text, 2, here, here + 8], &about);
        if let Err(GpuError::Failed { what, code }) = loaded {
            let log = self.text_at(log, 400)?;
            let first = log.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let what = if first.is_empty() { what } else { format!("{what} ({})", first.trim()) };
            return Err(GpuError::Failed { what, code });
        }
        loaded?;
        let module = self.u64_at(at)?;
        self.remote.write(at + 64, format!("{}\0", kernel.name).as_bytes())?;
        self.call("cuModuleGetFunction", &[at, module, at + 64], &about)?;
        let handle = self.u64_at(at)?;
        let mut attribute = |which: u64| -> Result<u32, GpuError> {
            self.call("cuFuncGetAttribute", &[at, which, handle], &about)?;
            self.u32_at(at)
        };
        let (registers, spilled) = (attribute(FUNCTION_REGISTERS)?, attribute(FUNCTION_LOCAL_BYTES)?);
        if kernel.shared_dynamic > SHARED_WITHOUT_ASKING {
            let bytes = u64::from(kernel.shared_dynamic);
            self.call("cuFuncSetAttribute", &[handle, FUNCTION_DYNAMIC_SHARED, bytes], &about)?;
        }
        let mut kernel = kernel.clone();
        kernel.ptx = String::new();
        Ok(Function { kernel, handle, registers, spilled })
    }

    /// Puts a text into the other process.
    fn text(&mut self, text: &str) -> Result<u64, GpuError> {
        let room = super::SCRATCH - TEXT_AT;
        let bytes = text.len() as u64 + 1;
        let at = if bytes <= room { self.scratch + TEXT_AT } else { self.remote.memory(bytes)? };
        self.remote.write(at, text.as_bytes())?;
        self.remote.write(at + text.len() as u64, &[0])?;
        Ok(at)
    }

    /// Launches `grids` (at most [`MOST_LAUNCHES`]) one right after the other, waits, and times each.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn time(&mut self, function: &Function, grids: &[Grid]) -> Result<Vec<Shot>, GpuError> {
        let about = format!("running {}", function.kernel.name);
        let calls = self.launches(function, grids)?;
        for part in calls.chunks(CALLS) {
            self.make(LIMIT, &about, 1, part)?;
        }
        self.call("cuCtxSynchronize", &[], &about)?;
        let seconds = self.elapsed(grids.len(), &about)?;
        let records = self.records(grids.len(), &about)?;
        let both = seconds.into_iter().zip(records.chunks(RECORD as usize / 8));
        Ok(both.map(|(seconds, record)| shot(seconds, record)).collect())
    }

    /// Seconds on the GPU of `n` launches without events between them.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn time_together(&mut self, function: &Function, grid: Grid, n: u64) -> Result<f64, GpuError> {
        let about = format!("running {}", function.kernel.name);
        let calls = self.launches(function, &[grid])?;
        for (call, rounds) in calls.into_iter().zip([1, n, 1]) {
            self.make(LIMIT, &about, rounds, &[call])?;
        }
        self.call("cuCtxSynchronize", &[], &about)?;
        Ok(self.elapsed(1, &about)?.first().copied().unwrap_or(0.0))
    }

    /// Seconds on the host of `n` launches; `wait`: each waits for its end.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn time_host(&mut self, function: &Function, grid: Grid, wait: bool, n: u64) -> Result<f64, GpuError> {
        let about = format!("launching {}", function.kernel.name);
        let launch = self.launches(function, &[grid])?.remove(1);
        let synchronise = ("cuCtxSynchronize", Call::new(self.function("cuCtxSynchronize")?, &[]));
        let calls = if wait { vec![launch, synchronise] } else { vec![launch] };
        let time = self.make(LIMIT, &about, n, &calls)?;
        self.synchronise()?;
        Ok(time.as_secs_f64())
    }

    /// Event, launch, event, launch, …, event.
    fn launches(&mut self, function: &Function, grids: &[Grid]) -> Result<Vec<(&'static str, Call)>, GpuError> {
        let (record, launch) = (self.function("cuEventRecord")?, self.function("cuLaunchKernel")?);
        let Some(context) = &self.context else { return Ok(Vec::new()) };
        let arguments = self.scratch + ARGUMENTS_AT;
        let mut blocks = Vec::new();
        let mut calls = vec![("cuEventRecord", Call::new(record, &[context.events[0], 0]))];
        for (i, grid) in grids.iter().enumerate() {
            let (here, Launch { blocks: wide, threads, iters, count }) =
                (arguments + i as u64 * ARGUMENTS, grid.launch);
            let [a, b, c] = grid.arrays;
            let values = [a, b, c, context.records + i as u64 * RECORD, count, u64::from(iters), 0];
            let pointers: Vec<u64> = (0..7).map(|k| here + 8 * k).collect();
            blocks.extend(values.iter().chain(&pointers).chain(&[0, 0]).flat_map(|word| word.to_ne_bytes()));
            let shared = u64::from(function.kernel.shared_dynamic);
            let (wide, threads) = (u64::from(wide), u64::from(threads));
            let given = [function.handle, wide, 1, 1, threads, 1, 1, shared, 0, here + 56, 0];
            calls.push(("cuLaunchKernel", Call::new(launch, &given)));
            calls.push(("cuEventRecord", Call::new(record, &[context.events[i + 1], 0])));
        }
        self.remote.write(arguments, &blocks)?;
        Ok(calls)
    }

    /// Seconds between the first `n` + 1 events.
    fn elapsed(&mut self, n: usize, about: &str) -> Result<Vec<f64>, GpuError> {
        let (function, times) = (self.function("cuEventElapsedTime")?, self.scratch + TIMES_AT);
        let events = self.context.as_ref().map_or(&[][..], |context| &context.events);
        let calls: Vec<(&'static str, Call)> = (0..n)
            .map(|i| Call::new(function, &[times + 4 * i as u64, events[i], events[i + 1]]))
            .map(|call| ("cuEventElapsedTime", call))
            .collect();
        for part in calls.chunks(CALLS) {
            self.make(LIMIT, about, 1, part)?;
        }
        let bytes = self.remote.read(times, 4 * n)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|ms| f64::from(f32::from_ne_bytes(*ms)) / 1e3).collect())
    }

    fn records(&mut self, n: usize, about: &str) -> Result<Vec<u64>, GpuError> {
        let (bytes, at) = (n as u64 * RECORD, self.scratch + RECORDS_AT);
        let records = self.context.as_ref().map_or(0, |context| context.records);
        self.call("cuMemcpyDtoH_v2", &[at, records, bytes], about)?;
        let bytes = self.remote.read(at, bytes as usize)?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
    }
}

/// A launch from its clock record: clocks and nanoseconds at its begin and end.
fn shot(seconds: f64, record: &[u64]) -> Shot {
    let difference = |begin: usize| record[begin + 1].saturating_sub(record[begin]);
    let (clocks, ns) = (difference(0), difference(2));
    // Short launches are within the timer's steps.
    let clock_hz = (ns > 100_000 && clocks > 0).then(|| clocks as f64 / ns as f64 * 1e9);
    Shot { seconds, clock_hz, clocks }
}
