//! Properties of instructions: decoded instruction → facts, and the emitter. Pure; a folder per architecture.
//!
//! The architecture-neutral vocabulary is in [`operation`], [`facts`], [`control_flow`] and [`dependency`]; everything that knows an
//! encoding is in a folder named after the architecture, with the same file names in each.

pub mod control_flow;
pub mod dependency;
pub mod facts;
pub mod operation;
pub mod x86_64;
