//! Calls of MPI: in-line records at the entries and returns of its functions, and their content.
//!
//! ```text
//!  entry of MPI_Send:  ring[cursor++] = (place, arguments, stack, time); full? ─▶ rprof reads the ring
//!  behind a call:      ring[cursor++] = (place, stack, time)
//!  system call:        ring[cursor++] = (number, arguments, result), if it may concern sockets
//! ```
//!
//! The program is not changed: no library is loaded into it, and no wrapper called.

pub mod call;
pub mod recorder;
pub mod socket_traffic;
