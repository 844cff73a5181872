//! The places of BLAS's matrix products in one program image.

use std::collections::HashSet;

use crate::translator::code_cache::hash::AddressMap;
use rprof_tracee::blas::find::BlasSymbols;
use rprof_tracee::blas::functions::{Behind, BlasFunction};

/// A matrix product at an address.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The function.
    pub function: BlasFunction,
    /// Index of its name.
    name: u32,
    /// Its pointers can be read in line: they are those of a library's function.
    is_of_library: bool,
}

impl Entry {
    /// The pointers that its record has the targets of.
    pub fn behind(&self) -> &'static [Behind] {
        if self.is_of_library { self.function.behind() } else { &[] }
    }

    /// Its pointers must be read by rprof while it is called: a program's own function of such a name may be given anything.
    pub fn is_read_at_once(&self) -> bool {
        !self.is_of_library && !self.function.behind().is_empty()
    }
}

/// Functions by address.
#[derive(Debug, Default)]
pub struct Places {
    entries: AddressMap<u64, Entry>,
    names: Vec<String>,
    /// Modules, and the addresses they are mapped at: they may be closed, and opened again elsewhere.
    known: HashSet<(u32, u64)>,
}

impl Places {
    /// Adds what module `number` has, which is mapped with `bias`.
    pub fn add(&mut self, number: u32, symbols: &BlasSymbols, bias: u64) {
        if !self.known.insert((number, bias)) {
            return;
        }
        for found in &symbols.functions {
            let entry =
                Entry { function: found.function, name: self.names.len() as u32, is_of_library: symbols.is_library };
            self.entries.insert(found.at.wrapping_add(bias), entry);
            self.names.push(found.name.clone());
        }
    }

    /// The function that begins at `at`.
    pub fn entry(&self, at: u64) -> Option<Entry> {
        self.entries.get(&at).copied()
    }

    /// Its symbol.
    pub fn name(&self, entry: Entry) -> &str {
        &self.names[entry.name as usize]
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
