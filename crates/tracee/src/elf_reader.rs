//! Headers and tables of an ELF image, in a file or in a process's memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use goblin::elf::header::ET_REL;
use goblin::elf::header::header64::{Header, SIZEOF_EHDR};
use goblin::elf::program_header::program_header64::{ProgramHeader, SIZEOF_PHDR};
use goblin::elf::section_header::section_header64::{SIZEOF_SHDR, SectionHeader};
use goblin::elf::section_header::{SHT_DYNSYM, SHT_SYMTAB};

/// The largest table that is read from a process's memory; a larger one is taken for damage.
const LARGEST_TABLE: u64 = 1 << 29;

/// Index of the section with the names if the header has no room for it; it is then the link of the first section.
const INDEX_ELSEWHERE: u16 = 0xffff;
/// Bytes of a symbol: name (4), kind (1), other (1), section (2), value (8), size (8).
const SYMBOL: usize = 24;
/// Longer names are not looked at.
const LONGEST_NAME: usize = 64;

/// The kind of a symbol that is a variable.
pub const OBJECT: u8 = 1;
/// The kind of a symbol that is a function.
pub const FUNCTION: u8 = 2;

/// A symbol that an image defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefinedSymbol<'n> {
    /// Its name.
    pub name: &'n [u8],
    /// [`OBJECT`], [`FUNCTION`] or another.
    pub kind: u8,
    /// Virtual address.
    pub at: u64,
    /// Bytes; 0 if unknown.
    pub bytes: u64,
}

/// A 64-bit little-endian ELF image after its header was read.
#[derive(Debug)]
pub struct ElfReader {
    file: File,
    base: u64,
    /// Bytes of the image at most.
    limit: u64,
    header: Header,
}

impl ElfReader {
    /// Reads the header of the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is not a 64-bit little-endian ELF file (`InvalidData`).
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::at(File::open(path)?, 0)
    }

    /// Reads the header of the image that begins `base` bytes into `file`: 0, or an address in a process's memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn at(file: File, base: u64) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let limit = if metadata.is_file() && metadata.len() > 0 { metadata.len() } else { LARGEST_TABLE };
        let mut bytes = [0; SIZEOF_EHDR];
        file.read_exact_at(&mut bytes, base)?;
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a 64-bit little-endian ELF file"));
        }
        Ok(ElfReader { file, base, limit, header: *Header::from_bytes(&bytes) })
    }

    /// Whether its parts were not linked yet: symbols count from the beginning of their sections.
    pub fn is_relocatable(&self) -> bool {
        self.header.e_type == ET_REL
    }

    /// `length` bytes of the image from `offset` on.
    ///
    /// # Errors
    /// They are not there: the header that asked for them is damaged (`InvalidData`).
    pub fn bytes(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        if offset.checked_add(length).is_none_or(|end| end > self.limit) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it lies beyond the end of the file"));
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, self.base.wrapping_add(offset))?;
        Ok(bytes)
    }

    /// Its program headers.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn programs(&self) -> io::Result<Vec<ProgramHeader>> {
        let count = self.header.e_phnum;
        let bytes = self.bytes(self.header.e_phoff, u64::from(count) * SIZEOF_PHDR as u64)?;
        Ok(ProgramHeader::from_bytes(&bytes, count.into()))
    }

    /// Its section headers; none if they were stripped.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn sections(&self) -> io::Result<Vec<SectionHeader>> {
        if self.header.e_shoff == 0 || self.header.e_shoff >= self.limit {
            return Ok(Vec::new());
        }
        let read = |count: usize| {
            let bytes = self.bytes(self.header.e_shoff, (count * SIZEOF_SHDR) as u64)?;
            io::Result::Ok(SectionHeader::from_bytes(&bytes, count))
        };
        match self.header.e_shnum {
            // Files with 65,280 sections or more keep the true number in the first header.
            0 => read(read(1)?[0].sh_size.min(self.limit / SIZEOF_SHDR as u64) as usize),
            count => read(count.into()),
        }
    }

    /// The names of its `sections`, each at its `sh_name`.
    ///
    /// # Errors
    /// There is no such section, or as [`bytes`](Self::bytes).
    pub fn section_names(&self, sections: &[SectionHeader]) -> io::Result<Vec<u8>> {
        let index = match (self.header.e_shstrndx, sections.first()) {
            (INDEX_ELSEWHERE, Some(first)) => first.sh_link as usize,
            (index, _) => index.into(),
        };
        let names = sections.get(index).ok_or(io::ErrorKind::InvalidData)?;
        self.bytes(names.sh_offset, names.sh_size)
    }

    /// Shows `each` symbol that it defines in one of its symbol tables, those with names of 64 bytes and more left out.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn defined_symbols(&self, mut each: impl FnMut(DefinedSymbol<'_>)) -> io::Result<()> {
        let sections = self.sections()?;
        for table in sections.iter().filter(|s| matches!(s.sh_type, SHT_SYMTAB | SHT_DYNSYM)) {
            let Some(names) = sections.get(table.sh_link as usize) else { continue };
            let symbols = self.bytes(table.sh_offset, table.sh_size)?;
            let names = self.bytes(names.sh_offset, names.sh_size)?;
            symbols.chunks_exact(SYMBOL).filter_map(|symbol| defined(symbol, &names)).for_each(&mut each);
        }
        Ok(())
    }
}

/// Whether the file at `path` imports or defines the symbol `name`, as far as its dynamic symbols say, or those of a static program; no
/// if it cannot be read.
pub fn names_symbol(path: &Path, name: &str) -> bool {
    let look = || {
        let elf = ElfReader::open(path)?;
        let sections = elf.sections()?;
        let table = |kind| sections.iter().find(|section| section.sh_type == kind);
        let Some(table) = table(SHT_DYNSYM).or_else(|| table(SHT_SYMTAB)) else { return Ok(false) };
        let names = sections.get(table.sh_link as usize).ok_or(io::ErrorKind::InvalidData)?;
        let names = elf.bytes(names.sh_offset, names.sh_size)?;
        let symbols = elf.bytes(table.sh_offset, table.sh_size)?;
        let is_named = |symbol: &[u8]| {
            let at = symbol.first_chunk().map_or(0, |at| u32::from_le_bytes(*at)) as usize;
            names
                .get(at..)
                .and_then(|rest| rest.strip_prefix(name.as_bytes()))
                .is_some_and(|end| end.first() == Some(&0))
        };
        io::Result::Ok(symbols.chunks_exact(SYMBOL).any(is_named))
    };
    look().unwrap_or(false)
}

/// What the bytes of a symbol say; `None`: its image does not define it.
fn defined<'n>(symbol: &[u8], names: &'n [u8]) -> Option<DefinedSymbol<'n>> {
    let word = |at: usize| Some(u64::from_le_bytes(*symbol.get(at..)?.first_chunk()?));
    let (name, section) = (u32::from_le_bytes(*symbol.first_chunk()?), u16::from_le_bytes([symbol[6], symbol[7]]));
    let (at, bytes) = (word(8)?, word(16)?);
    if at == 0 || section == 0 {
        return None;
    }
    let name = names.get(name as usize..)?;
    let end = name.iter().take(LONGEST_NAME).position(|&b| b == 0)?;
    Some(DefinedSymbol { name: &name[..end], kind: symbol[4] & 0xf, at, bytes })
}

/// Whether the file at `path` has a section called `name`; no if it cannot be read.
pub fn has_section(path: &Path, name: &str) -> bool {
    let look = || {
        let elf = ElfReader::open(path)?;
        let sections = elf.sections()?;
        let names = elf.section_names(&sections)?;
        let is_called = |at: u32| {
            names
                .get(at as usize..)
                .is_some_and(|rest| rest.strip_prefix(name.as_bytes()).is_some_and(|end| end.first() == Some(&0)))
        };
        io::Result::Ok(sections.iter().any(|section| is_called(section.sh_name)))
    };
    look().unwrap_or(false)
}
