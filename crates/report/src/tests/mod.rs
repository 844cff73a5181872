//! Reports of a recorded profile: schema, reader, formats.

mod brief;
mod communication;
mod devices;
mod diff;
mod formats;
mod query;
mod reader;
pub mod sample;
