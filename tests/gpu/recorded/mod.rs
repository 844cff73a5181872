//! Recorded outputs of a real GPU (fixtures/gpu/recorded/) as logs of the collector, and their profiles.

mod ceilings;
mod counts;
mod damaged;
mod golden;
mod logs;
mod metrics;
mod nsight_compute;
