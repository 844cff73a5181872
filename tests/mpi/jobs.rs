//! Programs of both libraries, their launchers, and hosts as network namespaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::cli::{Sandbox, stderr, stdout};

/// No launcher may run longer.
const LIMIT_S: &str = "120";
pub const LIBRARIES: [&str; 2] = ["openmpi", "mpich"];

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mpi")
}

/// The folder with the fixtures built with `library`; `None`: it is not installed.
pub fn built(library: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<BTreeMap<&str, PathBuf>> = OnceLock::new();
    let all = BUILT.get_or_init(|| {
        let make = |library: &'static str| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi-{library}"));
            let output = Command::new(fixtures().join("make")).arg(library).arg(&folder).output().unwrap();
            output.status.success().then_some((library, folder))
        };
        LIBRARIES.into_iter().filter_map(make).collect()
    });
    if !all.contains_key(library) {
        println!("SKIPPED: packages: {library} is not installed");
    }
    all.get(library).cloned()
}

/// The program `name` of `library`; `None`: it could not be built.
pub fn program(library: &str, name: &str) -> Option<PathBuf> {
    let program = built(library)?.join(name);
    if !program.exists() {
        println!("SKIPPED: packages: {name} cannot be built with {library}");
        return None;
    }
    Some(program)
}

/// A library that is installed, MPICH if there is a choice, whose ranks start in half the time; and its program `name`.
pub fn any_with(name: &str) -> Option<(&'static str, PathBuf)> {
    let library = LIBRARIES.into_iter().rev().find(|library| built(library).is_some())?;
    Some((library, program(library, name)?))
}

/// Whether all combinations are tried; else each library with some of the programs: counting a library's start takes seconds.
pub fn is_full() -> bool {
    std::env::var_os("RPROF_FULL").is_some()
}

/// Held while ranks of MPICH run, which spin while they wait: those of two jobs would take each other's CPUs.
fn alone_if_it_spins(library: &str) -> Option<MutexGuard<'static, ()>> {
    static SPINS: Mutex<()> = Mutex::new(());
    (library == "mpich").then(|| SPINS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A shell command in `sandbox` with `$launch` for `ranks` ranks, and `$rprof`; under a time limit.
pub fn launched(sandbox: &Sandbox, library: &str, ranks: u32, script: &str) -> Output {
    let fixtures = fixtures();
    let rprof = env!("CARGO_BIN_EXE_rprof");
    let script = format!(
        "library={library}; . {}/launchers.sh; rprof={rprof}; launch=(\"${{launch[@]}}\" -np {ranks}); {script}",
        fixtures.display()
    );
    let script = sandbox.file("launch.sh", script, 0o755);
    let _alone = alone_if_it_spins(library);
    sandbox.shell(&format!("timeout {LIMIT_S} bash {}", script.display())).output().unwrap()
}

/// Hosts as network namespaces, until it is dropped.
pub struct Hosts(PathBuf);

impl Hosts {
    /// So many, with `limits` on what each sends: rate and burst. `None`: there cannot be any here.
    pub fn up(count: u32, limits: &[&str]) -> Option<Hosts> {
        let output =
            Command::new(fixtures().join("hosts")).arg("up").arg(count.to_string()).args(limits).output().unwrap();
        if !output.status.success() {
            println!("SKIPPED: root: no hosts as namespaces: {}", stderr(&output).trim());
            return None;
        }
        Some(Hosts(stdout(&output).trim().into()))
    }

    /// Runs `command` with so many ranks; a first run on a host measures its ceilings.
    pub fn run(&self, sandbox: &Sandbox, library: &str, ranks: u32, command: &[&str]) -> Output {
        let mut hosts = Command::new(fixtures().join("hosts"));
        hosts.arg("run").arg(&self.0).args([library, &ranks.to_string()]).args(command);
        // MPICH 4.0.2 sometimes hangs in MPI_Finalize between hosts (fixtures/mpi/README.md).
        let limit_s = if library == "mpich" { "40" } else { "100" };
        hosts.current_dir(sandbox.path()).env("MPI_HOSTS_TIMEOUT", limit_s);
        hosts.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        let _alone = alone_if_it_spins(library);
        hosts.stdin(std::process::Stdio::null()).output().unwrap()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = Command::new(fixtures().join("hosts")).arg("down").arg(&self.0).output();
    }
}

/// Held while a test measures the network: ranks of two tests would disturb each other.
pub static MEASURES: Mutex<()> = Mutex::new(());
