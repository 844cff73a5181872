//! What tests share although each is a process of its own: turns, and folders that one of them fills.

#![allow(dead_code)] // each test uses a part

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// Waits for the turn called `name`, which lasts until this is dropped.
pub fn turn(name: &str) -> Flock<File> {
    let file = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.lock"))).unwrap();
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error).unwrap()
}

/// The folder `name`, which the first test of a run that asks for it fills by `fill`.
pub fn filled_once(name: &str, fill: impl FnOnce(&Path)) -> PathBuf {
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared").join(run).join(name);
    let full = folder.with_extension("full");
    let _turn = turn(name);
    if !full.exists() {
        // What a test that failed has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fill(&folder);
        File::create(full).unwrap();
    }
    folder
}
