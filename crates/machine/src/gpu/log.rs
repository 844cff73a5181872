//! A line on standard error for each step, if `RPROF_LOG` is set: GPUs are rare, and their failures must be visible.

use std::io::Write;

use crate::loader::is_logged;

/// One line.
pub fn line(text: impl FnOnce() -> String) {
    if is_logged() {
        // Standard error may be gone.
        let _ = writeln!(std::io::stderr(), "gpu: {}", text());
    }
}
