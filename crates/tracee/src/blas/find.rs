//! Matrix products in an ELF file.

use super::functions::{BlasFunction, Convention, named};
use crate::elf_reader::{DefinedSymbol, FUNCTION};

/// A file with as many of these functions is a library of BLAS: their arguments are those of BLAS.
const OF_A_LIBRARY: usize = 8;

/// A matrix product in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Virtual address.
    pub at: u64,
    /// Its symbol.
    pub name: String,
    /// Which one it is.
    pub function: BlasFunction,
}

/// The matrix products of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlasSymbols {
    /// By address, each once.
    pub functions: Vec<Found>,
    /// The file is a library of BLAS: the pointers that its functions are given can be read.
    pub is_library: bool,
}

impl BlasSymbols {
    /// Adds the function that `symbol` names, if it is one.
    pub fn add(&mut self, symbol: DefinedSymbol<'_>) {
        // The names begin with an element's letter, cblas_, scipy_ or dnnl_.
        if symbol.kind != FUNCTION || !matches!(symbol.name.first(), Some(b's' | b'd' | b'c' | b'z')) {
            return;
        }
        let Ok(name) = std::str::from_utf8(symbol.name) else { return };
        self.functions.extend(named(name).map(|function| Found { at: symbol.at, name: name.to_owned(), function }));
    }

    /// The functions of the whole file.
    pub fn finish(mut self) -> BlasSymbols {
        // Of several names at one address C's first, then the one that ends in an underscore.
        self.functions.sort_by(|a, b| {
            let key = |f: &Found| (f.at, f.function.convention == Convention::Fortran, !f.name.ends_with('_'));
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        self.functions.dedup_by_key(|f| f.at);
        self.is_library = self.functions.len() >= OF_A_LIBRARY;
        if !self.is_library {
            // A program's own `dgemm` may be anything.
            self.functions.retain(|f| f.function.convention != Convention::Fortran || f.name.ends_with('_'));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(names: &[(&str, u64)]) -> BlasSymbols {
        let mut symbols = BlasSymbols::default();
        for &(name, at) in names {
            symbols.add(DefinedSymbol { name: name.as_bytes(), kind: FUNCTION, at, bytes: 1 });
        }
        symbols.finish()
    }

    #[test]
    fn a_library_has_many() {
        let own = symbols(&[("dgemm", 1), ("dgemm_", 2), ("main", 3)]);
        assert_eq!(own.functions.iter().map(|f| &*f.name).collect::<Vec<_>>(), ["dgemm_"]);
        assert!(!own.is_library);
        let names = ["sgemm", "dgemm", "cgemm", "zgemm", "sgemv", "dgemv", "cgemv", "zgemv"];
        let all: Vec<_> = names.iter().enumerate().map(|(i, name)| (*name, i as u64)).collect();
        let library = symbols(&[&all[..], &[("dgemm_", 1), ("cblas_zgemm", 3)]].concat());
        assert!(library.is_library);
        let names: Vec<_> = library.functions.iter().map(|f| &*f.name).collect();
        assert_eq!(names, ["sgemm", "dgemm_", "cgemm", "cblas_zgemm", "sgemv", "dgemv", "cgemv", "zgemv"]);
    }
}
