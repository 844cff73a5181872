//! Programs under the translator: output and exit status as natively.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rprof::instrument::{Counted, CountingEngine, Translator};
use rprof::target::launch::{Program, Streams, find_in_path, spawn_gated};

fn build(dir: &Path, file: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/guests/hosted").join(file);
    let program = dir.join(file).with_extension("");
    let status = Command::new(compiler).args(["-O2", "-o"]).arg(&program).arg(source).args(flags).status().unwrap();
    assert!(status.success(), "{compiler} cannot build {file}");
    program
}

fn translated(dir: &Path, argv: &[&str]) -> (Counted, Vec<u8>) {
    let out = dir.join("out");
    let streams = Streams { stdout: Some(File::create(&out).unwrap().into()), ..Streams::default() };
    let path = find_in_path(argv[0].as_ref()).unwrap();
    let program = Program { path, argv: argv.iter().map(|a| a.into()).collect() };
    let counted = Translator::new().run(spawn_gated(&program, streams).unwrap(), None).unwrap();
    (counted, std::fs::read(out).unwrap())
}

/// Runs both ways, compares, and returns the counted run.
fn same(argv: &[&str]) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let native = Command::new(argv[0]).args(&argv[1..]).output().unwrap();
    let (counted, output) = translated(dir.path(), argv);
    assert_eq!(String::from_utf8_lossy(&output), String::from_utf8_lossy(&native.stdout), "{argv:?}: output");
    let core = 0x80;
    assert_eq!(counted.status & !core, native.status.into_raw() & !core, "{argv:?}: status");
    assert!(!counted.evidence.blocks.is_empty());
    counted
}

fn guest(file: &str, flags: &[&str]) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let compiler = if file.ends_with(".cc") { "c++" } else { "cc" };
    let program = build(dir.path(), file, compiler, flags);
    same(&[program.to_str().unwrap()])
}

#[test]
fn signals() {
    guest("signals.c", &[]);
}

#[test]
fn faults() {
    guest("faults.c", &[]);
}

#[test]
fn threads() {
    assert_eq!(guest("threads.c", &["-pthread"]).evidence.threads.len(), 3 * 64 + 2);
}

#[test]
fn processes() {
    // Each of three levels makes five.
    assert_eq!(guest("processes.c", &[]).evidence.threads.len(), 1 + 3 * 5);
}

#[test]
fn exceptions() {
    guest("exceptions.cc", &[]);
}

#[test]
fn generated_code_runs_natively() {
    let counted = guest("generated.c", &[]);
    assert!(counted.evidence.uncounted_share > 0.0);
    assert!(counted.evidence.warnings.iter().any(|w| w.code == "native-code"));
}

#[test]
fn contexts() {
    guest("contexts.c", &[]);
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
