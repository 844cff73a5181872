//! rprof: a runtime-oriented roofline profiler.
//!
//! `rprof -- ./app args` runs an unmodified program and says, for each hot function and loop, which ceiling of this
//! machine holds it down, how close it is to that ceiling, and what removing the ceiling would save.
//!
//! **It measures** the ceilings of the machine it runs on ([`machine`]), where the program's time goes
//! ([`sample`]), what it executed ([`instrument`]), and the bytes that crossed each cache level ([`memory`]). A model of the
//! core ([`replay`]) estimates from short traces what each function's cycles were spent on. The model ([`roofline`]) is the one that Williams, Waterman and Patterson proposed in Appendix A of their 2008 report.
//!
//! **What the user provides.** A program for x86-64 Linux that runs for a second or more, or that may be run twice with the same
//! input. Nothing needs to be recompiled; symbols and debug information make names better.
//!
//! **What it is unsuitable for.** Programs that use ptrace themselves, setuid programs, 32-bit code: those get the timed
//! pass alone.
//!
//! The folders and the way the data flows between them are drawn in `ARCHITECTURE.md`; a test compares that page with
//! the `use crate::` edges of this source tree.

pub mod cli;
pub mod session;

use rprof_basics::{on_all_cpus, random};
pub use {
    rprof_copies as copies, rprof_counters as counters, rprof_demo as demo, rprof_device as device, rprof_gate as gate,
    rprof_instrument as instrument, rprof_isa as isa, rprof_join as join, rprof_layers as layers,
    rprof_machine as machine, rprof_memory as memory, rprof_model as roofline, rprof_profile as profile,
    rprof_replay as replay, rprof_report as report, rprof_sample as sample, rprof_symbols as symbols,
    rprof_tracee as tracee,
};
