//! From the program's text to translated blocks.

pub mod ahead;
pub mod block_emitter;
pub mod edge_counters;
pub mod loops;
pub mod probes;
pub mod returns;
pub mod superblock;
pub mod terminators;
pub mod text_reader;
pub mod trampolines;
