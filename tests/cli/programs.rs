//! Real programs by both passes, with the memory model; and code that no pass can count.

use std::path::Path;
use std::process::Command;

use crate::cli::{Sandbox, function, status, stderr, stdout};

#[test]
fn gzip_writes_the_same_bytes_and_its_report_comes() {
    let sandbox = Sandbox::new();
    let numbers: String =
        (0..600_000u64).map(|i| format!("{}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)).collect();
    sandbox.file("numbers", &numbers, 0o644);
    let native = Command::new("gzip").args(["-c", "numbers"]).current_dir(sandbox.path()).output().unwrap();
    assert!(native.status.success() && native.stdout.len() > 1 << 20, "{} bytes", native.stdout.len());
    let output = sandbox.run(["--passes", "both", "--", "gzip", "-c", "numbers"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(output.stdout == native.stdout, "{} bytes, natively {}", output.stdout.len(), native.stdout.len());
    let profile = sandbox.profile("rprof.out");
    let hottest = &profile["functions"][0];
    assert_eq!(hottest["module"], "gzip", "{}", stderr(&output));
    for figure in [&hottest["time_s"], &hottest["instructions"], &hottest["int_ops"], &hottest["bytes"]["l1"]] {
        assert!(figure.as_f64().is_some_and(|v| v > 0.0), "{hottest:#}");
    }
    // Debian's gzip is stripped: the report says so in words that do not sound like a failure.
    if hottest["name"].as_str().unwrap().starts_with("gzip+0x") {
        let report = sandbox.whole_report("rprof.out");
        assert!(report.contains("in code without symbols"), "{report}");
    }
}

#[test]
fn a_fortran_program_with_two_threads_has_its_flops_and_its_names() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cli/columns.f90");
    let mut compiler = Command::new("gfortran");
    compiler.args(["-O2", "-fno-inline", "-g", "-fopenmp", "-o", "columns"]).arg(source).current_dir(sandbox.path());
    assert!(compiler.status().expect("gfortran is needed: tests/run installs it").success());
    let output = sandbox.run(["--passes", "both", "--", "./columns"]);
    assert_eq!((status(&output), stdout(&output).trim()), (0, "200000000.0"), "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let add = function(&profile, "columns::add_multiple");
    assert_eq!(add["flops"]["total"], 800_000_000u64, "{add:#}");
    assert_eq!((&add["flops"]["dp"], &add["team"]), (&800_000_000u64.into(), &2.into()));
    assert!(add["file"].as_str().unwrap().ends_with("columns.f90"), "{}", add["file"]);
    assert!(add["time_s"].as_f64().unwrap() > 0.0 && add["bytes"]["dram"].is_number());
}

/// Code of a file that is no ELF image, in a private mapping that stays writable: as SBCL has its.
const WRITABLE: &str = "#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    /* pxor xmm0,xmm0; mov ecx,20000000; addsd xmm0,xmm1; dec ecx; jne; ret */
    static unsigned char code[4096] = {0x66, 0x0f, 0xef, 0xc0, 0xb9, 0,    0x2d, 0x31, 0x01,
                                       0xf2, 0x0f, 0x58, 0xc1, 0xff, 0xc9, 0x75, 0xf8, 0xc3};
    int file = open(\"core.img\", O_RDWR | O_CREAT | O_TRUNC, 0755);
    if (write(file, code, sizeof code) != sizeof code)
        return 1;
    unsigned char *core = mmap(NULL, sizeof code, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, file, 0);
    double sum = 0;
    for (int i = 0; i < 80; i++) {
        ((volatile unsigned char *)core)[100] = i;
        sum += ((double (*)(double, double))core)(0, 1);
    }
    printf(\"%.1f\\n\", sum);
}
";

#[test]
fn code_that_ran_natively_has_no_counts_and_the_true_reason() {
    let sandbox = Sandbox::new();
    sandbox.file("writable.c", WRITABLE, 0o644);
    assert!(sandbox.shell("cc -O2 -o writable writable.c").status().unwrap().success());
    for passes in [&["--passes", "both"][..], &["--once"]] {
        let output = sandbox.run(["--memory", "off"].iter().chain(passes).chain(&["--", "./writable"]));
        let told = stderr(&output);
        assert_eq!((status(&output), stdout(&output)), (0, "1600000000.0\n".to_owned()), "{told}");
        let profile = sandbox.profile("rprof.out");
        let core = function(&profile, "core.img+0x0");
        assert!(core["flops"].is_null() && core["share"].as_f64().unwrap() > 0.9, "{core:#}");
        let reason = core["source"]["flops"]["reason"].as_str().unwrap();
        let right =
            if passes == ["--once"] { "can be written, which they leave alone" } else { "ran such code natively" };
        assert!(reason.contains(right), "{reason}");
        assert!(!told.contains("the two runs differ"), "{told}");
    }
}
