//! Where MPI is in one program image.

use std::collections::HashSet;
use std::ops::Range;

use crate::instrument::translator::code_cache::hash::AddressMap;
use crate::tracee::mpi::datatypes::Family;
use crate::tracee::mpi::find::{Found, MpiSymbols};
use crate::tracee::mpi::functions::{Binding, FUNCTIONS, Function};

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

/// Functions and datatypes by address.
#[derive(Debug, Default)]
pub struct Places {
    entries: AddressMap<u64, Entry>,
    /// Code of MPI: what it calls is not the program's call.
    inside: Vec<Range<u64>>,
    /// Objects behind handles, and the bytes of an element.
    pub datatypes: Vec<(u64, u8)>,
    /// Open MPI's `MPI_COMM_WORLD`.
    pub worlds: Vec<u64>,
    /// A program has MPI linked into it: of the code in it no one knows what is MPI's.
    pub is_linked_in: bool,
    /// The library.
    pub family: Option<Family>,
    /// System calls on sockets are to be recorded where there is MPI.
    pub sees_sockets: bool,
    known: HashSet<u32>,
}

impl Places {
    /// Adds what module `number` has, mapped at `text` with `bias`.
    pub fn add(&mut self, number: u32, symbols: &MpiSymbols, bias: u64, text: Range<u64>) {
        if symbols.is_library() {
            self.inside.push(text);
        }
        if !self.known.insert(number) {
            return;
        }
        for Found { at, bytes, function, binding } in &symbols.functions {
            let at = at.wrapping_add(bias);
            self.entries.insert(at, Entry { function: *function, binding: *binding });
            if !symbols.is_library() {
                self.inside.push(at..at.wrapping_add(*bytes));
            }
        }
        self.is_linked_in |= symbols.is_linked_in();
        self.datatypes.extend(symbols.datatypes.iter().map(|(at, bytes)| (at.wrapping_add(bias), *bytes)));
        self.worlds.extend(symbols.world.map(|at| at.wrapping_add(bias)));
        self.family = self.family.or(symbols.family);
    }

    /// Whether system calls on sockets have to be recorded from now on; true once.
    pub fn begins_to_see_sockets(&mut self) -> bool {
        let begins = self.sees_sockets && !self.entries.is_empty();
        self.sees_sockets &= !begins;
        begins
    }

    /// The function that begins at `at`.
    pub fn entry(&self, at: u64) -> Option<Entry> {
        self.entries.get(&at).copied()
    }

    /// Whether the code at `at` is MPI's own.
    pub fn is_inside(&self, at: u64) -> bool {
        self.inside.iter().any(|range| range.contains(&at))
    }

    /// There is no function of MPI.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
