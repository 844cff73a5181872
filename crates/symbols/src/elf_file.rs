//! An ELF file read piece by piece: headers at once, sections on demand.
//!
//! Pieces are read with `pread`, not mapped: a program that is rebuilt while its report is made must not take the
//! profiler down with SIGBUS, and a gigabyte of debug information is only read when a look-up needs it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::program_header::program_header64::ProgramHeader;
use goblin::elf::program_header::{PF_X, PT_LOAD, PT_NOTE};
use goblin::elf::section_header::section_header64::SectionHeader;
use goblin::elf::section_header::{SHF_ALLOC, SHF_COMPRESSED, SHF_EXECINSTR, SHT_NOBITS, SHT_NOTE};
use nix::sys::memfd::{MFdFlags, memfd_create};
use object::{CompressedData, CompressionFormat};

use super::error::SymbolError;
use rprof_tracee::build_id;
use rprof_tracee::elf_reader::ElfReader;

const CONTEXT: Ctx = Ctx { container: Container::Big, le: Endian::Little };
/// More than any section of a real program expands to; keeps a damaged size from exhausting memory.
const LARGEST_SECTION: u64 = 16 << 30;

/// An open ELF file.
#[derive(Debug)]
pub struct ElfFile {
    path: PathBuf,
    reader: ElfReader,
    sections: Vec<Section>,
    segments: Vec<ProgramHeader>,
}

/// A section's header with its name.
#[derive(Debug, Clone)]
pub struct Section {
    /// Name.
    pub name: String,
    /// Header.
    pub header: SectionHeader,
}

impl Section {
    /// Holds code that is in the file.
    pub fn is_code(&self) -> bool {
        self.header.sh_flags & u64::from(SHF_EXECINSTR) != 0 && self.header.sh_type != SHT_NOBITS
    }

    /// First address after it.
    pub fn end(&self) -> u64 {
        self.header.sh_addr.saturating_add(self.header.sh_size)
    }
}

impl ElfFile {
    /// Opens `path` and reads its headers.
    ///
    /// # Errors
    /// If it cannot be read, is not 64-bit little-endian ELF, or its headers point outside of it.
    pub fn open(path: &Path) -> Result<Self, SymbolError> {
        let read_error = |source| SymbolError::Read { path: path.to_owned(), source };
        Self::from_file(path, File::open(path).map_err(read_error)?)
    }

    /// As [`open`](Self::open), for a file that is open already; `path` names it in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_file(path: &Path, file: File) -> Result<Self, SymbolError> {
        let read_error = |source| SymbolError::Read { path: path.to_owned(), source };
        if !file.metadata().map_err(read_error)?.is_file() {
            return Err(SymbolError::Foreign { path: path.to_owned(), what: "it is not a regular file" });
        }
        let reader = ElfReader::at(file, 0).map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                SymbolError::Foreign { path: path.to_owned(), what: "it is not a 64-bit little-endian ELF file" }
            }
            _ => read_error(source),
        })?;
        let segments = reader.programs().map_err(|error| of_part(path, "program headers", error))?;
        let headers = reader.sections().map_err(|error| of_part(path, "section headers", error))?;
        let names = reader.section_names(&headers).unwrap_or_default();
        let name = |header: &SectionHeader| string_at(&names, header.sh_name as usize).unwrap_or_default();
        let mut sections: Vec<_> = headers.into_iter().map(|header| Section { name: name(&header), header }).collect();
        if reader.is_relocatable() {
            sections.iter_mut().for_each(|section| place_as_in_file(&mut section.header));
        }
        Ok(ElfFile { path: path.to_owned(), reader, sections, segments })
    }

    /// As [`open`](Self::open), for a file that is in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open), or if there is no memory for a copy.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, SymbolError> {
        let copy = memfd_create("elf", MFdFlags::MFD_CLOEXEC).map(File::from).map_err(io::Error::from);
        let copy = copy.and_then(|mut file| file.write_all(bytes).map(|()| file));
        Self::from_file(path, copy.map_err(|source| SymbolError::Read { path: path.to_owned(), source })?)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All sections, in file order.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Whether its parts were not linked yet: symbols count from the beginning of their sections.
    pub fn is_relocatable(&self) -> bool {
        self.reader.is_relocatable()
    }

    /// The section called `name`, if it has contents in this file.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.name == name && s.header.sh_type != SHT_NOBITS)
    }

    /// Contents of `section`, decompressed.
    ///
    /// # Errors
    /// If it lies outside the file or does not decompress.
    pub fn contents(&self, section: &Section) -> Result<Vec<u8>, SymbolError> {
        if section.header.sh_type == SHT_NOBITS {
            return Ok(Vec::new());
        }
        let raw = self.bytes(section.header.sh_offset, section.header.sh_size, &section.name)?;
        if section.header.sh_flags & u64::from(SHF_COMPRESSED) == 0 {
            return Ok(raw);
        }
        let damaged = |detail: String| self.damaged(&section.name, detail);
        let word = |at: usize| raw.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        let (Some(kind), Some(size)) = (word(0), word(8)) else {
            return Err(damaged("compression header breaks off".into()));
        };
        let format = match kind & 0xffff_ffff {
            1 => CompressionFormat::Zlib,
            2 => CompressionFormat::Zstandard,
            other => return Err(damaged(format!("compression {other} is unknown"))),
        };
        // No real compressor gains more than a factor of about 1000 (deflate's limit is 1032).
        if size > LARGEST_SECTION || size / 2048 > raw.len() as u64 {
            return Err(damaged(format!("claims to expand to {size} bytes")));
        }
        CompressedData { format, data: &raw[24.min(raw.len())..], uncompressed_size: size }
            .decompress()
            .map(|data| data.into_owned())
            .map_err(|e| damaged(e.to_string()))
    }

    /// Contents of the section called `name`, decompressed; empty if there is none.
    ///
    /// # Errors
    /// As [`contents`](Self::contents).
    pub fn contents_of(&self, name: &str) -> Result<Vec<u8>, SymbolError> {
        self.section(name).map_or(Ok(Vec::new()), |s| self.contents(s))
    }

    /// Whether a segment takes `address`, zero-initialised data included.
    pub fn is_in_memory(&self, address: u64) -> bool {
        let loads = self.segments.iter().filter(|p| p.p_type == PT_LOAD);
        loads.into_iter().any(|p| (p.p_vaddr..p.p_vaddr.saturating_add(p.p_memsz)).contains(&address))
    }

    /// Bytes that are loaded at virtual addresses `start..end`, as the file holds them; `None` if it does not.
    pub fn loaded(&self, start: u64, end: u64) -> Option<Vec<u8>> {
        let segments = self.segments.iter().filter(|p| p.p_type == PT_LOAD);
        let mut parts = segments.map(|p| (p.p_vaddr, p.p_filesz, p.p_offset));
        let sections = self.sections.iter().filter(|s| s.is_code() && self.is_relocatable());
        let mut sections = sections.map(|s| (s.header.sh_addr, s.header.sh_size, s.header.sh_offset));
        let holds = |(at, size, _): &(u64, u64, u64)| *at <= start && end <= at.saturating_add(*size);
        let (at, _, offset) = parts.find(holds).or_else(|| sections.find(holds))?;
        self.bytes(offset.checked_add(start - at)?, end.checked_sub(start)?, "code").ok()
    }

    /// Virtual address ranges that hold code: executable sections, or executable segments if the section headers were
    /// stripped.
    pub fn code_ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<_> =
            self.sections.iter().filter(|s| s.is_code()).map(|s| (s.header.sh_addr, s.end())).collect();
        if ranges.is_empty() {
            let executable = |p: &&ProgramHeader| p.p_type == PT_LOAD && p.p_flags & PF_X != 0;
            let range = |p: &ProgramHeader| (p.p_vaddr, p.p_vaddr.saturating_add(p.p_filesz));
            ranges = self.segments.iter().filter(executable).map(range).collect();
        }
        ranges.retain(|(start, end)| start < end);
        ranges.sort_unstable();
        ranges
    }

    /// Address ranges of executable sections, whether their code is in this file or only in memory.
    pub fn placed_code(&self) -> Vec<(u64, u64)> {
        let executable = |s: &&Section| s.header.sh_flags & u64::from(SHF_EXECINSTR) != 0;
        self.sections.iter().filter(executable).map(|s| (s.header.sh_addr, s.end())).collect()
    }

    /// GNU build id in lower-case hexadecimal.
    pub fn build_id(&self) -> Option<String> {
        let from_section = self.sections.iter().filter(|s| s.header.sh_type == SHT_NOTE).find_map(|s| {
            let notes = self.bytes(s.header.sh_offset, s.header.sh_size.min(1 << 16), "notes").ok()?;
            build_id::from_notes(&notes)
        });
        from_section.or_else(|| {
            let notes = self.segments.iter().filter(|p| p.p_type == PT_NOTE);
            let mut contents = notes.filter_map(|p| self.bytes(p.p_offset, p.p_filesz.min(1 << 16), "notes").ok());
            contents.find_map(|notes| build_id::from_notes(&notes))
        })
    }

    /// The parse context for goblin.
    pub fn context(&self) -> Ctx {
        CONTEXT
    }

    fn bytes(&self, offset: u64, size: u64, part: &str) -> Result<Vec<u8>, SymbolError> {
        self.reader.bytes(offset, size).map_err(|error| of_part(&self.path, part, error))
    }

    fn damaged(&self, part: &str, detail: String) -> SymbolError {
        SymbolError::Damaged { path: self.path.clone(), part: part.to_owned(), detail }
    }
}

/// A relocatable file that is mapped as it is has its sections at their file offsets; those that were put elsewhere say so.
fn place_as_in_file(header: &mut SectionHeader) {
    if header.sh_flags & u64::from(SHF_ALLOC) != 0 && header.sh_addr == 0 {
        header.sh_addr = header.sh_offset;
    }
}

/// The error of reading `part` of the file at `path`.
fn of_part(path: &Path, part: &str, error: io::Error) -> SymbolError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::InvalidData => SymbolError::Damaged { path, part: part.to_owned(), detail: error.to_string() },
        _ => SymbolError::Read { path, source: error },
    }
}

/// The string that begins at `offset` of string table `table`.
pub fn string_at(table: &[u8], offset: usize) -> Option<String> {
    let rest = table.get(offset..)?;
    let end = rest.iter().position(|b| *b == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}
