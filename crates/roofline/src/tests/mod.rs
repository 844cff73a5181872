//! Hand-made functions on a recorded machine.

mod account;
mod cases;
mod diagnosis;
mod kernel;
mod ladder;
mod memory_side;
mod paging;
mod refutation;
mod truth;
mod vectors;
