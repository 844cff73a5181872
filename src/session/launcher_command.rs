//! The place of the program in a launcher's command line, and the command line with rprof in front of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::tracee::launch::find_in_path;

/// Names of launchers, without the suffixes that distributions put behind a dot.
const LAUNCHERS: [&str; 9] =
    ["mpirun", "mpiexec", "orterun", "prterun", "srun", "aprun", "jsrun", "mpiexec_mpt", "ibrun"];

/// Options with one value behind them, of Open MPI, PRRTE, Hydra and Slurm. Values may have the names of programs (`--map-by node`).
const WITH_VALUE: [&str; 91] = [
    "n",
    "np",
    "c",
    "N",
    "H",
    "host",
    "hosts",
    "hostfile",
    "machinefile",
    "default-hostfile",
    "wd",
    "wdir",
    "path",
    "x",
    "map-by",
    "bind-to",
    "rank-by",
    "npernode",
    "npersocket",
    "ppr",
    "rankfile",
    "rf",
    "cpu-set",
    "cpu-list",
    "output-filename",
    "prefix",
    "preload-files",
    "timeout",
    "stdin",
    "report-uri",
    "ompi-server",
    "tune",
    "am",
    "personality",
    "display",
    "output",
    "runtime-options",
    "f",
    "ppn",
    "perhost",
    "genvlist",
    "envlist",
    "membind",
    "launcher",
    "launcher-exec",
    "bootstrap",
    "bootstrap-exec",
    "rmk",
    "iface",
    "demux",
    "prepend-pattern",
    "outfile-pattern",
    "errfile-pattern",
    "usize",
    "localhost",
    "p",
    "w",
    "t",
    "J",
    "A",
    "o",
    "e",
    "i",
    "D",
    "m",
    "d",
    "C",
    "q",
    "L",
    "G",
    "nodes",
    "ntasks",
    "partition",
    "time",
    "job-name",
    "account",
    "error",
    "input",
    "chdir",
    "distribution",
    "constraint",
    "qos",
    "gres",
    "mem",
    "cpus-per-task",
    "ntasks-per-node",
    "nodelist",
    "exclude",
    "mpi",
    "cpu-bind",
    "export",
];

/// Options with two values behind them.
const WITH_TWO: [&str; 7] = ["mca", "gmca", "prtemca", "pmixmca", "omca", "env", "genv"];

/// Options with the name of a file that lists the programs.
const IN_A_FILE: [&str; 4] = ["app", "configfile", "multi-prog", "a"];

/// Whether `program` starts the ranks of a job.
pub fn is_launcher(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.split('.').next().unwrap_or_default();
    LAUNCHERS.contains(&stem)
}

/// `command`, a launcher's, with `inserted` in front of each program. `None`: no program was found in it.
pub fn with_inserted(command: &[OsString], inserted: &[OsString]) -> Option<Vec<OsString>> {
    let mut whole = vec![command.first()?.clone()];
    for (n, part) in command[1..].split(|word| word == ":").enumerate() {
        if n > 0 {
            whole.push(":".into());
        }
        let at = program_at(part)?;
        whole.extend_from_slice(&part[..at]);
        whole.extend_from_slice(inserted);
        whole.extend_from_slice(&part[at..]);
    }
    Some(whole)
}

/// The index of the program among the arguments of a launcher: the first word that is no option, no value of one, and can be executed.
fn program_at(arguments: &[OsString]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            return (at + 1 < arguments.len()).then_some(at + 1);
        }
        if !bytes.starts_with(b"-") {
            if is_executable(word) {
                return Some(at);
            }
            at += 1;
            continue;
        }
        let name = word.to_string_lossy();
        let name = name.trim_start_matches('-');
        at += match name {
            _ if IN_A_FILE.contains(&name) => return None,
            _ if WITH_TWO.contains(&name) => 3,
            _ if WITH_VALUE.contains(&name) => 2,
            _ => 1,
        };
    }
    None
}

fn is_executable(word: &OsStr) -> bool {
    let is_one =
        |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    find_in_path(word).is_some_and(|path| is_one(&path)) || is_one(Path::new(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserted(command: &str) -> Option<String> {
        let words: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
        let whole = with_inserted(&words, &["rprof".into(), "--".into()])?;
        Some(whole.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn rprof_comes_before_the_program() {
        for (command, whole) in [
            ("mpirun -np 2 sh -c x", "mpirun -np 2 rprof -- sh -c x"),
            (
                "mpirun --map-by test -mca btl sh --oversubscribe cat",
                "mpirun --map-by test -mca btl sh --oversubscribe rprof -- cat",
            ),
            ("srun -n4 --mpi=pmix -p sh cat", "srun -n4 --mpi=pmix -p sh rprof -- cat"),
            ("mpiexec -n 1 cat a : -n 2 sh b", "mpiexec -n 1 rprof -- cat a : -n 2 rprof -- sh b"),
            ("mpiexec -genv A sh -- cat", "mpiexec -genv A sh -- rprof -- cat"),
        ] {
            assert_eq!(inserted(command).as_deref(), Some(whole));
        }
    }

    #[test]
    fn without_a_program_nothing_is_changed() {
        for command in
            ["mpirun", "mpirun -np 2", "mpirun --app sh", "mpirun -np 2 /nowhere/app", "mpirun -n 2 cat : -n 1"]
        {
            assert_eq!(inserted(command), None, "{command}");
        }
    }

    #[test]
    fn launchers_are_known_by_name() {
        let known = |name: &str| is_launcher(OsStr::new(name));
        assert!(["mpirun", "/usr/bin/mpiexec.hydra", "mpirun.openmpi", "srun"].into_iter().all(known));
        assert!(!["./app", "mpirunner", "cat"].into_iter().any(known));
    }
}
