//! NVIDIA's driver, called in a process of its own ([`Remote`]).
//!
//! The functions, their arguments and constants are declared here and in the files beside, from NVIDIA's public documentation of the
//! driver API. Pointers and handles are numbers: addresses in the other process.

mod context;
mod device;
mod transfer;

pub use context::{Function, Grid, MOST_LAUNCHES, Shot};
pub use device::Identity;
pub use transfer::{Direction, HostKind};

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::error::GpuError;
use crate::loader::{Call, Library, LoaderError, Outcome, Remote};

/// Overrides the library that is loaded; for tests.
pub const LIBRARY_VARIABLE: &str = "RPROF_LIBCUDA";

/// Places of the driver's library, besides the dynamic linker's own places.
const PLACES: [&str; 4] = [
    "libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
];

/// The oldest driver API that is used, 11.8: its compiler takes PTX 7.8.
pub const OLDEST: u32 = 11_080;

/// Time for the driver to wake the GPUs of a host without a persistence daemon.
const INIT_LIMIT: Duration = Duration::from_secs(60);
/// Time for any other call.
const LIMIT: Duration = Duration::from_secs(30);

/// Bytes of the other process' memory that calls read and write.
const SCRATCH: u64 = 1 << 18;

/// The driver.
pub struct Cuda {
    remote: Remote,
    library: Library,
    functions: HashMap<&'static str, u64>,
    /// Memory of the other process for arguments and results: [`SCRATCH`] bytes.
    scratch: u64,
    /// The loader's own functions.
    touch: u64,
    context: Option<context::Context>,
}

impl Cuda {
    /// Loads the driver, or the library `other` in its place, and initialises it. `None` if there is no driver.
    ///
    /// # Errors
    /// [`GpuError`]: there is one, but it cannot be used.
    pub fn start(other: Option<&Path>) -> Result<Option<Cuda>, GpuError> {
        let mut remote = Remote::start()?;
        let Some(library) = load(&mut remote, other)? else { return Ok(None) };
        let scratch = remote.memory(SCRATCH)?;
        let [touch, _] = remote.own()?;
        let mut cuda = Cuda { remote, library, functions: HashMap::new(), scratch, touch, context: None };
        cuda.call_within(INIT_LIMIT, "cuInit", &[0], "starting the CUDA driver")?;
        Ok(Some(cuda))
    }

    /// The version of the driver's API, for instance 13000.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn version(&mut self) -> Result<u32, GpuError> {
        let at = self.scratch;
        self.call("cuDriverGetVersion", &[at], "asking for the driver's version")?;
        self.u32_at(at)
    }

    fn function(&mut self, name: &'static str) -> Result<u64, GpuError> {
        if let Some(address) = self.functions.get(name) {
            return Ok(*address);
        }
        let address = self.remote.symbol(self.library, name)?;
        self.functions.insert(name, address);
        Ok(address)
    }

    /// One call; `about` names its purpose in errors.
    fn call(&mut self, name: &'static str, arguments: &[u64], about: &str) -> Result<(), GpuError> {
        self.call_within(LIMIT, name, arguments, about)
    }

    fn call_within(
        &mut self,
        limit: Duration,
        name: &'static str,
        arguments: &[u64],
        about: &str,
    ) -> Result<(), GpuError> {
        let call = Call::new(self.function(name)?, arguments);
        self.make(limit, about, 1, &[(name, call)]).map(|_| ())
    }

    /// Several calls in one request, `rounds` times. Returns the time of all rounds in the other process.
    fn make(
        &mut self,
        limit: Duration,
        about: &str,
        rounds: u64,
        calls: &[(&'static str, Call)],
    ) -> Result<Duration, GpuError> {
        let plain: Vec<Call> = calls.iter().map(|(_, call)| *call).collect();
        let Outcome { failed, time } = self.remote.calls(about, limit, rounds, &plain)?;
        match failed.and_then(|(index, code)| Some((calls.get(index)?.0, code))) {
            Some((name, code)) => Err(GpuError::Failed { what: format!("{about}: {name}"), code }),
            None => Ok(time),
        }
    }

    fn u32_at(&mut self, at: u64) -> Result<u32, GpuError> {
        let bytes = self.remote.read(at, 4)?;
        Ok(bytes.try_into().map_or(0, u32::from_ne_bytes))
    }

    fn u64_at(&mut self, at: u64) -> Result<u64, GpuError> {
        let bytes = self.remote.read(at, 8)?;
        Ok(bytes.try_into().map_or(0, u64::from_ne_bytes))
    }

    /// The text at `at`, up to its zero, at most `length` bytes.
    fn text_at(&mut self, at: u64, length: usize) -> Result<String, GpuError> {
        let bytes = self.remote.read(at, length)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).trim().to_owned())
    }
}

/// Loads the library from the first place that has it.
fn load(remote: &mut Remote, other: Option<&Path>) -> Result<Option<Library>, GpuError> {
    let other = other.map(|path| vec![path.to_string_lossy().into_owned()]);
    for place in other.unwrap_or_else(|| PLACES.map(str::to_owned).to_vec()) {
        match remote.open(&place) {
            Ok(library) => return Ok(Some(library)),
            // The linker has no codes, only this text of all C libraries.
            Err(LoaderError::Library { reason, .. }) if reason.contains("No such file") => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
