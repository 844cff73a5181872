//! Pictures: the roofline of a profile and of its GPUs, the ladder and sweeps of a machine. Plain SVG without scripts, legible on light
//! and dark ground.

pub mod arrows;
pub mod axes;
pub mod communication;
#[cfg(test)]
mod example;
pub mod fans;
pub mod function;
pub mod gpu;
pub mod gpu_curves;
pub mod host;
pub mod ladder;
pub mod layout;
pub mod page;
pub mod roofline;
pub mod scale;
pub mod sweep;
mod volume;
pub mod work;

mod dots;
mod family;
pub mod lines;
mod own;
mod spots;
