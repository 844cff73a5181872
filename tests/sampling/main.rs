//! The timed pass: both samplers, visits of running programs, hardware counters.

#[path = "../common/cli.rs"]
mod cli;
#[path = "../common/stand_in.rs"]
mod stand_in;

mod checks;
mod programs;
mod seccomp;

mod counters_events;
mod counters_hardware;
mod counters_one_run;
mod counters_path;
mod counters_refused;
mod perf;
mod ptrace;
mod recordings;
mod trials;
mod visits;
