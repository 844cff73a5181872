//! Common to all families of watched calls: the calls that a thread is in.

pub mod open_calls;
