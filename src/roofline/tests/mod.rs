//! Hand-made functions on a recorded machine.

mod kernel;
mod ladder;
mod refutation;
mod truth;
