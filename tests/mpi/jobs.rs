//! Programs of both libraries, their launchers, and hosts as network namespaces.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use nix::fcntl::Flock;

use crate::cli::{Sandbox, stderr, stdout};
use crate::shared::{filled_once, turn};

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
        std::thread::scope(|scope| {
            let builds = LIBRARIES.map(|library| scope.spawn(move || build(library)));
            builds.into_iter().filter_map(|build| build.join().unwrap()).collect()
        })
    });
    if !all.contains_key(library) {
        println!("SKIPPED: packages: {library} is not installed");
    }
    all.get(library).cloned()
}

/// Builds the programs that are older than their sources, once for all tests.
fn build(library: &'static str) -> Option<(&'static str, PathBuf)> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi-{library}"));
    let built = filled_once(&format!("made-mpi-{library}"), |note| {
        if make(library, &folder) {
            fs::write(note.join("yes"), "").unwrap();
        }
    });
    built.join("yes").exists().then_some((library, folder))
}

/// Whether the programs could be built.
fn make(library: &str, folder: &Path) -> bool {
    let mut make = Command::new(fixtures().join("make"));
    make.arg(library).arg(folder);
    if !is_full() {
        make.env("PYTHON", "no");
    }
    make.output().unwrap().status.success()
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

/// A library that is installed, MPICH if there is a choice, since its ranks start in half the time; and its program
/// `name`.
pub fn any_with(name: &str) -> Option<(&'static str, PathBuf)> {
    let library = LIBRARIES.into_iter().rev().find(|library| built(library).is_some())?;
    Some((library, program(library, name)?))
}

/// Whether all combinations are tried; else each library with some of the programs: counting a library's start takes seconds.
pub fn is_full() -> bool {
    std::env::var_os("RPROF_FULL").is_some()
}

/// Held while ranks of MPICH run, which spin while they wait: those of two jobs would take each other's CPUs.
fn alone_if_it_spins(library: &str) -> Option<Flock<File>> {
    (library == "mpich").then(|| turn("mpich-spins"))
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

/// Such commands side by side, each in a sandbox of its own: much of a launch is waiting.
pub fn side_by_side<const N: usize>(library: &str, ranks: u32, scripts: [&str; N]) -> [(Sandbox, Output); N] {
    std::thread::scope(|scope| {
        let launch = |script| {
            let sandbox = Sandbox::new();
            let output = launched(&sandbox, library, ranks, script);
            (sandbox, output)
        };
        scripts.map(|script| scope.spawn(move || launch(script))).map(|thread| thread.join().unwrap())
    })
}

/// Lines of rprof, or of a launcher that its ranks confused. A launcher on a busy host may print of itself.
pub fn unasked_lines(output: &Output) -> Vec<String> {
    let is_one = |line: &&str| line.starts_with("rprof: ") || line.contains("orte_init") || line.contains("[proxy");
    stderr(output).lines().filter(is_one).map(str::to_owned).collect()
}

/// Hosts as network namespaces, until it is dropped.
pub struct Hosts {
    folder: PathBuf,
    has_ipv4: bool,
}

impl Hosts {
    /// `count` hosts, with `limits` on what each sends: rate and burst. `None`: there cannot be any here.
    pub fn up(count: u32, limits: &[&str]) -> Option<Hosts> {
        let output =
            Command::new(fixtures().join("hosts")).arg("up").arg(count.to_string()).args(limits).output().unwrap();
        if !output.status.success() {
            println!("SKIPPED: root: no hosts as namespaces: {}", stderr(&output).trim());
            return None;
        }
        Some(Hosts { folder: stdout(&output).trim().into(), has_ipv4: true })
    }

    /// Their connections to one another are refused from now on, as by a firewall.
    pub fn set_apart(&self) {
        let output = self.command("apart").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }

    /// Ranks of Open MPI do not use IPv4 from now on. `None`: there is no IPv6 here.
    pub fn without_ipv4(mut self) -> Option<Hosts> {
        let output = self.command("ipv6").output().unwrap();
        if !output.status.success() {
            println!("SKIPPED: kernel: no IPv6: {}", stderr(&output).trim());
            return None;
        }
        self.has_ipv4 = false;
        Some(self)
    }

    fn command(&self, what: &str) -> Command {
        let mut hosts = Command::new(fixtures().join("hosts"));
        hosts.arg(what).arg(&self.folder);
        hosts
    }

    /// Runs `command` with this number of ranks, for at most this number of seconds, with the words `prefix` before the
    /// launcher.
    pub fn run(
        &self,
        sandbox: &Sandbox,
        (library, ranks): (&str, u32),
        limit_s: u32,
        prefix: &str,
        command: &[&str],
    ) -> Output {
        let mut hosts = self.command("run");
        hosts.args([library, &ranks.to_string()]).args(command);
        if !self.has_ipv4 {
            hosts.env("OMPI_MCA_btl_tcp_disable_family", "4");
        }
        hosts.current_dir(sandbox.path()).env("MPI_HOSTS_TIMEOUT", limit_s.to_string()).env("MPI_HOSTS_PREFIX", prefix);
        hosts.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        let _alone = alone_if_it_spins(library);
        hosts.stdin(std::process::Stdio::null()).output().unwrap()
    }

    /// [`run`](Self::run), again if it fails: MPICH 4.0.2 sometimes hangs in MPI_Finalize between hosts (fixtures/mpi/README.md). The
    /// limits of the attempts, in seconds, begin short, so that a hang costs little; a busy host has the later ones.
    pub fn run_again(&self, sandbox: &Sandbox, (library, ranks): (&str, u32), command: &[&str]) -> Output {
        let limits: &[u32] = if library == "mpich" { &[15, 30, 60] } else { &[60, 100] };
        let run = |limit_s: &u32| self.run(sandbox, (library, ranks), *limit_s, "", command);
        let (last, earlier) = limits.split_last().unwrap();
        earlier.iter().map(run).find(|output| output.status.success()).unwrap_or_else(|| run(last))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = self.command("down").output();
    }
}

/// Held while a test measures the network: ranks of two tests would disturb each other.
pub fn turn_to_measure() -> Flock<File> {
    turn("network-measures")
}
