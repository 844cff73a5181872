//! The functions of an ELF image that a run-time compiler keeps in memory for debuggers. Most are relocatable, with the addresses that
//! their sections were put at, and without the code itself.

use std::path::Path;

use super::demangle::{Dialect, demangle};
use super::elf_file::ElfFile;
use super::elf_symbols::code_symbols;
use super::perf_map::JitSymbol;
use super::table::{FunctionTable, TableInput};

/// The functions of an image, by address; none if it is damaged.
pub fn parse(image: &[u8]) -> Vec<JitSymbol> {
    let Ok(elf) = ElfFile::from_bytes(Path::new("image in memory"), image) else { return Vec::new() };
    let symbols = code_symbols(&elf);
    let dialect = Dialect::of(symbols.iter().map(|s| s.name.as_str()));
    let table = FunctionTable::new(TableInput { symbols, code: elf.placed_code(), ..TableInput::default() });
    let named = table.named_parts();
    named
        .filter_map(|(part, name)| JitSymbol::new(part.start, part.end - part.start, &demangle(name, dialect)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with its `.text` at `at` and a symbol for each (place in the section, size, name). By its `kind` it is relocatable (1) or
    /// linked (3).
    fn image_of_kind(kind: u16, at: u64, symbols: &[(u64, u64, &str)]) -> Vec<u8> {
        const HEADER: u64 = 64;
        let (mut strings, mut table) = (b"\0.text\0.symtab\0.strtab\0".to_vec(), vec![0; 24]);
        for (value, size, name) in symbols {
            table.extend((strings.len() as u32).to_le_bytes());
            table.extend([0x12, 0, 1, 0]);
            table.extend(value.to_le_bytes());
            table.extend(size.to_le_bytes());
            strings.extend(name.bytes().chain([0]));
        }
        let (table_size, strings_size) = (table.len() as u64, strings.len() as u64);
        let section = |name: u32, holds: u32, flags: u64, at: u64, offset: u64, size: u64, link: u32, entry: u64| {
            let mut bytes = [name.to_le_bytes(), holds.to_le_bytes()].concat();
            [flags, at, offset, size].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            bytes.extend([link, 1].map(u32::to_le_bytes).concat());
            bytes.extend([1, entry].map(u64::to_le_bytes).concat());
            bytes
        };
        let sections = [
            section(0, 0, 0, 0, 0, 0, 0, 0),
            section(1, 8, 6, at, HEADER, 0x100, 0, 0),
            section(7, 2, 0, 0, HEADER, table_size, 3, 24),
            section(15, 3, 0, 0, HEADER + table_size, strings_size, 0, 0),
        ];
        let mut image = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        image.extend([kind, 62].map(u16::to_le_bytes).concat());
        image.extend(1u32.to_le_bytes());
        image.extend([0, 0, HEADER + table_size + strings_size].map(u64::to_le_bytes).concat());
        image.extend([0; 4]);
        image.extend([64u16, 0, 0, 64, 4, 3].map(u16::to_le_bytes).concat());
        image.extend(table);
        image.extend(strings);
        image.extend(sections.concat());
        image
    }

    #[test]
    fn symbols_count_from_where_their_section_was_put() {
        let expected = [(0x7f00_1000, 0x7f00_1020, "first"), (0x7f00_1040, 0x7f00_1100, "second(double)")];
        let expected = expected.map(|(start, end, name)| (start, end, name.to_owned()));
        // wasmtime's are said to be linked, and their symbols count from the section all the same.
        for kind in [1, 3] {
            let image = image_of_kind(kind, 0x7f00_1000, &[(0, 0x20, "first"), (0x40, 0, "_Z6secondd")]);
            let found: Vec<_> = parse(&image).iter().map(|s| (s.start, s.end, s.name.clone())).collect();
            assert_eq!(found, expected, "{kind}");
        }
        let linked = image_of_kind(3, 0x7f00_1000, &[(0x7f00_1040, 0x20, "first")]);
        assert_eq!(parse(&linked)[0].start, 0x7f00_1040);
    }

    #[test]
    fn damaged_images_yield_nothing_or_less() {
        let image = image_of_kind(1, 0x1000, &[(0, 0x20, "first")]);
        assert_eq!(parse(&image).len(), 1);
        for length in 0..image.len() {
            assert!(parse(&image[..length]).is_empty(), "{length}");
        }
    }
}
