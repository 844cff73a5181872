//! replay
pub mod recorder;
