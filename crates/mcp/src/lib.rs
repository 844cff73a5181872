//! `rprof mcp`: a server of the Model Context Protocol on standard input and output, by which assistants profile programs and ask about
//! profiles.
//!
//! ```text
//!  client ─▶ server (rmcp) ─▶ tools ─┬▶ questions ─▶ profiles in the folder ─┐
//!                                    ├▶ source ────▶ files in the folder ────┼▶ bounded ─▶ one answer in JSON
//!                                    └▶ run ───────▶ rprof -- PROGRAM ───────┘
//! ```
//!
//! It starts only programs that the client names, in the folder that it was given, and reads no file outside of this folder. An answer has at
//! most 4 KB unless the client asks for more; it says what it has left out.

mod arguments;
mod bounded;
mod error;
mod figures;
mod folder;
mod questions;
mod run;
mod server;
mod source;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::transport::stdio;

pub use error::{Refusal, ServeError};

use folder::Folder;
use run::Runner;
use server::Server;

/// Serves one client until it closes standard input. `program` is rprof itself, which profiles run with.
///
/// # Errors
/// The folder does not exist, or the client does not speak the protocol.
pub fn serve(folder: PathBuf, program: PathBuf) -> Result<(), ServeError> {
    let folder = Folder::new(&folder)?;
    let runner = Arc::new(Runner::new(program));
    let server = Server::new(folder, runner.clone());
    // Standard input and output are read by threads of their own: no driver of the runtime is needed.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(ServeError::Runtime)?;
    let served = runtime.block_on(async {
        let serving = server.serve(stdio()).await.map_err(|error| ServeError::Client(error.to_string()))?;
        serving.waiting().await.map_err(|error| ServeError::Client(error.to_string()))
    });
    // A program that still runs was the client's; the runtime waits for its end.
    runner.end();
    drop(runtime);
    served.map(drop)
}
