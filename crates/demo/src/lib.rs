//! Kernels with known bounds, built into the binary.
//!
//! ```text
//!  rprof demo ─▶ Schedule::for_demo ── NAME=PASSES … ─▶ rprof __demo (profiled twice) ─▶ run_kernels
//!                expected(&Machine) ── function ▶ class ─▶ printed beside what the profile says
//! ```
//!
//! Each kernel is an exact instruction sequence in a function of its own (`kernels/*.s`), sized from this host's caches, that
//! runs against one known ceiling. It reports nothing about the instructions that it executes: the two passes must find that
//! out.

mod arguments;
mod error;
mod expected;
mod host;
mod kernels;
mod meeting;
mod memory;
mod schedule;
mod team;
mod variant;

use std::io::{self, Write};

pub use error::DemoError;
pub use expected::expected;
pub use schedule::Schedule;

use arguments::Request;
use host::Host;
use kernels::KERNELS;
use team::Runnable;
use variant::Variant;

/// Seconds that each kernel of the demo runs for, natively: as many as the simulated memory traffic of the counted pass (some
/// 10⁹ accesses) allows within the demo's minute.
pub const SECONDS_PER_KERNEL: f64 = 0.25;

/// `rprof __demo ARGUMENTS`: runs kernels and prints a checksum on standard output.
///
/// # Errors
/// Arguments that cannot be read, a kernel that this host cannot run, memory or threads refused.
pub fn run_kernels(arguments: &[String]) -> Result<(), DemoError> {
    let request = Request::parse(arguments)?;
    if request.list {
        let names = KERNELS.iter().map(|k| format!("{}\n", k.name)).collect::<String>();
        return io::stdout().write_all(names.as_bytes()).map_err(DemoError::Output);
    }
    // An instruction set that the CPU lacks falls back to the widest that it has.
    let widest = Variant::detect();
    let variant = request.isa.map_or(widest, |isa| isa.min(widest));
    let seconds = request.seconds.unwrap_or(SECONDS_PER_KERNEL);
    let runs = if request.runs.is_empty() {
        Schedule::for_demo(seconds)?.entries.into_iter().map(|(k, n)| (k, Some(n))).collect()
    } else {
        request.runs
    };
    let host = Host::read()?;
    let mut checksum = 0u64;
    for (kernel, passes) in runs {
        let runnable = Runnable::new(kernel, &host, variant)?;
        let passes = match passes {
            Some(passes) => passes,
            None => schedule::passes_for(&runnable, seconds)?,
        };
        let outcome = runnable.run(passes)?;
        checksum = checksum.rotate_left(1) ^ outcome.checksum;
        if request.timing {
            let (symbol, elapsed) = (runnable.code.symbol, outcome.elapsed.as_secs_f64());
            writeln!(io::stderr(), "{symbol} {passes} {elapsed:.6}").map_err(DemoError::Output)?;
        }
    }
    writeln!(io::stdout(), "checksum of the kernels' results: {checksum:016x}").map_err(DemoError::Output)
}
