//! The functions of a Go program by its own table (`.gopclntab`), which its run-time needs and `-ldflags=-s` leaves.
//!
//! ```text
//!  header ─▶ per function: (entry, place of its record) ─▶ record: (entry, place of its name) ─▶ name
//! ```
//!
//! The layout of Go 1.18 and later (`internal/abi/symtab.go`, `runtime/symtab.go`); older ones yield nothing.

use super::little_endian::{half, word};
use goblin::elf::section_header::SHT_RELA;

use super::elf_file::{ElfFile, Section, string_at};
use super::elf_symbols::CodeSymbol;

/// First word of the table since Go 1.18, and since Go 1.20.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// Where the header has the address that entries are counted from.
const TEXT_START: usize = 8 + 2 * 8;

/// Names of the section, without and with relocations.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// All functions of the table, unsorted; none if the program is not Go's.
pub fn go_functions(elf: &ElfFile) -> Vec<CodeSymbol> {
    let Some(section) = SECTIONS.iter().find_map(|name| elf.section(name)) else { return Vec::new() };
    let Ok(table) = elf.contents(section) else { return Vec::new() };
    let text = text_start(elf, section, &table);
    text.and_then(|text| parse(&table, text)).unwrap_or_default()
}

/// The address that entries are counted from: in the header, else in the relocation for it, else the beginning of the code.
fn text_start(elf: &ElfFile, section: &Section, table: &[u8]) -> Option<u64> {
    let stated = word(table, TEXT_START)?;
    let place = section.header.sh_addr + TEXT_START as u64;
    let relocated = || {
        let tables = elf.sections().iter().filter(|s| s.header.sh_type == SHT_RELA);
        let mut entries = tables.filter_map(|s| elf.contents(s).ok());
        entries.find_map(|bytes| {
            let mut entries = bytes.chunks_exact(24);
            entries.find(|e| word(e, 0) == Some(place)).and_then(|e| word(e, 16))
        })
    };
    Some(stated).filter(|at| *at != 0).or_else(relocated).or_else(|| Some(elf.section(".text")?.header.sh_addr))
}

fn parse(table: &[u8], text: u64) -> Option<Vec<CodeSymbol>> {
    if !MAGICS.contains(&half(table, 0)?) || table.get(7) != Some(&8) {
        return None;
    }
    let header = |n: usize| word(table, 8 + 8 * n).and_then(|value| usize::try_from(value).ok());
    let (count, names, functions) = (header(0)?, table.get(header(3)?..)?, table.get(header(7)?..)?);
    let mut found = Vec::new();
    for i in 0..count.min(functions.len() / 8) {
        let (Some(entry), Some(record), Some(next)) =
            (half(functions, 8 * i), half(functions, 8 * i + 4), half(functions, 8 * i + 8))
        else {
            break;
        };
        let name = half(functions, record as usize + 4).and_then(|at| string_at(names, at as usize));
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        let (start, size) = (text.wrapping_add(entry.into()), next.saturating_sub(entry).into());
        found.push(CodeSymbol { start, size, name, global: false, weak: false, function: true });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_tables_yield_what_is_whole() {
        let mut table = vec![0; 72];
        table[..8].copy_from_slice(&[0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
        let mut put = |at: usize, value: u64| table[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(8, 1 << 40); // functions
        put(32, 72); // names
        put(64, 81); // functions
        table.extend(b"main.hot\0");
        table.extend([0x10u32, 12, 0x30, 0x10, 0].map(u32::to_le_bytes).concat());
        let found = parse(&table, 0x40_0000).unwrap();
        assert_eq!(
            (found.len(), found[0].start, found[0].size, found[0].name.as_str()),
            (1, 0x40_0010, 0x20, "main.hot")
        );
        for length in 0..table.len() {
            let _ = parse(&table[..length], 0);
        }
        table[0] = 0xfa;
        assert!(parse(&table, 0).is_none(), "an older layout");
    }
}
