//! Ranks of real launchers: output and status as without rprof, calls and bytes by call site, folders of jobs, merged profiles.

#[path = "../common/cli.rs"]
mod cli;
#[path = "../common/shared.rs"]
mod shared;

mod bad_input;
mod calls;
mod hosts;
mod jobs;
mod launching;
mod network;
mod waiting;
