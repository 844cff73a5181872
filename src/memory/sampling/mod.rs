//! When a program is looked at, and what was executed meanwhile.

pub mod bursts;
pub mod executions;
pub mod page_arrivals;
pub mod schedule;
