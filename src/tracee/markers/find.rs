//! Marker functions in an ELF file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use goblin::elf::header::header64::{Header, SIZEOF_EHDR};
use goblin::elf::section_header::section_header64::{SIZEOF_SHDR, SectionHeader};
use goblin::elf::section_header::{SHT_DYNSYM, SHT_SYMTAB};

use super::Marker;

/// The largest table that is read; a larger one is taken for damage.
const LARGEST_TABLE: u64 = 1 << 29;
/// Bytes of a symbol: name (4), kind (1), other (1), section (2), value (8), size (8).
const SYMBOL: usize = 24;
/// The kind of a function (the lower four bits).
const FUNCTION: u8 = 2;

/// The marker functions that the file at `path` defines: (virtual address, marker), each once.
///
/// # Errors
/// The file cannot be read, or is not a 64-bit little-endian ELF file (`InvalidData`).
pub fn markers(path: &Path) -> io::Result<Vec<(u64, Marker)>> {
    let file = File::open(path)?;
    let read = |offset: u64, length: u64| {
        if length > LARGEST_TABLE {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    };
    let bytes = read(0, SIZEOF_EHDR as u64)?;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let header = Header::parse(&bytes).map_err(io::Error::other)?;
    let sections = read(header.e_shoff, u64::from(header.e_shnum) * SIZEOF_SHDR as u64)?;
    let sections = SectionHeader::from_bytes(&sections, header.e_shnum.into());
    let mut found = Vec::new();
    for table in sections.iter().filter(|s| matches!(s.sh_type, SHT_SYMTAB | SHT_DYNSYM)) {
        let Some(names) = sections.get(table.sh_link as usize) else { continue };
        let (symbols, names) = (read(table.sh_offset, table.sh_size)?, read(names.sh_offset, names.sh_size)?);
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
