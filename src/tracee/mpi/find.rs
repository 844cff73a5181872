//! MPI's functions and datatypes in an ELF file.

use std::io;
use std::path::Path;

use goblin::elf::section_header::{SHT_DYNSYM, SHT_SYMTAB};

use super::datatypes::{Family, bytes_of_symbol};
use super::functions::{Binding, named};
use crate::tracee::elf_reader::ElfReader;

/// Bytes of a symbol: name (4), kind (1), other (1), section (2), value (8), size (8).
const SYMBOL: usize = 24;
/// Kinds (the lower four bits).
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;
const LONGEST_NAME: usize = 64;
/// A file with more functions of MPI than this is a library of it; programs and tools define a few.
const OF_A_LIBRARY: usize = 40;

/// How the names of files begin that libraries of MPI load: Open MPI's, MPICH's, and what both send with.
const PARTS: [&str; 10] =
    ["mca_", "libmca_", "libopen-pal", "libopen-rte", "libpmix", "libmpi", "libromio", "libucp", "libucs", "libfabric"];

/// A function of MPI in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Virtual address.
    pub at: u64,
    /// Bytes of its code; 0 if unknown.
    pub bytes: u64,
    /// Index in [`FUNCTIONS`](super::functions::FUNCTIONS).
    pub function: u16,
    /// Its binding.
    pub binding: Binding,
}

/// What a file has of MPI.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MpiSymbols {
    /// By address, each once.
    pub functions: Vec<Found>,
    /// (virtual address, bytes of an element).
    pub datatypes: Vec<(u64, u8)>,
    /// Open MPI's `MPI_COMM_WORLD` (virtual address).
    pub world: Option<u64>,
    /// A file that a library of MPI loads: its components, and what they use.
    pub is_part: bool,
    /// It has a `main`: MPI may be linked into the program.
    pub is_program: bool,
    /// The library's family, if the file shows it.
    pub family: Option<Family>,
}

impl MpiSymbols {
    /// Whether MPI is linked into it.
    pub fn is_linked_in(&self) -> bool {
        self.is_program && self.functions.len() > OF_A_LIBRARY
    }

    /// Whether it is a library: what is called from within it is called by MPI itself.
    pub fn is_library(&self) -> bool {
        !self.is_program && (self.is_part || self.functions.len() > OF_A_LIBRARY)
    }
}

/// Reads the symbols of the file at `path`.
///
/// # Errors
/// The file cannot be read, or is not a 64-bit little-endian ELF file (`InvalidData`).
pub fn mpi_symbols(path: &Path) -> io::Result<MpiSymbols> {
    let image = ElfReader::open(path)?;
    let sections = image.sections()?;
    let mut found = MpiSymbols::default();
    for table in sections.iter().filter(|s| matches!(s.sh_type, SHT_SYMTAB | SHT_DYNSYM)) {
        let Some(names) = sections.get(table.sh_link as usize) else { continue };
        let (symbols, names) =
            (image.bytes(table.sh_offset, table.sh_size)?, image.bytes(names.sh_offset, names.sh_size)?);
        for symbol in symbols.chunks_exact(SYMBOL) {
            // No file that has nothing of MPI may cost much.
            add(&mut found, symbol, &names);
        }
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    found.is_part = PARTS.iter().any(|part| file.starts_with(part));
    found.functions.sort_by_key(|f| (f.at, f.binding == Binding::Fortran));
    found.functions.dedup_by_key(|f| f.at);
    if found.functions.len() > OF_A_LIBRARY
        && found.family.is_none()
        && !found.functions.iter().all(|f| f.binding == Binding::Fortran)
    {
        let is_abi = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libmpi_abi"));
        found.family = Some(if is_abi { Family::Abi } else { Family::Mpich });
    }
    Ok(found)
}

fn add(found: &mut MpiSymbols, symbol: &[u8], names: &[u8]) -> Option<()> {
    let word = |at: usize| Some(u64::from_le_bytes(*symbol.get(at..)?.first_chunk::<8>()?));
    let (name, section) = (u32::from_le_bytes(*symbol.first_chunk::<4>()?), u16::from_le_bytes([symbol[6], symbol[7]]));
    let (at, bytes, kind) = (word(8)?, word(16)?, symbol[4] & 0xf);
    if at == 0 || section == 0 || !matches!(kind, OBJECT | FUNCTION) {
        return None;
    }
    let name = names.get(name as usize..)?;
    // The names that matter begin with MPI_, PMPI_, mpi_, pmpi_ and ompi_mpi_.
    if !matches!(name.first()?, b'M' | b'P' | b'm' | b'p' | b'o') {
        return None;
    }
    let end = name.iter().take(LONGEST_NAME).position(|&b| b == 0)?;
    let name = std::str::from_utf8(&name[..end]).ok()?;
    if kind == OBJECT {
        if name == "ompi_mpi_comm_world" {
            (found.family, found.world) = (Some(Family::OpenMpi), Some(at));
        }
        let bytes = bytes_of_symbol(name)?;
        found.datatypes.push((at, bytes));
    } else if name == "main" {
        found.is_program = true;
    } else {
        let (function, binding) = named(name)?;
        found.functions.push(Found { at, bytes, function, binding });
    }
    Some(())
}
