//! Reports of a recorded profile: schema, reader, formats.

mod formats;
mod reader;
pub mod sample;
