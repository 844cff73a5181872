//! Hosts and programs with other rules for executable memory.

use std::process::Output;

use crate::cli::{Sandbox, function, status, stderr, stdout};

/// A process id namespace of its own in which the kernel executes neither memfds nor files in the folders `$NOEXEC`.
const WITHOUT_MEMFDS: &str = "unshare --mount --pid --fork --mount-proc sh -c '
    echo 2 >/proc/sys/vm/memfd_noexec || exit 99
    for folder in $NOEXEC; do mount -t tmpfs -o noexec none $folder || exit 99; done
    exec $RPROF --passes counted --memory off -o $OUTPUT -- $PROGRAM'";

/// `program` counted so, with its output in `$OUTPUT`; `None` if this host allows no such namespace.
fn counted_without_memfds(sandbox: &Sandbox, noexec: &str, output: &str, program: &str) -> Option<Output> {
    let mut command = sandbox.shell(WITHOUT_MEMFDS);
    let output = command.env("NOEXEC", noexec).env("OUTPUT", output).env("PROGRAM", program).output().unwrap();
    if status(&output) == 99 || stderr(&output).starts_with("unshare:") {
        println!("SKIPPED: kernel: without executable memfds: {}", stderr(&output));
        return None;
    }
    Some(output)
}

#[test]
fn where_memfds_cannot_be_executed_code_lies_in_a_temporary_file() {
    let sandbox = Sandbox::new();
    sandbox.fixture("family");
    for (noexec, folder) in [("", "first.out"), ("/dev/shm", "second.out")] {
        let Some(output) = counted_without_memfds(&sandbox, noexec, folder, "./family") else { return };
        assert_eq!((status(&output), stdout(&output)), (7, "200000000\n".into()), "{}", stderr(&output));
        assert_eq!(function(&sandbox.profile(folder), "parent_work")["flops"]["total"], 200_000_000u64);
    }
}

#[test]
fn where_no_file_can_be_executed_it_is_said_what_forbids_that() {
    let sandbox = Sandbox::new();
    let folders = "/dev/shm /var/tmp /tmp";
    let Some(output) = counted_without_memfds(&sandbox, folders, "/tmp/rprof.out", "/bin/true") else { return };
    let told = stderr(&output);
    assert!(status(&output) == 125 && told.contains("vm.memfd_noexec"), "{}: {told}", status(&output));
}

#[test]
fn a_program_whose_data_may_all_be_executed_is_counted() {
    let sandbox = Sandbox::new();
    sandbox.fixture("family");
    let output = sandbox.shell("exec $RPROF --passes counted --memory off -- setarch -X ./family").output().unwrap();
    assert_eq!((status(&output), stdout(&output)), (7, "200000000\n".into()), "{}", stderr(&output));
    assert_eq!(function(&sandbox.profile("rprof.out"), "child_work")["flops"]["total"], 200_000_000u64);
}
