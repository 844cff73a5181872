//! Prints the clock of this host's cores now, in GHz: `cargo run --release --example tools -- clock`.
//!
//! The highest of a few looks at each CPU: another task may interrupt one. `0` if the clock cannot be measured.

use std::time::Duration;

use rprof::machine::watch::{Watch, Watched};

/// Time for some three looks.
const LOOKING: Duration = Duration::from_millis(170);

pub fn main() {
    let seen = Watch::start(Watched { clock: true, placement: true }).map(|watch| {
        std::thread::sleep(LOOKING);
        watch.finish()
    });
    let clocks = seen.unwrap_or_default().clocks;
    println!("{:.3}", clocks.iter().map(|look| look.hz).fold(0.0, f64::max) / 1e9);
}
