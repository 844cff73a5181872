//! MPI's functions and datatypes in an ELF file.

use std::path::Path;

use super::datatypes::{Family, bytes_of_symbol};
use super::functions::{Binding, named};
use crate::elf_reader::{DefinedSymbol, FUNCTION, OBJECT};

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

/// The parts of MPI in a file.
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

    /// Whether it is a library: calls from within it are MPI's own.
    pub fn is_library(&self) -> bool {
        !self.is_program && (self.is_part || self.functions.len() > OF_A_LIBRARY)
    }

    /// Adds the function or datatype that `symbol` names, if it is one of MPI.
    pub fn add(&mut self, symbol: DefinedSymbol<'_>) {
        let DefinedSymbol { name, kind, at, bytes } = symbol;
        // The names that matter begin with MPI_, PMPI_, mpi_, pmpi_ and ompi_mpi_, and there is main.
        if !matches!(name.first(), Some(b'M' | b'P' | b'm' | b'p' | b'o')) {
            return;
        }
        let Ok(name) = std::str::from_utf8(name) else { return };
        match kind {
            OBJECT => {
                if name == "ompi_mpi_comm_world" {
                    (self.family, self.world) = (Some(Family::OpenMpi), Some(at));
                }
                self.datatypes.extend(bytes_of_symbol(name).map(|bytes| (at, bytes)));
            }
            FUNCTION if name == "main" => self.is_program = true,
            FUNCTION => {
                self.functions.extend(named(name).map(|(function, binding)| Found { at, bytes, function, binding }));
            }
            _ => {}
        }
    }

    /// The joint result of the symbols of the file at `path`.
    pub fn finish(mut self, path: &Path) -> MpiSymbols {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        self.is_part = PARTS.iter().any(|part| file.starts_with(part));
        self.functions.sort_by_key(|f| (f.at, f.binding == Binding::Fortran));
        self.functions.dedup_by_key(|f| f.at);
        let has_c = self.functions.iter().any(|f| f.binding != Binding::Fortran);
        if self.functions.len() > OF_A_LIBRARY && has_c {
            let of_mpich = || if file.starts_with("libmpi_abi") { Family::Abi } else { Family::Mpich };
            self.family = self.family.or_else(|| Some(of_mpich()));
        }
        self
    }
}
