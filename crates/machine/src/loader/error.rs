//! Errors of the process that loads libraries.

/// Errors there. Callers add the remedy, which depends on the library.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LoaderError {
    /// It could not be started.
    #[error("starting the loader of libraries: {0}")]
    Start(String),
    /// A library could not be loaded.
    #[error("loading {path}: {reason}")]
    Library {
        /// As it was asked for.
        path: String,
        /// The dynamic linker's text.
        reason: String,
    },
    /// The library lacks a function or variable.
    #[error("the library has no {name}")]
    Symbol {
        /// The symbol.
        name: String,
    },
    /// The process ended.
    #[error("{what}: the library ended its process{}", signal_text(*signal))]
    Crashed {
        /// The request.
        what: String,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// No answer within the time limit; the process was ended.
    #[error("{what}: no answer within {seconds} s")]
    TimedOut {
        /// The request.
        what: String,
        /// The limit.
        seconds: u64,
    },
    /// No memory for a buffer of the process.
    #[error("mapping {bytes} bytes of memory")]
    Memory {
        /// Bytes wanted.
        bytes: u64,
    },
}

/// ` by SIGSEGV`, if the signal is known.
pub fn signal_text(signal: Option<i32>) -> String {
    let name = signal.and_then(|s| nix::sys::signal::Signal::try_from(s).ok());
    name.map_or_else(String::new, |name| format!(" by {name}"))
}
