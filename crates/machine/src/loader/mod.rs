//! A process of its own that loads shared libraries and calls their functions: the other end of `crates/embedded/programs/loader.rs`.
//!
//! A static rprof cannot load any, and a library that crashes or hangs costs only the request.

mod error;
mod remote;

pub use error::{LoaderError, signal_text};
pub use remote::{CALLS, Call, Library, Outcome, Remote};

/// Whether `RPROF_LOG` asks for details on standard error: rprof's own lines, and those that the libraries print there.
pub fn is_logged() -> bool {
    std::env::var_os("RPROF_LOG").is_some_and(|value| !value.is_empty() && value != "0")
}
