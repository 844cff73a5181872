//! Calls of MPI: in-line records at the entry of its functions and where they return, and what they say.
//!
//! ```text
//!  entry of MPI_Send:  ring[cursor++] = (place, arguments, stack, time); full? ─▶ rprof reads the ring
//!  behind a call:      ring[cursor++] = (place, stack, time)
//! ```
//!
//! The program is not changed: no library is loaded into it, and no wrapper called.

pub mod call;
pub mod recorder;
