//! Notices and progress on standard error; nothing with `--quiet`, no animation if it is not a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Informs the user about progress.
#[derive(Debug, Clone)]
pub struct Notices {
    quiet: bool,
}

impl Notices {
    /// `quiet` prints nothing.
    pub fn new(quiet: bool) -> Notices {
        Notices { quiet }
    }

    /// One line.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            // A failed notice does not stop the run.
            let _ = writeln!(stderr(), "rprof: {text}");
        }
    }

    /// A spinner for work that takes a while; it vanishes when dropped.
    pub fn spinner(&self, text: &str) -> Spinner {
        if self.quiet || !stderr().is_terminal() {
            return Spinner(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("rprof: {spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_message(text.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Spinner(Some(bar))
    }
}

/// `5` for 0.05.
pub fn in_percent(share: f64) -> f64 {
    (1000.0 * share).round() / 10.0
}

/// A running spinner.
#[derive(Debug)]
pub struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Changes its text.
    pub fn set(&self, text: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(text.to_owned());
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}
