//! Guest programs of `fixtures/guests/hosted/`: built, run natively and translated, compared.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rprof::instrument::{CountError, Counted, CountingEngine, Translator};
use rprof::target::launch::{Program, Streams, find_in_path, spawn_gated};

/// Set in a wait status if there was a core dump, which limits of the host decide.
const CORE: i32 = 0x80;

/// Builds `file` into `dir` with `flags`.
pub fn build(dir: &Path, file: &str, flags: &[&str]) -> PathBuf {
    let compiler = if file.ends_with(".cc") { "c++" } else { "cc" };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/guests/hosted").join(file);
    let program = dir.join(file).with_extension("");
    let status =
        Command::new(compiler).args(["-O2", "-w", "-o"]).arg(&program).arg(source).args(flags).status().unwrap();
    assert!(status.success(), "{compiler} cannot build {file}");
    program
}

/// The counted run of `argv`, and its standard output.
pub fn translated(dir: &Path, argv: &[&str]) -> (Result<Counted, CountError>, Vec<u8>) {
    let out = dir.join("out");
    let streams = Streams { stdout: Some(File::create(&out).unwrap().into()), ..Streams::default() };
    let path = find_in_path(argv[0].as_ref()).unwrap();
    let program = Program { path, argv: argv.iter().map(|a| a.into()).collect() };
    let counted = Translator::new().run(spawn_gated(&program, streams).unwrap(), None);
    (counted, std::fs::read(out).unwrap())
}

/// Runs both ways, compares output and status, and returns the counted run.
pub fn same(argv: &[&str]) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let native = Command::new(argv[0]).args(&argv[1..]).output().unwrap();
    let (counted, output) = translated(dir.path(), argv);
    let counted = counted.unwrap();
    assert_eq!(String::from_utf8_lossy(&output), String::from_utf8_lossy(&native.stdout), "{argv:?}: output");
    assert_eq!(counted.status & !CORE, native.status.into_raw() & !CORE, "{argv:?}: status");
    assert!(!counted.evidence.blocks.is_empty());
    counted
}

/// As [`same`], for a guest; nothing of it may be left running.
pub fn guest(file: &str, flags: &[&str]) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), file, flags);
    let counted = same(&[program.to_str().unwrap()]);
    nothing_runs(&program);
    counted
}

/// Why the engine does not follow a guest; nothing of it may be left running.
pub fn refusal(program: &Path) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (counted, _) = translated(dir.path(), &[program.to_str().unwrap()]);
    let error = counted.expect_err("the engine follows it");
    nothing_runs(program);
    // As a user is told.
    format!("{error}; {}", error.hint())
}

/// Waits until no process executes `program` any more.
pub fn nothing_runs(program: &Path) {
    let since = Instant::now();
    loop {
        let left = processes_of(program);
        if left.is_empty() {
            return;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{} is left running: {left:?}", program.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn processes_of(program: &Path) -> Vec<String> {
    let ids = std::fs::read_dir("/proc").unwrap().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    ids.filter(|id| std::fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|exe| exe == program)).collect()
}
