//! The variables of an ELF file: symbols that name data.

use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHT_DYNSYM, SHT_SYMTAB};
use goblin::elf::sym::{STT_COMMON, STT_OBJECT, Symtab};

use super::elf_file::{ElfFile, string_at};
use super::elf_symbols::{bare_name, table_contents};

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSymbol {
    /// Virtual address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Name as in the string table, symbol version cut off.
    pub name: String,
}

/// The variables of both symbol tables, by address; of several at one place the shortest name. Thread-local ones (their
/// addresses are not those of memory) and damaged entries are left out.
pub fn data_symbols<'a>(files: impl Iterator<Item = &'a ElfFile>) -> Vec<DataSymbol> {
    let mut found: Vec<DataSymbol> = files.flat_map(of_file).collect();
    found.sort_unstable_by(|a, b| {
        (a.start, b.size, a.name.len(), &a.name).cmp(&(b.start, a.size, b.name.len(), &b.name))
    });
    found.dedup_by_key(|symbol| symbol.start);
    found
}

fn of_file(elf: &ElfFile) -> Vec<DataSymbol> {
    let mut found = Vec::new();
    for table in elf.sections().iter().filter(|s| matches!(s.header.sh_type, SHT_SYMTAB | SHT_DYNSYM)) {
        let Some((symbols, strings)) = table_contents(elf, table) else { continue };
        let Ok(symtab) = Symtab::parse(&symbols, 0, symbols.len() / super::elf_symbols::ENTRY, elf.context()) else {
            continue;
        };
        for symbol in symtab.iter().filter(|s| matches!(s.st_type(), STT_OBJECT | STT_COMMON)) {
            let flags = elf.sections().get(symbol.st_shndx).map_or(0, |section| section.header.sh_flags);
            let is_data = flags & u64::from(SHF_ALLOC | SHF_EXECINSTR | SHF_TLS) == u64::from(SHF_ALLOC);
            let name = bare_name(string_at(&strings, symbol.st_name).unwrap_or_default());
            if is_data && symbol.st_size > 0 && !name.is_empty() {
                found.push(DataSymbol { start: symbol.st_value, size: symbol.st_size, name });
            }
        }
    }
    found
}

/// The variable that holds `address`; `symbols` as [`data_symbols`] yields them.
pub fn find(symbols: &[DataSymbol], address: u64) -> Option<&DataSymbol> {
    let after = symbols.partition_point(|symbol| symbol.start <= address);
    let symbol = symbols.get(after.checked_sub(1)?)?;
    (address - symbol.start < symbol.size).then_some(symbol)
}
