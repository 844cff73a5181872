//! System calls that would have an effect twice if repeated, for a run that repeats another one.
//!
//! ```text
//!  call ─▶ judged (call_table) ─▶ harmless ──────────────────────────────▶ the program makes it
//!               │   └▶ changes a file ─▶ new, or made since the first run began ─▶ journal ─▶ the program makes it
//!               └─▶ Unrepeatable: the run ends before it
//!  end of the run: journal ─▶ files are again as the first run left them
//! ```

mod call_table;
mod descriptors;
mod journal;
mod judge;
mod listeners;
mod paths;
mod unrepeatable;

pub use judge::{Caller, Effects};
pub use unrepeatable::Unrepeatable;
