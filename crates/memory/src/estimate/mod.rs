//! From simulated events to the traffic of the whole program, and its error.

pub mod ablation;
pub mod beyond_l1;
pub mod control_variate;
pub mod scaling;
pub mod window_weights;
