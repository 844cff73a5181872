//! When the model samples a program, and the executions meanwhile.

pub mod bursts;
pub mod executions;
pub mod page_arrivals;
pub mod schedule;
