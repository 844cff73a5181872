//! Putting the collector into a program: a folder with the library and the logs, and the environment that leads there.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::cupti;
use super::groups::{self, Group};
use super::log::{self, Log};

/// The collector, built by `build.rs`.
use rprof_embedded::COLLECTOR;

/// The variable that the driver reads.
const DRIVERS: &str = "CUDA_INJECTION64_PATH";

/// The variable with the folder of logs, which the collector reads.
pub const LOGS: &str = "RPROF_GPU_LOG";

/// The collector's task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Times of kernels and copies.
    Trace,
    /// Counts of the first launches of each kernel.
    Count(Vec<Group>),
}

/// A folder with the collector in it, which is removed at the end.
#[derive(Debug)]
pub struct Injection {
    folder: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

/// Whether the user has put another library into CUDA programs.
pub fn is_taken() -> bool {
    env::var_os(DRIVERS).is_some_and(|path| !path.is_empty())
}

/// Whether this host may have a GPU at all: the driver's device nodes or its library are there.
pub fn is_worthwhile() -> bool {
    let nodes = ["/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"];
    let named = |folder: &Path| folder.join("libcuda.so.1").exists();
    let folders =
        env::var_os("LD_LIBRARY_PATH").map(|list| env::split_paths(&list).collect::<Vec<_>>()).unwrap_or_default();
    nodes.iter().any(|node| Path::new(node).exists()) || folders.iter().any(|folder| named(folder))
}

impl Injection {
    /// Writes the collector into a new folder for `program`: below the folder for temporary files, or below `parent` if files there
    /// cannot be executed.
    ///
    /// # Errors
    /// Neither can be written and executed.
    pub fn new(parent: &Path, program: &Path, purpose: &Purpose) -> io::Result<Injection> {
        let temporary = env::temp_dir();
        let first = Injection::within(&temporary, program, purpose);
        first.or_else(|error| Injection::within(parent, program, purpose).map_err(|_| error))
    }

    fn within(parent: &Path, program: &Path, purpose: &Purpose) -> io::Result<Injection> {
        let folder = (0..1000)
            .map(|n| parent.join(format!("rprof-gpu-{}-{n}", std::process::id())))
            .find_map(|folder| match fs::create_dir(&folder) {
                Ok(()) => Some(Ok(folder)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => None,
                Err(e) => Some(Err(e)),
            })
            .unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))?;
        let mut injection = Injection { folder, variables: Vec::new() };
        let library = injection.folder.join("collector.so");
        fs::write(&library, COLLECTOR)?;
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755))?;
        if !can_be_executed(&library)? {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("programs in {} may not be executed (a noexec mount); set TMPDIR", parent.display()),
            ));
        }
        let folder = injection.folder.canonicalize()?;
        let mut set = |name: &str, value: OsString| injection.variables.push((name.into(), value));
        set(DRIVERS, folder.join("collector.so").into());
        set(LOGS, folder.clone().into());
        let candidates = cupti::candidates(program);
        if let Ok(list) = env::join_paths(&candidates)
            && !list.is_empty()
        {
            set(cupti::VARIABLE, list);
        }
        if let Purpose::Count(groups) = purpose {
            fs::write(folder.join("groups"), groups::file(groups))?;
            set("RPROF_GPU_COUNT", folder.join("groups").into());
        }
        Ok(injection)
    }

    /// The variables to set for the program.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// The folder, which all processes with the collector have in their environment.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The logs written so far.
    pub fn logs(&self) -> Vec<Log> {
        log::read(&self.folder)
    }
}

/// Whether the file can be mapped as code: not if its file system is mounted with `noexec`.
fn can_be_executed(library: &Path) -> io::Result<bool> {
    let file = fs::File::open(library)?;
    let length = NonZeroUsize::new(COLLECTOR.len()).ok_or(io::ErrorKind::InvalidData)?;
    // SAFETY: a private mapping of our own file at an address of the kernel's choice, which is unmapped at once.
    let mapped =
        unsafe { mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_EXEC, MapFlags::MAP_PRIVATE, &file, 0) };
    // SAFETY: the mapping of the line above.
    Ok(mapped.is_ok_and(|at| unsafe { munmap(at, length.get()) }.is_ok()))
}

impl Drop for Injection {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collector_asks_for_no_version_of_the_c_library() {
        let asks = |name: &[u8]| COLLECTOR.windows(name.len()).any(|bytes| bytes == name);
        assert!(asks(b"libc.so.6") && asks(b"InitializeInjection") && !asks(b"GLIBC_"));
    }
}
