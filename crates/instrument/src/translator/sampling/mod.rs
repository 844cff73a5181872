//! Schedules the recording of addresses and bursts, and hands the records to their sinks.

pub mod access_buffer;
pub mod burst_pace;
pub mod bursts;
pub mod pc_sampling;
pub mod recording;
pub mod windows;
