//! The cause that forbids an event: the kernel's setting, missing capabilities, or a filter of system calls.

use std::fs;
use std::path::Path;

use super::Finding;
use crate::refusal::{CONTAINER, Refusal};
use crate::setcap_hint;

/// `CAP_SYS_ADMIN` and `CAP_PERFMON`, either of which overrides `perf_event_paranoid`.
const CAPABILITIES: u64 = 1 << 21 | 1 << 38;
/// The `uid_map` of a process of the first user namespace: capabilities in any other namespace have no effect here.
const FIRST_NAMESPACE: [&str; 3] = ["0", "0", "4294967295"];

/// This process's rights by the kernel's own rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights {
    /// `kernel.perf_event_paranoid`; `None` if it cannot be read.
    paranoid: Option<i32>,
    /// It has one of [`CAPABILITIES`].
    capable: bool,
    /// A seccomp filter looks at its system calls.
    filtered: bool,
}

impl Rights {
    /// Of this process, below the root of proc.
    pub fn of_process(proc_root: &Path) -> Rights {
        let read = |path: &str| fs::read_to_string(proc_root.join(path)).unwrap_or_default();
        let status = read("self/status");
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        let capabilities = field("CapEff:").and_then(|t| u64::from_str_radix(t, 16).ok()).unwrap_or(0);
        let first_namespace = read("self/uid_map").split_whitespace().eq(FIRST_NAMESPACE);
        Rights {
            paranoid: read("sys/kernel/perf_event_paranoid").trim().parse().ok(),
            capable: first_namespace && capabilities & CAPABILITIES != 0,
            filtered: field("Seccomp:") == Some("2"),
        }
    }

    /// Puts the command that helps into a finding that the kernel forbade.
    pub fn advise(self, finding: &mut Finding) {
        if !finding.works && finding.answer.ends_with(&Refusal::Forbidden.to_string()) {
            finding.enable = self.enable(greatest_paranoid(&finding.id));
        }
    }

    fn enable(self, paranoid: i32) -> String {
        let allowed = self.capable || self.paranoid.is_some_and(|p| p <= paranoid);
        match (allowed, self.filtered) {
            (true, true) => {
                format!("a seccomp filter refuses this; in a container: {CONTAINER}")
            }
            (true, false) => {
                "a security module refuses what perf_event_paranoid would allow: sudo dmesg | grep -i denied \
                              names it"
                    .into()
            }
            (false, filtered) => {
                let container = if filtered { format!("; in a container: {CONTAINER}") } else { String::new() };
                format!(
                    "sudo sysctl kernel.perf_event_paranoid={paranoid}, or give rprof CAP_PERFMON: {}{container}",
                    setcap_hint::setcap("cap_perfmon")
                )
            }
        }
    }
}

/// The greatest `kernel.perf_event_paranoid` at which a user without capabilities may do the tried operation.
fn greatest_paranoid(id: &str) -> i32 {
    match id.split('.').next() {
        Some("dram") => 0,
        Some("kernel") => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc_root(paranoid: &str, status: &str, uid_map: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("self")).unwrap();
        fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
        fs::write(root.path().join("sys/kernel/perf_event_paranoid"), paranoid).unwrap();
        fs::write(root.path().join("self/status"), status).unwrap();
        fs::write(root.path().join("self/uid_map"), uid_map).unwrap();
        root
    }

    fn advice(rights: Rights, id: &str) -> String {
        let mut finding = Finding {
            id: id.into(),
            what: String::new(),
            works: false,
            answer: Refusal::Forbidden.to_string(),
            enable: String::new(),
            gain: "",
            instead: "",
        };
        rights.advise(&mut finding);
        finding.enable
    }

    #[test]
    fn a_user_is_told_the_setting_that_suffices() {
        let root = proc_root("2\n", "CapEff:\t0000000000000000\nSeccomp:\t0\n", "         0          0 4294967295\n");
        let user = Rights::of_process(root.path());
        assert_eq!(user, Rights { paranoid: Some(2), capable: false, filtered: false });
        assert!(advice(user, "kernel").starts_with("sudo sysctl kernel.perf_event_paranoid=1,"));
        assert!(advice(user, "dram").starts_with("sudo sysctl kernel.perf_event_paranoid=0,"));
        assert!(!advice(user, "dram").contains("container"));
        let debian = Rights { paranoid: Some(3), ..user };
        assert!(advice(debian, "flops.cpu_core").starts_with("sudo sysctl kernel.perf_event_paranoid=2,"));
    }

    #[test]
    fn a_filter_is_not_taken_for_the_setting() {
        let root = proc_root("2\n", "CapEff:\t000001ffffffffff\nSeccomp:\t2\n", "0 0 4294967295\n");
        let filtered = Rights::of_process(root.path());
        assert!(advice(filtered, "dram").starts_with("a seccomp filter refuses"));
        assert!(!advice(filtered, "dram").contains("sysctl"), "root need not change it");
        let nobody = Rights { capable: false, ..filtered };
        assert!(advice(nobody, "timed").starts_with("a seccomp filter refuses"), "2 is enough for one's own threads");
        assert!(advice(nobody, "dram").contains("paranoid=0") && advice(nobody, "dram").contains("--cap-add"));
        let module = Rights { filtered: false, ..filtered };
        assert!(advice(module, "timed").starts_with("a security module refuses"));
    }

    #[test]
    fn containers_are_told_the_same_whatever_the_filter_answers() {
        let filtered = Rights { paranoid: Some(2), capable: true, filtered: true };
        let advices = [
            advice(filtered, "timed"),
            advice(Rights { capable: false, ..filtered }, "dram"),
            Refusal::NoSystemCall.hint(),
        ];
        assert!(advices.iter().all(|a| a.ends_with(&format!("; in a container: {CONTAINER}"))), "{advices:?}");
        assert!(Refusal::Forbidden.hint().ends_with(CONTAINER));
    }

    #[test]
    fn capabilities_of_another_namespace_are_none() {
        let root = proc_root("2\n", "CapEff:\t000001ffffffffff\nSeccomp:\t0\n", "0 1000 1\n");
        assert!(advice(Rights::of_process(root.path()), "dram").contains("perf_event_paranoid=0"));
        let unknown = Rights::of_process(Path::new("/nonexistent"));
        assert!(advice(unknown, "timed").contains("perf_event_paranoid=2"));
    }
}
