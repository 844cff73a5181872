//! Variables of the environment that change how a library sends.

/// How their names begin: Open MPI, UCX, libfabric, Intel MPI, MPICH (its control variables, too), PSM.
const PREFIXES: [&str; 7] = ["OMPI_MCA_", "UCX_", "FI_", "I_MPI_", "MPICH_", "MPIR_CVAR_", "PSM"];

/// Open MPI's launcher passes what identifies the job and what only starts it the same way.
const OF_THE_LAUNCH: [&str; 10] = [
    "OMPI_MCA_orte_",
    "OMPI_MCA_prte",
    "OMPI_MCA_pmix",
    "OMPI_MCA_ess",
    "OMPI_MCA_plm",
    "OMPI_MCA_oob",
    "OMPI_MCA_rmaps",
    "OMPI_MCA_shmem_RUNTIME",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_mca_base_component_show",
];
/// The host's own name.
const OWN_NAME: &str = "_INTERFACE_HOSTNAME";

/// Those of this process: (name, value), by name.
pub fn own() -> Vec<(String, String)> {
    of(std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())))
}

/// Whether a library with these settings hands its CPU on while it waits: Open MPI does if it is set to, or has too few CPUs.
pub fn yields(settings: &[(String, String)]) -> bool {
    const YIELDS: [&str; 2] = ["OMPI_MCA_mpi_yield_when_idle", "OMPI_MCA_mpi_oversubscribe"];
    settings
        .iter()
        .any(|(name, value)| YIELDS.contains(&name.as_str()) && matches!(value.as_str(), "1" | "true" | "yes"))
}

fn of(variables: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let counts = |name: &str| {
        PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            && !OF_THE_LAUNCH.iter().any(|prefix| name.starts_with(prefix))
            && !name.contains(OWN_NAME)
    };
    let mut settings: Vec<(String, String)> = variables.filter(|(name, _)| counts(name)).collect();
    settings.sort_unstable();
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_mpi_says_whether_it_yields() {
        let with = |value: &str| yields(&[("OMPI_MCA_mpi_oversubscribe".into(), value.into())]);
        assert!(with("1") && !with("0") && !yields(&[]));
    }

    #[test]
    fn what_identifies_the_job_is_no_setting() {
        let all = [
            "UCX_TLS=tcp",
            "OMPI_MCA_btl=tcp,self",
            "OMPI_MCA_orte_hnp_uri=1.0;tcp://a",
            "OMPI_MCA_ess_base_jobid=7",
            "OMPI_COMM_WORLD_RANK=0",
            "MPIR_CVAR_CH3_INTERFACE_HOSTNAME=vm",
            "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=ring",
            "HOME=/",
        ];
        let pairs = all.iter().filter_map(|pair| pair.split_once('=')).map(|(a, b)| (a.to_owned(), b.to_owned()));
        let names: Vec<String> = of(pairs).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "OMPI_MCA_btl", "UCX_TLS"]);
    }
}
