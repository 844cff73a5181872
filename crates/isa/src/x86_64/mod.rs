//! x86-64: classification of decoded instructions, data flow in loop bodies, and the emitter.

pub mod blocks;
pub mod classify;
pub mod dataflow;
pub mod slots;
pub mod system_call;
mod system_call_names;
pub mod text;

pub use blocks::CodeGraph;
pub use classify::classify;
pub use dataflow::analyse_body;
pub use slots::block_issue_slots;
