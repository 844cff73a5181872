//! Putting the collector into a program: a folder with the library and the logs, and the environment that leads there.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::cupti;
use super::groups::{self, Group};
use super::log::{self, Log};

/// The collector, built by `build.rs`.
const COLLECTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/collector.so"));

/// The variable that the driver reads.
const DRIVERS: &str = "CUDA_INJECTION64_PATH";

/// What the collector does.
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
    /// Writes the collector into a new folder below `parent` for `program`.
    ///
    /// # Errors
    /// The folder or a file in it could not be written.
    pub fn new(parent: &Path, program: &Path, purpose: &Purpose) -> io::Result<Injection> {
        let folder = (0..1000)
            .map(|n| parent.join(format!(".rprof-gpu-{}-{n}", std::process::id())))
            .find_map(|folder| match fs::create_dir(&folder) {
                Ok(()) => Some(Ok(folder)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => None,
                Err(e) => Some(Err(e)),
            })
            .unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))?;
        let mut injection = Injection { folder, variables: Vec::new() };
        // Other users, too: the program may be one with another user's rights.
        let library = injection.folder.join("collector.so");
        fs::write(&library, COLLECTOR)?;
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755))?;
        let folder = injection.folder.canonicalize()?;
        let mut set = |name: &str, value: OsString| injection.variables.push((name.into(), value));
        set(DRIVERS, folder.join("collector.so").into());
        set("RPROF_GPU_LOG", folder.clone().into());
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

    /// The logs written so far.
    pub fn logs(&self) -> Vec<Log> {
        log::read(&self.folder)
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
