//! A GPU's properties from the driver.

use super::Cuda;
use crate::gpu::error::GpuError;
use rprof_profile::gpu::Gpu;

/// `CUdevice_attribute`s.
const CLOCK_KHZ: u64 = 13;
const MULTIPROCESSORS: u64 = 16;
const INTEGRATED: u64 = 18;
const MEMORY_CLOCK_KHZ: u64 = 36;
const BUS_BITS: u64 = 37;
const L2_BYTES: u64 = 38;
const THREADS_PER_MULTIPROCESSOR: u64 = 39;
const MAJOR: u64 = 75;
const MINOR: u64 = 76;
const SHARED_PER_MULTIPROCESSOR: u64 = 81;
const REGISTERS_PER_MULTIPROCESSOR: u64 = 82;
const MANAGED: u64 = 83;
const SHARED_OPT_IN: u64 = 97;
const MPS: u64 = 133;

/// Transfers of a memory bus in one clock that the driver reports: it gives half of the rate of double data rate memory.
const PER_CLOCK: f64 = 2.0;

/// Properties that distinguish GPUs, and those that the profile has no field for.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// Its UUID, 32 digits.
    pub uuid: String,
    /// Its place on the PCI bus.
    pub pci: String,
    /// Most bytes of shared memory of a block.
    pub shared_opt_in: u32,
    /// Whether it has managed memory.
    pub managed: bool,
    /// Whether it shares the host's memory.
    pub integrated: bool,
    /// Whether an MPS server runs the work of several programs on it together.
    pub is_shared: bool,
}

impl Cuda {
    /// Number of GPUs that this process may use.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn count(&mut self) -> Result<u32, GpuError> {
        let at = self.scratch;
        self.call("cuDeviceGetCount", &[at], "counting GPUs")?;
        self.u32_at(at)
    }

    /// The facts about GPU `index`, without ceilings.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn facts(&mut self, index: u32, driver: u32) -> Result<(Gpu, Identity), GpuError> {
        let device = self.handle(index)?;
        let about = format!("asking for GPU {index}");
        let at = self.scratch;
        self.call("cuDeviceGetName", &[at, 256, device], &about)?;
        let name = self.text_at(at, 256)?;
        self.call("cuDeviceTotalMem_v2", &[at, device], &about)?;
        let memory_bytes = self.u64_at(at)?;
        let mut attribute = |which: u64| -> Result<u32, GpuError> {
            self.call("cuDeviceGetAttribute", &[at, which, device], &about)?;
            self.u32_at(at)
        };
        // The clock of the memory is 0 on GPUs that share the host's.
        let bus = f64::from(attribute(MEMORY_CLOCK_KHZ)?) * 1e3 * f64::from(attribute(BUS_BITS)?) / 8.0 * PER_CLOCK;
        let gpu = Gpu {
            index,
            name,
            capability: (attribute(MAJOR)?, attribute(MINOR)?),
            multiprocessors: attribute(MULTIPROCESSORS)?,
            clock_hz: f64::from(attribute(CLOCK_KHZ)?) * 1e3,
            l2_bytes: u64::from(attribute(L2_BYTES)?),
            memory_bytes,
            bus_bytes_per_s: (bus > 0.0).then_some(bus),
            threads_per_multiprocessor: attribute(THREADS_PER_MULTIPROCESSOR)?,
            registers_per_multiprocessor: attribute(REGISTERS_PER_MULTIPROCESSOR)?,
            shared_per_multiprocessor: attribute(SHARED_PER_MULTIPROCESSOR)?,
            driver,
            ..Gpu::default()
        };
        let (shared_opt_in, managed) = (attribute(SHARED_OPT_IN)?, attribute(MANAGED)? != 0);
        let integrated = attribute(INTEGRATED)? != 0;
        // Older drivers do not know the question.
        let is_shared = attribute(MPS).is_ok_and(|answer| answer != 0);
        let uuid = self.uuid(device, &about)?;
        self.call("cuDeviceGetPCIBusId", &[at, 32, device], &about)?;
        let pci = self.text_at(at, 32)?;
        Ok((gpu, Identity { uuid, pci, shared_opt_in, managed, integrated, is_shared }))
    }

    /// The driver's handle of GPU `index`.
    pub(super) fn handle(&mut self, index: u32) -> Result<u64, GpuError> {
        let at = self.scratch;
        self.call("cuDeviceGet", &[at, u64::from(index)], &format!("asking for GPU {index}"))?;
        self.u32_at(at).map(u64::from)
    }

    /// The newer function distinguishes the slices of a GPU.
    fn uuid(&mut self, device: u64, about: &str) -> Result<String, GpuError> {
        let at = self.scratch;
        let name = if self.function("cuDeviceGetUuid_v2").is_ok() { "cuDeviceGetUuid_v2" } else { "cuDeviceGetUuid" };
        self.call(name, &[at, device], about)?;
        Ok(self.remote.read(at, 16)?.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
