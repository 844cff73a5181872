//! From the program's text to translated blocks.

pub mod ahead;
pub mod arrival;
pub mod block_emitter;
pub mod chain;
pub mod edge_counters;
pub mod edge_exits;
pub mod inline_cache;
pub mod inlined;
pub mod inlined_body;
pub mod lookup_order;
pub mod loops;
pub mod marker_calls;
pub mod plan;
pub mod probes;
pub mod returns;
pub mod spilled_rcx;
pub mod superblock;
pub mod system_calls;
pub mod terminators;
pub mod text_ranges;
pub mod text_reader;
pub mod traces;
pub mod trampolines;
pub mod watched_calls;
