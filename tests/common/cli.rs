//! Running the `rprof` binary in a folder of its own.

#![allow(dead_code)] // each test uses a part

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A temporary folder in which programs lie and rprof runs.
pub struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Sandbox {
        let folder = tempfile::tempdir().unwrap();
        // Other users must be able to reach the programs in it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Sandbox { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Compiles `fixtures/cli/NAME.c`.
    pub fn fixture(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/cli/{name}.c"));
        let program = self.path().join(name);
        let status = Command::new("cc").args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(source).status();
        assert!(status.expect("cc is needed: tests/run installs it").success());
        program
    }

    /// `rprof ARGUMENTS`, to be run here; killed after two minutes. The ceilings are measured once for all tests.
    pub fn rprof<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command("timeout");
        command.args(["--foreground", "-k", "5", "120", env!("CARGO_BIN_EXE_rprof")]).args(arguments);
        command
    }

    /// `sh -c SCRIPT`, to be run here; `$RPROF` is the binary.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = self.command("timeout");
        command.args(["--foreground", "-k", "5", "120", "sh", "-c", script]);
        command
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).stdin(Stdio::null()).env("RPROF", env!("CARGO_BIN_EXE_rprof"));
        command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command
    }

    /// Runs `rprof ARGUMENTS` to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.rprof(arguments).output().unwrap()
    }

    /// The profile in `folder`.
    pub fn profile(&self, folder: &str) -> Value {
        let path = self.path().join(folder).join("profile.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).unwrap()
    }
}

impl Sandbox {
    /// `rprof report FOLDER --all` without line breaks.
    pub fn whole_report(&self, folder: &str) -> String {
        let output = self.run(["report", folder, "--all"]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The exit status; a panic that shows standard error if a signal ended rprof.
pub fn status(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{}\n{}", output.status, stderr(output)))
}

/// The function of this name in a profile.
pub fn function<'a>(profile: &'a Value, name: &str) -> &'a Value {
    let functions = profile["functions"].as_array().unwrap();
    functions.iter().find(|f| f["name"] == name).unwrap_or_else(|| {
        let names: Vec<_> = functions.iter().map(|f| f["name"].as_str().unwrap_or("?")).collect();
        panic!("no function {name} among {names:?}")
    })
}
