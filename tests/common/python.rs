//! A Python with what `tests/python-packages` lists.

#![allow(dead_code)] // each test uses a part

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::shared::turn;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The interpreter in a virtual environment, which is made if there is none; `None` where packages cannot be had.
pub fn python() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let _turn = turn("python");
    let made = Command::new(root().join("tests/venv")).arg(&folder).output().unwrap();
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr).into_owned();
        println!("SKIPPED: pypi: {}", why.lines().last().unwrap_or("no virtual environment"));
        return None;
    }
    Some(folder.join("bin/python"))
}

/// Runs `tests/python/NAME` with the module of `python/`, in `folder`; panics with what it says if it fails. `false` where there is no Python.
pub fn run(name: &str, folder: &Path) -> bool {
    let Some(python) = python() else { return false };
    let output = script(&python, name, folder);
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{told}", output.status);
    true
}

fn script(python: &Path, name: &str, folder: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "300"]).arg(python).arg(root().join("tests/python").join(name));
    let binary = Path::new(env!("CARGO_BIN_EXE_rprof"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", binary.parent().unwrap().display()));
    command.env("RPROF", binary).env("PYTHONPATH", root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    command.env("FIXTURES", root().join("fixtures")).current_dir(folder).output().unwrap()
}
