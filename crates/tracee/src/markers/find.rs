//! Marker functions in an ELF file.

use std::io;
use std::path::Path;

use super::Marker;
use crate::elf_reader::{DefinedSymbol, ElfReader, FUNCTION};

/// Marker functions found so far: (virtual address, marker).
#[derive(Debug, Default)]
pub struct Found(Vec<(u64, Marker)>);

impl Found {
    /// Adds the function that `symbol` names, if it is one.
    pub fn add(&mut self, symbol: DefinedSymbol<'_>) {
        if symbol.kind == FUNCTION {
            self.0.extend(Marker::named(symbol.name).map(|marker| (symbol.at, marker)));
        }
    }

    /// All of them by address, each once.
    pub fn finish(mut self) -> Vec<(u64, Marker)> {
        self.0.sort_by_key(|(at, _)| *at);
        self.0.dedup_by_key(|(at, _)| *at);
        self.0
    }
}

/// The marker functions that the file at `path` defines: (virtual address, marker), each once.
///
/// # Errors
/// The file cannot be read, or is not a 64-bit little-endian ELF file (`InvalidData`).
pub fn markers(path: &Path) -> io::Result<Vec<(u64, Marker)>> {
    let mut found = Found::default();
    ElfReader::open(path)?.defined_symbols(|symbol| found.add(symbol))?;
    Ok(found.finish())
}
