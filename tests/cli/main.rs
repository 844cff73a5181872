//! The command as its users run it.

#[path = "../common/cli.rs"]
mod cli;
#[path = "../common/page.rs"]
mod page;
#[path = "../common/shared.rs"]
mod shared;
#[path = "../common/stray.rs"]
mod stray;

mod auto;
mod bad_input;
mod book;
mod by_time;
mod demo;
mod diff_recipe;
mod disassembly;
mod gate;
mod gate_action;
mod hardened;
mod kernel_workers;
mod kill;
mod limits;
mod markers;
mod names;
mod ordinary_user;
mod pprof;
mod processes;
mod programs;
mod report;
mod soak;
mod source_lines;
mod streams;
mod system_calls;
mod waiting;
