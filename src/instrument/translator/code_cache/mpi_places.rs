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

/// What stands at the start of a block that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// A function begins, with so many arguments on the stack. rprof must see the call at once, or may read of it later.
    Call {
        /// Words above the return address.
        on_stack: u8,
        /// At once.
        at_once: bool,
    },
    /// A function returns.
    Return {
        /// At once.
        at_once: bool,
    },
}

/// Functions, call sites and datatypes by address.
#[derive(Debug, Default)]
pub struct Places {
    entries: AddressMap<u64, Entry>,
    /// Where watched calls return, and whether rprof must see that at once.
    returns: AddressMap<u64, bool>,
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

    /// Watches the return to `at`. False: it is watched already.
    pub fn watch_return(&mut self, at: u64, at_once: bool) -> bool {
        let before = self.returns.insert(at, at_once || self.returns.get(&at).copied().unwrap_or(false));
        before.is_none() || before == Some(false) && at_once
    }

    /// What is watched at the start of the block at `at`.
    pub fn watched(&self, at: u64) -> Option<Watched> {
        if self.entries.is_empty() {
            return None;
        }
        if let Some(entry) = self.entries.get(&at) {
            let function = entry.function();
            return Some(Watched::Call {
                on_stack: entry.on_stack(),
                at_once: function.is_read_at_once() && entry.binding != Binding::Fortran,
            });
        }
        self.returns.get(&at).map(|&at_once| Watched::Return { at_once })
    }
}
