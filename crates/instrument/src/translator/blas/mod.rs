//! Matrix products: calls of BLAS by call site and shape, from the records that their entries make in line.

pub mod recorder;
pub mod tally;
