//! Guest programs of `fixtures/guests/hosted/`: built, run natively and translated, compared.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rprof::instrument::{CountError, Counted, CountingEngine, Translator};
use rprof::profile::evidence::memory::AccessSink;
use rprof::tracee::launch::{Program, Streams, find_in_path, spawn_gated};

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

/// Output of a run.
#[derive(Debug, PartialEq)]
pub struct Said {
    pub output: String,
    pub errors: String,
}

/// The counted run of `argv`, and its output.
pub fn translated(dir: &Path, argv: &[&str]) -> (Result<Counted, CountError>, Said) {
    counted_by(&mut Translator::new(), None, dir, argv)
}

/// The same by this engine; `sink` gets its accesses.
pub fn counted_by(
    engine: &mut dyn CountingEngine,
    sink: Option<Box<dyn AccessSink>>,
    dir: &Path,
    argv: &[&str],
) -> (Result<Counted, CountError>, Said) {
    let (out, err) = (dir.join("out"), dir.join("err"));
    let file = |path| Some(File::create(path).unwrap().into());
    let streams = Streams { stdout: file(&out), stderr: file(&err), ..Streams::default() };
    let path = find_in_path(argv[0].as_ref()).unwrap();
    let program = Program { path, argv: argv.iter().map(|a| a.into()).collect() };
    let counted = engine.run(spawn_gated(&program, streams).unwrap(), sink, None);
    let read = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    (counted, Said { output: read(&out), errors: read(&err) })
}

/// Runs natively and counted, compares the output and the status, and returns the counted run, which has no warnings. It prints the
/// parts that a guest says it skips.
pub fn same(argv: &[&str]) -> Counted {
    same_told(argv, &[])
}

/// As [`same`], if the engine has these warnings and no others. Only the code that they name may have run natively.
pub fn same_told(argv: &[&str], codes: &[&str]) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let native = Command::new(argv[0]).args(&argv[1..]).output().unwrap();
    let (counted, said) = translated(dir.path(), argv);
    let counted = counted.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let expected = Said { output: text(&native.stdout), errors: text(&native.stderr) };
    assert_eq!(said, expected, "{argv:?}: what it wrote");
    said.output.lines().filter(|l| l.starts_with("SKIPPED")).for_each(|l| println!("{l}"));
    assert_eq!(counted.status & !CORE, native.status.into_raw() & !CORE, "{argv:?}: status");
    let evidence = &counted.evidence;
    assert!(!evidence.blocks.is_empty());
    let told: BTreeSet<&str> = evidence.warnings.iter().map(|w| w.code.as_str()).collect();
    assert_eq!(told, codes.iter().copied().collect(), "{argv:?}: {:?}", evidence.warnings);
    if !codes.iter().any(|&code| code == "native-code" || code == "released") {
        assert_eq!(evidence.uncounted_share, 0.0, "{argv:?}: what ran natively is not told");
    }
    counted
}

/// As [`same`], for a guest; nothing of it may be left running.
pub fn guest(file: &str, flags: &[&str]) -> Counted {
    guest_told(file, flags, &[])
}

/// As [`same_told`], for a guest; nothing of it may be left running.
pub fn guest_told(file: &str, flags: &[&str], codes: &[&str]) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), file, flags);
    let counted = same_told(&[program.to_str().unwrap()], codes);
    nothing_runs(&program);
    counted
}

/// Why the engine does not follow a guest; nothing of it may be left running.
pub fn refusal(program: &Path) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (counted, _) = translated(dir.path(), &[program.to_str().unwrap()]);
    let error = counted.expect_err("the engine follows it");
    nothing_runs(program);
    // The message that a user gets.
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
