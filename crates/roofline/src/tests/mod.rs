//! Hand-made functions on a recorded machine.

mod account;
mod cases;
mod diagnosis;
mod diagnosis_kinds;
mod kernel;
mod ladder;
mod memory_side;
mod paging;
mod random;
mod refutation;
mod savings;
mod truth;
mod vectors;
