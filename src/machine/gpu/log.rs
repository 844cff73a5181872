//! A line on standard error for each step, where `RPROF_LOG` is set: GPUs are rare, and their failures must be visible.

use std::io::Write;

/// Whether it is asked for.
pub fn is_on() -> bool {
    std::env::var_os("RPROF_LOG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// One line.
pub fn line(text: impl FnOnce() -> String) {
    if is_on() {
        // Standard error may be gone.
        let _ = writeln!(std::io::stderr(), "gpu: {}", text());
    }
}
