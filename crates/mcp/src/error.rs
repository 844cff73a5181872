//! Errors: what ends the server, and what a client is told in one line.

use std::path::PathBuf;

use thiserror::Error;

/// Why the server ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The folder cannot be used.
    #[error("--folder {}: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Threads could not be started.
    #[error("cannot serve: {0}")]
    Runtime(std::io::Error),
    /// The client went away, or does not speak the protocol.
    #[error("the client on standard input does not speak the Model Context Protocol: {0}")]
    Client(String),
}

/// Why a call has no answer. Its text is one line for the client.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// With this reason; line breaks become spaces.
    pub fn new(reason: impl std::fmt::Display) -> Refusal {
        Refusal(reason.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
    }
}
