//! x86-64: classification of decoded instructions, data flow in loop bodies, and the emitter.

pub mod classify;
pub mod slots;

pub use classify::classify;
pub use slots::block_issue_slots;
