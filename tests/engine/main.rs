//! The counting engines: what they count, and that programs notice nothing.

#[path = "../common/burst_recorder.rs"]
mod burst_recorder;
#[path = "../common/cli.rs"]
mod cli;
#[path = "../common/guests.rs"]
mod guests;
#[path = "../common/instruction_counts.rs"]
mod instruction_counts;
mod truth;

mod accesses;
mod bursts;
mod compared_execution;
mod counts;
mod ends;
mod layers;
mod made_code;
mod mechanisms;
mod paper_kernels;
mod programs;
mod refusals;
mod side_by_side;
mod truth_flops;
mod uncounted;
