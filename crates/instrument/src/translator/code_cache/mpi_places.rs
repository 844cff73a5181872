//! The places of MPI's functions in one program image.

use std::collections::HashSet;
use std::ops::Range;

use crate::translator::code_cache::hash::AddressMap;
use rprof_tracee::mpi::datatypes::Family;
use rprof_tracee::mpi::find::{Found, MpiSymbols};
use rprof_tracee::mpi::functions::{Binding, FUNCTIONS, Function};

/// A function of MPI at an address.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Index in [`FUNCTIONS`].
    pub function: u16,
    /// Its binding.
    pub binding: Binding,
}

impl Entry {
    /// Its arguments that are not in registers.
    pub fn on_stack(&self) -> u8 {
        self.function().arguments.saturating_sub(6)
    }

    /// The function.
    pub fn function(&self) -> &'static Function {
        &FUNCTIONS[usize::from(self.function)]
    }
}

/// A module by its number, and the address it is mapped at: it may be closed, and opened again elsewhere.
type Mapped = (u32, u64);

/// An entry of a module.
#[derive(Debug, Clone, Copy)]
struct Placed {
    entry: Entry,
    module: Mapped,
    /// Another module has taken its place. Records of its last calls may still be unread.
    is_gone: bool,
}

/// Functions and datatypes by address.
#[derive(Debug, Default)]
pub struct Places {
    entries: AddressMap<u64, Placed>,
    /// Code of MPI: its calls are not the program's.
    inside: Vec<(Range<u64>, Mapped)>,
    /// Objects behind handles, and the bytes of an element.
    pub datatypes: Vec<(u64, u8)>,
    /// Open MPI's `MPI_COMM_WORLD`.
    pub worlds: Vec<u64>,
    /// A program has MPI linked into it: it is not known which of its code is MPI's.
    pub is_linked_in: bool,
    /// The library.
    pub family: Option<Family>,
    /// There are libraries of several families: a handle's family is not known.
    pub is_mixed: bool,
    /// System calls on sockets are to be recorded if there is MPI.
    pub sees_sockets: bool,
    known: HashSet<Mapped>,
}

impl Places {
    /// Adds what module `number` has, mapped at `text` with `bias`.
    pub fn add(&mut self, number: u32, symbols: &MpiSymbols, bias: u64, text: Range<u64>) {
        let module = (number, bias);
        self.forget_others(module, &text);
        if symbols.is_library() {
            self.inside.push((text, module));
        }
        if !self.known.insert(module) {
            return;
        }
        for Found { at, bytes, function, binding } in &symbols.functions {
            let at = at.wrapping_add(bias);
            let entry = Entry { function: *function, binding: *binding };
            self.entries.insert(at, Placed { entry, module, is_gone: false });
            if !symbols.is_library() {
                self.inside.push((at..at.wrapping_add(*bytes), module));
            }
        }
        self.is_linked_in |= symbols.is_linked_in();
        self.datatypes.extend(symbols.datatypes.iter().map(|(at, bytes)| (at.wrapping_add(bias), *bytes)));
        self.worlds.extend(symbols.world.map(|at| at.wrapping_add(bias)));
        self.is_mixed |= self.family.zip(symbols.family).is_some_and(|(known, other)| known != other);
        self.family = self.family.or(symbols.family);
    }

    /// Other modules that were in `text` before `module` was mapped there are gone.
    fn forget_others(&mut self, module: Mapped, text: &Range<u64>) {
        self.inside.retain(|(range, of)| *of == module || range.end <= text.start || text.end <= range.start);
        for (_, placed) in self.entries.iter_mut().filter(|(at, placed)| placed.module != module && text.contains(at)) {
            placed.is_gone = true;
            self.known.remove(&placed.module);
        }
    }

    /// Whether system calls on sockets have to be recorded from now on; true once.
    pub fn begins_to_see_sockets(&mut self) -> bool {
        let begins = self.sees_sockets && self.family.is_some();
        self.sees_sockets &= !begins;
        begins
    }

    /// The function that begins at `at`, or began there when a record was made.
    pub fn entry(&self, at: u64) -> Option<Entry> {
        self.entries.get(&at).map(|placed| placed.entry)
    }

    /// The function that begins at `at` now. Without a library, those of a program have only such names.
    pub fn watched(&self, at: u64) -> Option<Entry> {
        self.family?;
        self.entries.get(&at).filter(|placed| !placed.is_gone).map(|placed| placed.entry)
    }

    /// Whether the code at `at` is MPI's own.
    pub fn is_inside(&self, at: u64) -> bool {
        self.inside.iter().any(|(range, _)| range.contains(&at))
    }

    /// There is no function of MPI.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_tracee::mpi::functions::named;

    /// A library with this number of MPI functions, 16 bytes apart.
    fn library(functions: u64, family: Family) -> MpiSymbols {
        let (function, binding) = named("MPI_Send").unwrap();
        let found = |i| Found { at: 16 * i, bytes: 16, function, binding };
        MpiSymbols { functions: (0..functions).map(found).collect(), family: Some(family), ..MpiSymbols::default() }
    }

    #[test]
    fn a_library_that_is_closed_and_opened_elsewhere_is_found_again() {
        let mut places = Places::default();
        let mpi = library(50, Family::Mpich);
        places.add(3, &mpi, 0x1000, 0x1000..0x2000);
        places.add(3, &mpi, 0x8000, 0x8000..0x9000);
        assert!(places.watched(0x8010).is_some() && places.is_inside(0x8888));
        assert!(!places.is_mixed);
    }

    #[test]
    fn what_takes_the_place_of_a_library_is_none() {
        let mut places = Places::default();
        let mpi = library(50, Family::Mpich);
        places.add(3, &mpi, 0x1000, 0x1000..0x2000);
        places.add(4, &MpiSymbols::default(), 0x1000, 0x1000..0x1100);
        assert!(places.watched(0x1010).is_none() && !places.is_inside(0x1010));
        assert!(places.entry(0x1010).is_some(), "a call that was recorded before");
        assert!(places.watched(0x1110).is_some(), "the rest of it");
        places.add(3, &mpi, 0x1000, 0x1000..0x2000);
        assert!(places.watched(0x1010).is_some() && places.is_inside(0x1010));
    }

    #[test]
    fn functions_of_such_names_are_those_of_mpi_where_there_is_a_library() {
        let mut places = Places::default();
        let own =
            MpiSymbols { functions: library(3, Family::Mpich).functions, is_program: true, ..MpiSymbols::default() };
        places.add(1, &own, 0x1000, 0x1000..0x2000);
        assert!(places.watched(0x1010).is_none());
        places.add(2, &library(50, Family::Mpich), 0x4000, 0x4000..0x5000);
        assert!(places.watched(0x1010).is_some(), "a wrapper");
    }

    #[test]
    fn handles_of_two_families_are_of_nobody_knows_which() {
        let mut places = Places::default();
        places.add(3, &library(50, Family::Mpich), 0x1000, 0x1000..0x2000);
        places.add(4, &library(50, Family::OpenMpi), 0x4000, 0x4000..0x5000);
        assert!(places.is_mixed);
    }
}
