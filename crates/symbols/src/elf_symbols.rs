//! The function symbols of an ELF file.

use goblin::elf::section_header::{SHT_DYNSYM, SHT_SYMTAB};
use goblin::elf::sym::{STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, Symtab};

use super::elf_file::{ElfFile, Section, string_at};

/// A symbol that may name code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSymbol {
    /// Virtual address.
    pub start: u64,
    /// Bytes; 0 if the symbol does not say.
    pub size: u64,
    /// Name as in the string table, symbol version cut off.
    pub name: String,
    /// Global or weak.
    pub global: bool,
    /// Weak: as a rule another name of a function that has a strong one.
    pub weak: bool,
    /// Declared as a function (assembly labels are not).
    pub function: bool,
}

/// Function symbols of both symbol tables, unsorted. Skips damaged entries.
pub fn code_symbols(elf: &ElfFile) -> Vec<CodeSymbol> {
    let tables = elf.sections().iter().filter(|s| matches!(s.header.sh_type, SHT_SYMTAB | SHT_DYNSYM));
    tables.flat_map(|table| symbols_of(elf, table)).collect()
}

/// Name of entry `index` of `.dynsym`, defined here or not.
pub fn dynamic_names(elf: &ElfFile) -> Vec<String> {
    let Some(table) = elf.sections().iter().find(|s| s.header.sh_type == SHT_DYNSYM) else { return Vec::new() };
    let Some((symbols, strings)) = table_contents(elf, table) else { return Vec::new() };
    let count = symbols.len() / ENTRY;
    let Ok(symtab) = Symtab::parse(&symbols, 0, count, elf.context()) else { return Vec::new() };
    symtab.iter().map(|s| bare_name(string_at(&strings, s.st_name).unwrap_or_default())).collect()
}

/// Bytes of an entry.
pub(super) const ENTRY: usize = 24;

/// A symbol table and its strings.
pub(super) fn table_contents(elf: &ElfFile, table: &Section) -> Option<(Vec<u8>, Vec<u8>)> {
    let strings = elf.sections().get(table.header.sh_link as usize)?;
    Some((elf.contents(table).ok()?, elf.contents(strings).ok()?))
}

fn symbols_of(elf: &ElfFile, table: &Section) -> Vec<CodeSymbol> {
    let Some((symbols, strings)) = table_contents(elf, table) else { return Vec::new() };
    let Ok(symtab) = Symtab::parse(&symbols, 0, symbols.len() / ENTRY, elf.context()) else { return Vec::new() };
    let in_code = |s: &goblin::elf::Sym| elf.sections().get(s.st_shndx).is_some_and(is_code_header);
    let mut found = Vec::new();
    for symbol in symtab.iter() {
        let kind = symbol.st_type();
        let wanted = matches!(kind, STT_FUNC | STT_GNU_IFUNC | STT_NOTYPE);
        if !wanted || !in_code(&symbol) {
            continue;
        }
        let section = elf.sections().get(symbol.st_shndx).filter(|s| elf.is_relocatable() || counts_from(s, &symbol));
        let start = symbol.st_value.wrapping_add(section.map_or(0, |section| section.header.sh_addr));
        if start == 0 {
            continue;
        }
        let name = bare_name(string_at(&strings, symbol.st_name).unwrap_or_default());
        let function = kind != STT_NOTYPE;
        if name.is_empty() || !function && is_mark(&name) {
            continue;
        }
        found.push(CodeSymbol {
            start,
            size: symbol.st_size,
            name,
            global: matches!(symbol.st_bind(), STB_GLOBAL | STB_WEAK),
            weak: symbol.st_bind() == STB_WEAK,
            function,
        });
    }
    found
}

/// Whether `symbol` counts from the beginning of its `section` though the file says that it was linked: images that wasmtime registers for
/// debuggers do.
fn counts_from(section: &Section, symbol: &goblin::elf::Sym) -> bool {
    symbol.st_value < section.header.sh_addr && symbol.st_value < section.header.sh_size
}

/// Whether an untyped symbol is none of the program: `$x` and `$d.1` mark code and data for disassemblers, `.L` labels are the
/// assembler's own. Names that only begin with a dollar sign are a compiler's (Swift's).
fn is_mark(name: &str) -> bool {
    let of_disassemblers = name.strip_prefix('$').is_some_and(|rest| {
        let (kind, tail) = rest.split_at_checked(1).unwrap_or((rest, ""));
        kind.bytes().all(|b| b.is_ascii_lowercase()) && (tail.is_empty() || tail.starts_with('.'))
    });
    of_disassemblers || name.starts_with(".L")
}

/// Separate debug files keep code sections without contents, so the flag alone decides.
fn is_code_header(section: &Section) -> bool {
    section.header.sh_flags & u64::from(goblin::elf::section_header::SHF_EXECINSTR) != 0
}

/// `memcpy@@GLIBC_2.14` → `memcpy`.
pub(super) fn bare_name(name: String) -> String {
    match name.find('@') {
        Some(at) if at > 0 => name[..at].to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_told_from_names_with_dollar_signs() {
        for mark in ["$x", "$d", "$a.12", ".L3", "$"] {
            assert!(is_mark(mark), "{mark}");
        }
        for name in ["$s4main6kernelyS2dF", "$S4main", "$foo", "main", "_$", "$é2"] {
            assert!(!is_mark(name), "{name}");
        }
    }
}
