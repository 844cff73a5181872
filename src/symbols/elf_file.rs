//! An ELF file read piece by piece: headers at once, sections on demand.
//!
//! Pieces are read with `pread`, not mapped: a program that is rebuilt while its report is made must not take the
//! profiler down with SIGBUS, and a gigabyte of debug information is only read where a look-up needs it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::{self, header64};
use goblin::elf::section_header::{SHF_COMPRESSED, SHF_EXECINSTR, SHT_NOBITS, SHT_NOTE};
use goblin::elf::{ProgramHeader, SectionHeader};
use nix::sys::memfd::{MFdFlags, memfd_create};
use object::{CompressedData, CompressionFormat};

use super::error::SymbolError;

const CONTEXT: Ctx = Ctx { container: Container::Big, le: Endian::Little };
/// More than any section of a real program expands to; keeps a damaged size from exhausting memory.
const LARGEST_SECTION: u64 = 16 << 30;

/// An open ELF file.
#[derive(Debug)]
pub struct ElfFile {
    path: PathBuf,
    file: File,
    length: u64,
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
        let metadata = file.metadata().map_err(read_error)?;
        if !metadata.is_file() {
            return Err(SymbolError::Foreign { path: path.to_owned(), what: "it is not a regular file" });
        }
        let mut elf =
            ElfFile { path: path.to_owned(), file, length: metadata.len(), sections: Vec::new(), segments: Vec::new() };
        let head = elf.read_header()?;
        elf.segments = elf.read_segments(&head)?;
        elf.sections = elf.read_sections(&head)?;
        Ok(elf)
    }

    /// As [`open`](Self::open), for a file that is in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open), or if there is no memory for a copy.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, SymbolError> {
        let copy = memfd_create("elf", MFdFlags::MFD_CLOEXEC).map(File::from).map_err(std::io::Error::from);
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
        let loads = self.segments.iter().filter(|p| p.p_type == goblin::elf::program_header::PT_LOAD);
        loads.into_iter().any(|p| (p.p_vaddr..p.p_vaddr.saturating_add(p.p_memsz)).contains(&address))
    }

    /// Bytes that are loaded at virtual addresses `start..end`, as the file holds them; `None` where it does not.
    pub fn loaded(&self, start: u64, end: u64) -> Option<Vec<u8>> {
        let segment = self.segments.iter().find(|p| {
            p.p_type == goblin::elf::program_header::PT_LOAD
                && p.p_vaddr <= start
                && end <= p.p_vaddr.saturating_add(p.p_filesz)
        })?;
        let offset = segment.p_offset.checked_add(start - segment.p_vaddr)?;
        self.bytes(offset, end.checked_sub(start)?, "code").ok()
    }

    /// Virtual address ranges that hold code: executable sections, or executable segments where the section headers
    /// were stripped.
    pub fn code_ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<_> =
            self.sections.iter().filter(|s| s.is_code()).map(|s| (s.header.sh_addr, s.end())).collect();
        if ranges.is_empty() {
            let executable = |p: &&ProgramHeader| {
                p.p_type == goblin::elf::program_header::PT_LOAD && p.p_flags & goblin::elf::program_header::PF_X != 0
            };
            let range = |p: &ProgramHeader| (p.p_vaddr, p.p_vaddr.saturating_add(p.p_filesz));
            ranges = self.segments.iter().filter(executable).map(range).collect();
        }
        ranges.retain(|(start, end)| start < end);
        ranges.sort_unstable();
        ranges
    }

    /// GNU build id in lower-case hexadecimal.
    pub fn build_id(&self) -> Option<String> {
        let from_section = self.sections.iter().filter(|s| s.header.sh_type == SHT_NOTE).find_map(|s| {
            let notes = self.bytes(s.header.sh_offset, s.header.sh_size.min(1 << 16), "notes").ok()?;
            find_build_id(&notes)
        });
        from_section.or_else(|| {
            let notes = self.segments.iter().filter(|p| p.p_type == goblin::elf::program_header::PT_NOTE);
            let mut contents = notes.filter_map(|p| self.bytes(p.p_offset, p.p_filesz.min(1 << 16), "notes").ok());
            contents.find_map(|notes| find_build_id(&notes))
        })
    }

    /// The parse context for goblin.
    pub fn context(&self) -> Ctx {
        CONTEXT
    }

    fn read_header(&self) -> Result<header64::Header, SymbolError> {
        let foreign = |what| SymbolError::Foreign { path: self.path.clone(), what };
        if self.length < 64 {
            return Err(foreign("it is not an ELF file"));
        }
        let bytes = self.bytes(0, 64, "ELF header")?;
        if bytes[..4] != header::ELFMAG[..] {
            return Err(foreign("it is not an ELF file"));
        }
        if bytes[header::EI_CLASS] != header::ELFCLASS64 || bytes[header::EI_DATA] != header::ELFDATA2LSB {
            return Err(foreign("it is not a 64-bit little-endian ELF file"));
        }
        let array: &[u8; 64] = bytes[..64].try_into().map_err(|_| foreign("it is not an ELF file"))?;
        Ok(*header64::Header::from_bytes(array))
    }

    fn read_segments(&self, head: &header64::Header) -> Result<Vec<ProgramHeader>, SymbolError> {
        let count = usize::from(head.e_phnum);
        if count == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.bytes(head.e_phoff, 56 * count as u64, "program headers")?;
        ProgramHeader::parse(&bytes, 0, count, CONTEXT).map_err(|e| self.damaged("program headers", e.to_string()))
    }

    fn read_sections(&self, head: &header64::Header) -> Result<Vec<Section>, SymbolError> {
        if head.e_shoff == 0 || head.e_shoff >= self.length {
            return Ok(Vec::new());
        }
        let parse = |count: usize| {
            let bytes = self.bytes(head.e_shoff, 64 * count as u64, "section headers")?;
            SectionHeader::parse_from(&bytes, 0, count, CONTEXT)
                .map_err(|e| self.damaged("section headers", e.to_string()))
        };
        // Files with 65,280 sections or more keep the true numbers in the first header.
        let mut count = usize::from(head.e_shnum);
        let mut names_index = usize::from(head.e_shstrndx);
        if count == 0 || names_index == 0xffff {
            let Some(first) = parse(1)?.into_iter().next() else { return Ok(Vec::new()) };
            if count == 0 {
                count = usize::try_from(first.sh_size.min(self.length / 64)).unwrap_or(0);
            }
            if names_index == 0xffff {
                names_index = first.sh_link as usize;
            }
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let headers = parse(count)?;
        let names = match headers.get(names_index) {
            Some(h) => self.bytes(h.sh_offset, h.sh_size, "section names").unwrap_or_default(),
            None => Vec::new(),
        };
        let name = |h: &SectionHeader| string_at(&names, h.sh_name).unwrap_or_default();
        Ok(headers.into_iter().map(|header| Section { name: name(&header), header }).collect())
    }

    fn bytes(&self, offset: u64, size: u64, part: &str) -> Result<Vec<u8>, SymbolError> {
        if offset.checked_add(size).is_none_or(|end| end > self.length) {
            return Err(self.damaged(part, "it lies beyond the end of the file".into()));
        }
        let mut buffer = vec![0; size as usize];
        let read = self.file.read_exact_at(&mut buffer, offset);
        read.map_err(|source| SymbolError::Read { path: self.path.clone(), source })?;
        Ok(buffer)
    }

    fn damaged(&self, part: &str, detail: String) -> SymbolError {
        SymbolError::Damaged { path: self.path.clone(), part: part.to_owned(), detail }
    }
}

/// The string that begins at `offset` of string table `table`.
pub fn string_at(table: &[u8], offset: usize) -> Option<String> {
    let rest = table.get(offset..)?;
    let end = rest.iter().position(|b| *b == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

/// Looks for NT_GNU_BUILD_ID among ELF notes.
pub fn find_build_id(notes: &[u8]) -> Option<String> {
    let word = |at: usize| notes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes);
    let mut at = 0usize;
    while let (Some(name_size), Some(data_size), Some(kind)) = (word(at), word(at + 4), word(at + 8)) {
        let name = at + 12;
        let data = name.checked_add((name_size as usize).checked_next_multiple_of(4)?)?;
        let end = data.checked_add(data_size as usize)?;
        if kind == 3 && notes.get(name..name + 4) == Some(b"GNU\0") {
            return Some(notes.get(data..end)?.iter().map(|b| format!("{b:02x}")).collect());
        }
        at = end.checked_next_multiple_of(4)?;
    }
    None
}
