//! Recorded outputs of a real GPU (fixtures/gpu/recorded/) as logs of the collector: what the profile says of them.

mod ceilings;
mod counts;
mod damaged;
mod golden;
mod logs;
mod metrics;
mod nsight_compute;
