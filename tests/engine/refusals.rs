//! Programs that the translator does not follow: it says so and why, and ends them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::guests::{build, refusal};

#[test]
fn a_program_that_traces() {
    let dir = tempfile::tempdir().unwrap();
    let reason = refusal(&build(dir.path(), "traces.c", &[]));
    assert!(reason.contains("uses ptrace itself") && reason.contains("--passes timed"), "{reason}");
}

#[test]
fn far_transfers_32_bit_calls_and_loads_of_gs() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["-DFAR_RETURN", "-DCALL_32", "-DLOAD_GS"] {
        let reason = refusal(&build(dir.path(), "far.c", &[kind]));
        assert!(reason.contains("far transfer, `int 0x80` or other 32-bit code, or a load"), "{kind}: {reason}");
    }
}

#[test]
fn a_program_that_sets_the_trap_flag() {
    let dir = tempfile::tempdir().unwrap();
    let reason = refusal(&build(dir.path(), "trap_flag.c", &[]));
    assert!(reason.contains("sets the trap flag"), "{reason}");
}

#[test]
fn a_program_that_executes_another_under_a_filter_that_forbids_what_rprof_needs() {
    let dir = tempfile::tempdir().unwrap();
    let reason = refusal(&build(dir.path(), "sandboxed.c", &["-DEXECUTE", "-DIN_CHILD=0"]));
    assert!(reason.contains("a seccomp filter forbids memfd_create"), "{reason}");
}

#[test]
fn a_32_bit_program_is_executed() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = program_32(dir.path()) else {
        println!("SKIPPED: packages: a 32-bit program (binutils here cannot make one)");
        return;
    };
    let reason = refusal(&program);
    assert!(reason.contains("32-bit program"), "{reason}");
}

/// A 32-bit program: `_exit(0)`.
fn program_32(dir: &Path) -> Option<PathBuf> {
    let (source, object, program) = (dir.join("exit.s"), dir.join("exit.o"), dir.join("exit32"));
    std::fs::write(&source, ".globl _start\n_start: mov $1, %eax\n xor %ebx, %ebx\n int $0x80\n").unwrap();
    let assembled = Command::new("as").arg("--32").arg("-o").arg(&object).arg(&source).status().ok()?;
    let linked = Command::new("ld").args(["-m", "elf_i386", "-o"]).arg(&program).arg(&object).status().ok()?;
    (assembled.success() && linked.success() && Command::new(&program).status().is_ok_and(|s| s.success()))
        .then_some(program)
}
