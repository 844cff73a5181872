//! What rprof carries inside itself and hands to other processes; `build.rs` compiles it from `programs/`.

/// A program that loads shared libraries and calls their functions: an ELF file.
pub static LOADER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/loader"));

/// The library that a CUDA program loads: an ELF file.
pub static COLLECTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/collector.so"));
