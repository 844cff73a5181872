//! Memory of the host that the GPU can use, and copies between both.

use super::{Cuda, LIMIT};
use crate::gpu::error::GpuError;
use crate::loader::Call;

/// Which way data go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the device.
    In,
    /// From the device to the host.
    Out,
}

/// How memory that the host uses was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// As any program's.
    Pageable,
    /// Page-locked, and mapped for the device.
    Pinned,
    /// Moves to its user.
    Managed,
}

/// `CU_MEMHOSTALLOC_DEVICEMAP`; `CU_MEM_ATTACH_GLOBAL`.
const DEVICE_MAP: u64 = 2;
const ATTACH_GLOBAL: u64 = 1;

impl Cuda {
    /// Memory of the other process.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn host_memory(&mut self, kind: HostKind, bytes: u64) -> Result<u64, GpuError> {
        let (at, mib) = (self.scratch, bytes >> 20);
        match kind {
            HostKind::Pageable => return Ok(self.remote.memory(bytes)?),
            HostKind::Pinned => {
                self.call("cuMemHostAlloc", &[at, bytes, DEVICE_MAP], &format!("allocating {mib} MiB page-locked"))?;
            }
            HostKind::Managed => {
                self.call("cuMemAllocManaged", &[at, bytes, ATTACH_GLOBAL], &format!("allocating {mib} MiB managed"))?;
            }
        }
        self.u64_at(at)
    }

    /// Gives page-locked or managed memory back.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn free_host_memory(&mut self, kind: HostKind, address: u64) -> Result<(), GpuError> {
        match kind {
            HostKind::Pageable => Ok(()),
            HostKind::Pinned => self.call("cuMemFreeHost", &[address], "freeing page-locked memory"),
            HostKind::Managed => self.free(address),
        }
    }

    /// The address at which the device sees page-locked memory.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn mapped(&mut self, address: u64) -> Result<u64, GpuError> {
        let at = self.scratch;
        self.call("cuMemHostGetDevicePointer_v2", &[at, address, 0], "mapping page-locked memory for the GPU")?;
        self.u64_at(at)
    }

    /// Writes into memory of the host at `address`.
    ///
    /// # Errors
    /// [`GpuError`]: the process is lost.
    pub fn write_host(&mut self, address: u64, bytes: &[u8]) -> Result<(), GpuError> {
        Ok(self.remote.write(address, bytes)?)
    }

    /// Host seconds of one copy, from its call to its end.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn copy(&mut self, way: Direction, device: u64, host: u64, bytes: u64) -> Result<f64, GpuError> {
        let (name, arguments): (&'static str, [u64; 3]) = match way {
            Direction::In => ("cuMemcpyHtoD_v2", [device, host, bytes]),
            Direction::Out => ("cuMemcpyDtoH_v2", [host, device, bytes]),
        };
        let (copy, wait) = (self.function(name)?, self.function("cuCtxSynchronize")?);
        let calls = [(name, Call::new(copy, &arguments)), ("cuCtxSynchronize", Call::new(wait, &[]))];
        self.make(LIMIT, "copying", 1, &calls).map(|time| time.as_secs_f64())
    }

    /// Host seconds of two copies at once: `bytes` in, from `hosts[0]` to `devices[0]`, and as many out.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn copy_both(&mut self, devices: [u64; 2], hosts: [u64; 2], bytes: u64) -> Result<f64, GpuError> {
        let streams = self.context.as_ref().map_or([0; 2], |context| context.streams);
        let (into, out) = (self.function("cuMemcpyHtoDAsync_v2")?, self.function("cuMemcpyDtoHAsync_v2")?);
        let wait = self.function("cuCtxSynchronize")?;
        let calls = [
            ("cuMemcpyHtoDAsync_v2", Call::new(into, &[devices[0], hosts[0], bytes, streams[0]])),
            ("cuMemcpyDtoHAsync_v2", Call::new(out, &[hosts[1], devices[1], bytes, streams[1]])),
            ("cuCtxSynchronize", Call::new(wait, &[])),
        ];
        self.make(LIMIT, "copying both ways", 1, &calls).map(|time| time.as_secs_f64())
    }

    /// Seconds in which one core adds 1 to each double of `bytes` at a host address.
    ///
    /// # Errors
    /// [`GpuError`]: the process is lost.
    pub fn touch(&mut self, address: u64, bytes: u64) -> Result<f64, GpuError> {
        let call = Call::new(self.touch, &[address, bytes]);
        self.make(LIMIT, "using data on the host", 1, &[("touch", call)]).map(|time| time.as_secs_f64())
    }
}
