//! Runs a program natively and under the counted pass and compares all that it leaves behind.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use serde_json::Value;

/// A program as a user would start it. The scripts are for `bash`; `$FIXTURES` is the folder of the sources.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Named in messages.
    pub name: &'static str,
    /// Succeeds if the program can run.
    pub needs: &'static str,
    /// Makes the input of both runs, in the parent (`..`) of the folders that they run in.
    pub prepare: &'static str,
    /// The command to run; starts with the program's name.
    pub command: &'static str,
    /// Seconds after which a run is given up.
    pub patience_s: u32,
}

/// Result of the counted run, after it agreed with the native one.
#[derive(Debug)]
pub struct Compared {
    /// The profile that was written.
    pub profile: Value,
}

impl Compared {
    /// Share of the run's CPU time in code that was not counted.
    pub fn uncounted_share(&self) -> f64 {
        self.profile["run"]["passes"][0]["uncounted_share"].as_f64().unwrap()
    }

    /// Warnings of the profile that something was not counted, or did not come to its end.
    pub fn in_part(&self) -> Vec<&str> {
        let warnings = self.profile["run"]["warnings"].as_array().unwrap();
        warnings.iter().filter_map(|w| w["code"].as_str()).filter(|code| IN_PART.contains(code)).collect()
    }

    /// Instructions counted over all functions.
    pub fn instructions(&self) -> u64 {
        let functions = self.profile["functions"].as_array().unwrap();
        functions.iter().filter_map(|f| f["instructions"].as_u64()).sum()
    }
}

/// Warnings of a counted pass in which something was not counted, or did not come to its end.
const IN_PART: [&str; 6] =
    ["native-code", "released", "child-not-counted", "code-not-counted", "crashed", "signal-action-lost"];

/// Standard output, exit status, and the files that a run left in its folder.
#[derive(PartialEq)]
struct Left {
    /// As a shell states it: 128 + N if a signal ended it.
    status: Option<i32>,
    output: Vec<u8>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// A folder with the program's input, and one for each of its runs.
pub struct Workplace {
    folder: tempfile::TempDir,
    program: Program,
}

impl Workplace {
    /// Prepares; `None`, and a line that says so, if the program cannot run here.
    pub fn prepare(program: Program) -> Option<Workplace> {
        let place = Workplace { folder: tempfile::tempdir().unwrap(), program };
        if !place.shell(program.needs, place.folder.path()).status.success() {
            println!("SKIPPED: packages: {}: not installed or not possible here ({})", program.name, program.needs);
            return None;
        }
        let prepared = place.shell(&format!("set -e -o pipefail\n{}", program.prepare), place.folder.path());
        assert!(prepared.status.success(), "{}: {}", program.name, String::from_utf8_lossy(&prepared.stderr));
        Some(place)
    }

    /// Runs `command` in a folder of its own: (its results, its messages, seconds).
    fn run(&self, kind: &str, command: &str) -> (Left, String, f64) {
        let folder = self.folder.path().join(kind);
        fs::create_dir(&folder).unwrap();
        let start = Instant::now();
        let output = self.shell(command, &folder);
        let seconds = start.elapsed().as_secs_f64();
        let mut files = BTreeMap::new();
        collect(&folder, &folder, &mut files);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let status = output.status.code().or(output.status.signal().map(|s| 128 + s));
        (Left { status, output: output.stdout, files }, said, seconds)
    }

    /// A script with the time limit, output kept.
    fn shell(&self, script: &str, folder: &Path) -> Output {
        let patience = self.program.patience_s.to_string();
        Command::new("timeout")
            .args(["-k", "5", &patience, "bash", "-c", script])
            .current_dir(folder)
            .stdin(Stdio::null())
            .env("LC_ALL", "C")
            .env("OMP_NUM_THREADS", "2")
            .env("OPENBLAS_NUM_THREADS", "2")
            .env("FIXTURES", Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs"))
            .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
            .output()
            .unwrap()
    }

    /// The command line that counts; it goes before the program's name.
    pub fn counting(&self) -> String {
        let report = self.folder.path().join("report");
        let rprof = env!("CARGO_BIN_EXE_rprof");
        format!("{rprof} --quiet --passes counted --memory off -o {} --", report.display())
    }

    /// A profile in the output folder.
    pub fn profile(&self, name: &str) -> Value {
        let path = self.folder.path().join("report").join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).unwrap()
    }

    /// Runs `native` and `counted`; fails if they leave anything different. Standard error is compared if `heard`.
    pub fn compare(&self, native: &str, counted: &str, heard: bool) {
        let name = self.program.name;
        let (expected, complaints, native_s) = self.run("native", native);
        let (found, said, counted_s) = self.run("counted", counted);
        assert_eq!(found.status, expected.status, "{name}: {said}");
        if heard {
            // Only the report follows the program's own messages.
            let report = said.strip_prefix(&complaints).unwrap_or_default();
            assert!(report.starts_with("rprof: "), "{name}: standard error: found {said:?}, expected {complaints:?}");
        }
        let differ = first_difference(&found.output, &expected.output);
        assert!(differ.is_none(), "{name}: output differs: {}\n{said}", differ.unwrap_or_default());
        let names = |left: &Left| left.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected), "{name}: files");
        for (file, content) in &expected.files {
            let differ = first_difference(&found.files[file], content);
            assert!(differ.is_none(), "{name}: {} differs: {}", file.display(), differ.unwrap_or_default());
        }
        println!("{name}: native {native_s:.2} s, counted {counted_s:.2} s with rprof's start and report");
    }
}

/// Both runs of a program, the comparison, and that all of it was counted; `None` if it cannot run here.
pub fn same(program: Program) -> Option<Compared> {
    let compared = same_in_part(program)?;
    assert_eq!(compared.in_part(), [""; 0], "{}: {:?}", program.name, compared.profile["run"]["warnings"]);
    assert_eq!(compared.uncounted_share(), 0.0, "{}", program.name);
    Some(compared)
}

/// As [`same`], for a program that need not be counted as a whole.
pub fn same_in_part(program: Program) -> Option<Compared> {
    let place = Workplace::prepare(program)?;
    let counted = format!("exec {} {}", place.counting(), program.command);
    place.compare(&format!("exec {}", program.command), &counted, true);
    let compared = Compared { profile: place.profile("profile.json") };
    let pass = &compared.profile["run"]["passes"][0];
    assert_eq!((&pass["kind"], &pass["source"]), (&"counted".into(), &"translator".into()), "{}", program.name);
    assert!(compared.instructions() > 0, "{}: nothing was counted", program.name);
    println!(
        "{}: {} instructions counted, {:.4} of the time not counted",
        program.name,
        compared.instructions(),
        compared.uncounted_share()
    );
    Some(compared)
}

/// Files below `folder` by their path in it.
fn collect(base: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(base, &path, files);
        } else {
            files.insert(path.strip_prefix(base).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
}

/// The first difference between two byte strings, in words.
fn first_difference(found: &[u8], expected: &[u8]) -> Option<String> {
    if found == expected {
        return None;
    }
    let at = found.iter().zip(expected).take_while(|(f, e)| f == e).count();
    let show =
        |bytes: &[u8]| String::from_utf8_lossy(&bytes[at.min(bytes.len())..bytes.len().min(at + 200)]).into_owned();
    Some(format!(
        "{} and {} bytes, the first difference at byte {at}: found {:?}, expected {:?}",
        found.len(),
        expected.len(),
        show(found),
        show(expected)
    ))
}
