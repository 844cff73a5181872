//! Functions with calls that are recorded in line, and the return addresses of these calls.

use crate::translator::code_cache::hash::AddressMap;
use crate::translator::code_cache::{blas_places, mpi_places};
use rprof_tracee::blas::functions::Behind;
use rprof_tracee::mpi::functions::Binding;

/// A start of a block that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// A function begins.
    Call {
        /// Its arguments on the stack: words above the return address.
        on_stack: u8,
        /// Pointer arguments with targets that are recorded, too.
        behind: &'static [Behind],
        /// rprof must see the call at once; else it may read of it later.
        at_once: bool,
    },
    /// A function returns.
    Return {
        /// At once.
        at_once: bool,
    },
}

/// Functions of all families by address.
#[derive(Debug, Default)]
pub struct WatchedPlaces {
    /// MPI.
    pub mpi: mpi_places::Places,
    /// Matrix products.
    pub blas: blas_places::Places,
    /// Return addresses of watched calls, and whether rprof must see that at once.
    returns: AddressMap<u64, bool>,
}

impl WatchedPlaces {
    /// Watches the return to `at`. False: it is watched already.
    pub fn watch_return(&mut self, at: u64, at_once: bool) -> bool {
        let before = self.returns.insert(at, at_once || self.returns.get(&at).copied().unwrap_or(false));
        before.is_none() || before == Some(false) && at_once
    }

    /// The call watched at the start of the block at `at`.
    pub fn at(&self, at: u64) -> Option<Watched> {
        if self.mpi.is_empty() && self.blas.is_empty() {
            return None;
        }
        if let Some(entry) = self.mpi.watched(at) {
            let at_once = entry.function().is_read_at_once() && entry.binding != Binding::Fortran;
            return Some(Watched::Call { on_stack: entry.on_stack(), behind: &[], at_once });
        }
        if let Some(entry) = self.blas.entry(at) {
            return Some(Watched::Call { on_stack: 0, behind: entry.behind(), at_once: entry.is_read_at_once() });
        }
        self.returns.get(&at).map(|&at_once| Watched::Return { at_once })
    }
}
