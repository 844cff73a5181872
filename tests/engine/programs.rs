//! Programs under the translator: output and exit status as natively.

use rprof::tracee::affinity::{Kept, cpus_of};

use crate::guests::{guest, guest_told, same};

#[test]
fn threads() {
    assert_eq!(guest("threads.c", &["-pthread"]).evidence.threads.len(), 3 * 64 + 2);
}

#[test]
fn processes() {
    // Each of three levels makes five.
    assert_eq!(guest("processes.c", &[]).evidence.threads.len(), 1 + 3 * 5);
}

/// As launchers of MPI programs bind them. rprof and the programs use the same CPU, so that each waits for the other to stop.
#[test]
fn on_a_single_cpu() {
    let _kept = Kept::on(&cpus_of(nix::unistd::gettid())[..1]).unwrap();
    assert_eq!(guest("processes.c", &[]).evidence.threads.len(), 1 + 3 * 5);
    assert_eq!(guest("threads.c", &["-pthread"]).evidence.threads.len(), 3 * 64 + 2);
}

#[test]
fn exceptions() {
    guest("exceptions.cc", &[]);
}

#[test]
fn generated_code_runs_natively() {
    let counted = guest_told("generated.c", &[], &["native-code"]);
    assert!(counted.evidence.uncounted_share > 0.0);
}

#[test]
fn static_and_fixed_addresses() {
    guest("exceptions.cc", &["-static"]);
    guest("contexts.c", &["-no-pie"]);
}

#[test]
fn a_pipeline() {
    same(&["bash", "-c", "for i in 1 2 3; do echo $i; done | sort -r | (read x; echo $x; exit 3)"]);
}

#[test]
fn a_compressor() {
    same(&["gzip", "-c", "/bin/bash"]);
}
