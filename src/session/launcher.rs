//! The variables that a launcher (mpirun, mpiexec, srun, flux run …) sets for the processes that it starts: rank, ranks, job.

use std::ffi::OsString;
use std::fs;

use crate::profile::run::Warning;
use crate::tracee::mpi::datatypes::Family;

/// A process that a launcher started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedRank {
    /// Its number in the job.
    pub rank: u32,
    /// Processes of the job; `None`: the launcher does not say.
    pub ranks: Option<u32>,
    /// Identifies the job among all jobs of all launchers; `None`: nothing does.
    pub job: Option<String>,
    /// Whether the library accepts that a rank starts its program a second time.
    pub starts_twice: bool,
}

/// Variables of one launcher.
struct Variables {
    rank: &'static str,
    ranks: &'static [&'static str],
    /// Joined by a dot they identify the job.
    job: &'static [&'static str],
}

/// In the order of precedence: a launcher inside another's allocation comes before it.
const LAUNCHERS: [Variables; 9] = [
    Variables { rank: "OMPI_COMM_WORLD_RANK", ranks: &["OMPI_COMM_WORLD_SIZE"], job: &["PMIX_NAMESPACE"] },
    Variables { rank: "MV2_COMM_WORLD_RANK", ranks: &["MV2_COMM_WORLD_SIZE"], job: &[] },
    // Hydra of MPICH and Intel MPI, and Slurm's PMI.
    Variables { rank: "PMI_RANK", ranks: &["PMI_SIZE"], job: &[] },
    Variables { rank: "JSM_NAMESPACE_RANK", ranks: &["JSM_NAMESPACE_SIZE"], job: &["PMIX_NAMESPACE"] },
    Variables { rank: "PMIX_RANK", ranks: &[], job: &["PMIX_NAMESPACE"] },
    Variables { rank: "FLUX_TASK_RANK", ranks: &["FLUX_JOB_SIZE"], job: &["FLUX_JOB_ID"] },
    Variables { rank: "PALS_RANKID", ranks: &["PALS_SIZE"], job: &["PALS_APID"] },
    Variables { rank: "ALPS_APP_PE", ranks: &[], job: &["ALPS_APP_ID"] },
    Variables {
        rank: "SLURM_PROCID",
        ranks: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
];

/// Slurm sets its variables in batch scripts, too; only its steps have this one.
const SLURM_STEP: &str = "SLURM_STEP_ID";

/// Set by the launcher of Open MPI 5 and later: its daemons accept a process that follows another in its place.
const PRRTE: &str = "PRTE_LAUNCHED";

/// Processes above rprof that are looked through for a launcher's daemon.
const ANCESTORS: usize = 8;

/// The rank that this process was started as, if a launcher started it. Values that are no ranks are doubts.
pub fn of_this_process(warnings: &mut Vec<Warning>) -> Option<LaunchedRank> {
    let mut rank = of(&|name| std::env::var_os(name), warnings)?;
    if rank.job.is_none() {
        rank.job = daemon_above();
    }
    Some(rank)
}

/// Numbers of ranks on their hosts.
const LOCAL_RANKS: [&str; 7] = [
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "JSM_NAMESPACE_LOCAL_RANK",
    "FLUX_TASK_LOCAL_ID",
    "PALS_LOCAL_RANKID",
    "SLURM_LOCALID",
];

/// Whether this rank is the first of its host, as far as the launcher says.
pub fn is_first_of_its_host() -> bool {
    LOCAL_RANKS.iter().find_map(|name| std::env::var(name).ok()).is_none_or(|local| local == "0")
}

/// Variables that say how many ranks this host has.
const LOCAL_SIZES: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];
const SLURM_NODES: &str = "SLURM_STEP_NUM_NODES";

/// How many ranks of the job are on this host, as far as the launcher says.
pub fn ranks_of_this_host() -> Option<u32> {
    local_size(&|name| std::env::var_os(name))
}

fn local_size(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<u32> {
    LOCAL_SIZES.iter().find_map(|name| number(variable(name)))
}

fn number(value: Option<OsString>) -> Option<u32> {
    value?.to_str()?.parse().ok()
}

/// Whether some of the job's `ranks` are on other hosts than this process, as far as the launcher says.
pub fn has_other_hosts(ranks: u32) -> bool {
    are_elsewhere(&|name| std::env::var_os(name), ranks)
}

fn are_elsewhere(variable: &dyn Fn(&str) -> Option<OsString>, ranks: u32) -> bool {
    match local_size(variable) {
        Some(local) => local < ranks,
        None => number(variable(SLURM_NODES)).is_some_and(|nodes| nodes > 1),
    }
}

/// The family of the library that the launcher which started this process belongs to; `None`: it starts any.
pub fn family() -> Option<Family> {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    match () {
        () if is_set("OMPI_COMM_WORLD_RANK") => Some(Family::OpenMpi),
        // Hydra sets both, Slurm's PMI only the rank.
        () if is_set("MV2_COMM_WORLD_RANK") || (is_set("PMI_RANK") && is_set("MPI_LOCALRANKID")) => Some(Family::Mpich),
        () => None,
    }
}

/// The rank that an environment with these variables belongs to.
fn of(variable: &dyn Fn(&str) -> Option<OsString>, warnings: &mut Vec<Warning>) -> Option<LaunchedRank> {
    let number = |name: &str| variable(name)?.to_str()?.parse::<u32>().ok();
    for launcher in &LAUNCHERS {
        let Some(value) = variable(launcher.rank) else { continue };
        if launcher.rank == "SLURM_PROCID" && variable(SLURM_STEP).is_none() {
            continue;
        }
        let ranks = launcher.ranks.iter().find_map(|name| number(name)).filter(|ranks| *ranks > 0);
        // PMIx writes numbers near 2^32 for "none".
        let rank = number(launcher.rank).filter(|rank| *rank < ranks.unwrap_or(1 << 31));
        let Some(rank) = rank else {
            let of_ranks = ranks.map_or(String::new(), |ranks| format!(" of {ranks}"));
            warnings.push(Warning::new(
                "rank-variable",
                format!("{}={} is no rank{of_ranks}", launcher.rank, value.to_string_lossy()),
                "the variable is ignored: the profile may lack its rank, or ranks may share a folder",
                "unset it, or let the launcher set it",
            ));
            continue;
        };
        let parts: Option<Vec<String>> =
            launcher.job.iter().map(|name| Some(variable(name)?.to_str()?.to_owned())).collect();
        return Some(LaunchedRank {
            rank,
            ranks,
            job: parts.filter(|parts| !parts.is_empty()).map(|parts| parts.join(".")),
            starts_twice: variable(PRRTE).is_some(),
        });
    }
    None
}

/// Hydra's daemons have the address of their mpiexec among their arguments: host and port, alike on all hosts of a job. Of a launcher
/// without such an address, the daemon's process and its start identify the job on this host. A daemon is the first process above that
/// has no rank itself.
fn daemon_above() -> Option<String> {
    let mut pid = procfs::process::Process::myself().and_then(|p| p.stat()).ok()?.ppid;
    for _ in 0..ANCESTORS {
        let process = procfs::process::Process::new(pid).ok()?;
        let stat = process.stat().ok()?;
        let environment = process.environ().ok()?;
        if !LAUNCHERS.iter().any(|launcher| environment.contains_key(std::ffi::OsStr::new(launcher.rank))) {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            return Some(control_address(&arguments).unwrap_or_else(|| format!("{pid}.{}", stat.starttime)));
        }
        pid = stat.ppid;
    }
    None
}

/// The argument behind `--control-port`; `arguments` as in /proc/PID/cmdline.
fn control_address(arguments: &[u8]) -> Option<String> {
    let mut arguments = arguments.split(|byte| *byte == 0);
    arguments.find(|argument| *argument == b"--control-port")?;
    arguments.next().map(|address| String::from_utf8_lossy(address).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank_of(variables: &[(&str, &str)]) -> (Option<LaunchedRank>, Vec<String>) {
        let mut warnings = Vec::new();
        let find = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.into());
        let rank = of(&find, &mut warnings);
        (rank, warnings.into_iter().map(|w| w.text).collect())
    }

    #[test]
    fn launchers_say_rank_ranks_and_job() {
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("PMIX_NAMESPACE", "116"),
            ("PMIX_RANK", "3"),
        ];
        let rank = rank_of(&open_mpi).0.unwrap();
        assert_eq!((rank.rank, rank.ranks), (3, Some(4)));
        assert_eq!((rank.job.as_deref(), rank.starts_twice), (Some("116"), false));
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "1")];
        assert_eq!(rank_of(&slurm).0.unwrap().job.as_deref(), Some("7.1"));
        assert_eq!(rank_of(&slurm[..3]).0, None, "a batch script is no rank");
    }

    #[test]
    fn the_inner_launcher_counts() {
        let both = [("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "0"), ("PMI_RANK", "5"), ("PMI_SIZE", "8")];
        assert_eq!(rank_of(&both).0.unwrap().rank, 5);
    }

    #[test]
    fn what_is_no_rank_is_named_and_ignored() {
        for bad in ["many", "-1", "4294967295", "", "9"] {
            let (rank, warnings) = rank_of(&[("PMI_RANK", bad), ("PMI_SIZE", "4")]);
            assert_eq!(rank, None);
            assert_eq!(warnings, [format!("PMI_RANK={bad} is no rank of 4")]);
        }
        let (rank, warnings) = rank_of(&[("PMI_RANK", "x"), ("PMIX_RANK", "1")]);
        assert_eq!((rank.unwrap().rank, warnings.len()), (1, 1));
        assert_eq!(rank_of(&[]), (None, Vec::new()));
    }

    #[test]
    fn ranks_elsewhere_are_those_that_this_host_does_not_have() {
        let is_so = |name: &str, value: &str| are_elsewhere(&|asked| (asked == name).then(|| value.into()), 4);
        assert!(is_so("MPI_LOCALNRANKS", "2") && is_so("SLURM_STEP_NUM_NODES", "2"));
        assert!(
            !is_so("OMPI_COMM_WORLD_LOCAL_SIZE", "4") && !is_so("SLURM_STEP_NUM_NODES", "1") && !is_so("PATH", "3")
        );
    }

    #[test]
    fn hydra_names_its_mpiexec() {
        let arguments = b"/usr/bin/hydra_pmi_proxy\0--control-port\0mars:39483\0--rmk\0user\0";
        assert_eq!(control_address(arguments).as_deref(), Some("mars:39483"));
        assert_eq!(control_address(b"sh\0-c\0true\0"), None);
    }
}
