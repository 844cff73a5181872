//! Threads that the kernel makes for a program (io_uring) are no threads of the program.

use crate::cli::{Sandbox, function, status, stderr, stdout};

#[test]
fn workers_of_io_uring() {
    let sandbox = Sandbox::new();
    let program = sandbox.fixture("ring_worker");
    let output = sandbox.run(["--memory", "off", "--passes", "both", "--", program.to_str().unwrap()]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    if stdout(&output).contains("no io_uring") {
        println!("SKIPPED: kernel: io_uring");
        return;
    }
    assert!(stdout(&output).starts_with("400 reads, "), "{}", stdout(&output));
    let profile = sandbox.profile("rprof.out");
    let threads = profile["run"]["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 1, "{threads:#?}");
    assert!(!stderr(&output).contains("OMP_NUM_THREADS"), "{}", stderr(&output));
    assert_eq!(function(&profile, "work")["flops"]["total"], 200_000_000u64);
}
