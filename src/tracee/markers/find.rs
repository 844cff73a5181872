//! Marker functions in an ELF file.

use std::io;
use std::path::Path;

use goblin::elf::section_header::{SHT_DYNSYM, SHT_SYMTAB};

use super::Marker;
use crate::tracee::elf_reader::ElfReader;

/// Bytes of a symbol: name (4), kind (1), other (1), section (2), value (8), size (8).
const SYMBOL: usize = 24;
/// The kind of a function (the lower four bits).
const FUNCTION: u8 = 2;

/// The marker functions that the file at `path` defines: (virtual address, marker), each once.
///
/// # Errors
/// The file cannot be read, or is not a 64-bit little-endian ELF file (`InvalidData`).
pub fn markers(path: &Path) -> io::Result<Vec<(u64, Marker)>> {
    let image = ElfReader::open(path)?;
    let sections = image.sections()?;
    let mut found = Vec::new();
    for table in sections.iter().filter(|s| matches!(s.sh_type, SHT_SYMTAB | SHT_DYNSYM)) {
        let Some(names) = sections.get(table.sh_link as usize) else { continue };
        let (symbols, names) =
            (image.bytes(table.sh_offset, table.sh_size)?, image.bytes(names.sh_offset, names.sh_size)?);
        found.extend(symbols.chunks_exact(SYMBOL).filter_map(|symbol| marker(symbol, &names)));
    }
    found.sort_by_key(|(at, _)| *at);
    found.dedup_by_key(|(at, _)| *at);
    Ok(found)
}

/// The marker function that `symbol` names, if its file defines it.
fn marker(symbol: &[u8], names: &[u8]) -> Option<(u64, Marker)> {
    let (name, value) = (symbol.first_chunk::<4>()?, symbol.get(8..)?.first_chunk::<8>()?);
    let (at, section) = (u64::from_le_bytes(*value), u16::from_le_bytes([symbol[6], symbol[7]]));
    if at == 0 || section == 0 || symbol[4] & 0xf != FUNCTION {
        return None;
    }
    let name = names.get(u32::from_le_bytes(*name) as usize..)?;
    let end = name.iter().take(64).position(|&b| b == 0)?;
    Some((at, Marker::named(&name[..end])?))
}
