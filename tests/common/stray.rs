//! Finding the processes that a program has left behind, by a variable in their environment.

#![allow(dead_code)] // each test uses a part

use std::fs;
use std::time::{Duration, Instant};

/// Name of the variable.
pub const VARIABLE: &str = "RPROF_TEST_RUN";

/// A value that no other run has.
pub fn mark() -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    format!("{}-{now}", std::process::id())
}

/// Ids and command lines of all processes that have the variable with this value, zombies apart.
pub fn marked(mark: &str) -> Vec<String> {
    let wanted = format!("{VARIABLE}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|&b| b == 0).any(|v| v == wanted.as_bytes()) {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push(format!("{}: {command}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

/// Those that are still there after a while; they are killed.
pub fn strays(mark: &str) -> Vec<String> {
    let patience = Instant::now() + Duration::from_secs(20);
    while Instant::now() < patience && !marked(mark).is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = marked(mark);
    for process in &left {
        let pid = process.split(':').next().and_then(|p| p.parse().ok()).unwrap_or(0);
        if pid > 1 {
            // SAFETY: no memory is involved.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    left
}
