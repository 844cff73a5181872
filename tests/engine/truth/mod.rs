//! The truth programs, and their FLOPs as an engine and the command count them.

pub mod cli;
pub mod engine;
pub mod program;
