//! The modules that the program's code lies in, and the functions in them whose calls are watched: markers, and those of MPI.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::unistd::Pid;

use crate::profile::code::{ModuleInfo, ModuleKind};
use crate::tracee::maps::Mapping;
use crate::tracee::markers::{Marker, find};
use crate::tracee::modules::{Located, ModuleTable};
use crate::tracee::mpi::find::{MpiSymbols, mpi_symbols};

/// The modules met so far.
#[derive(Debug, Default)]
pub struct Modules {
    table: ModuleTable,
    /// Marker functions by module.
    markers: HashMap<u32, Vec<(u64, Marker)>>,
    /// What modules have of MPI.
    mpi: HashMap<u32, MpiSymbols>,
}

impl Modules {
    /// The module of `mapping` in process `pid`.
    pub fn locate(&mut self, pid: Pid, mapping: &Mapping) -> Located {
        self.table.locate(pid, mapping)
    }

    /// The path of a module that is a file.
    pub fn file(&self, module: u32) -> Option<&str> {
        let info = self.table.modules().get(module as usize)?;
        (info.kind == ModuleKind::File).then_some(info.path.as_str())
    }

    /// The marker functions in a module that process `pid` has mapped: (offset, which).
    pub fn markers(&mut self, pid: Pid, module: u32) -> &[(u64, Marker)] {
        if !self.markers.contains_key(&module) {
            let path = self.file(module).map(|path| format!("/proc/{pid}/root{path}"));
            let found = path.and_then(|path| find::markers(Path::new(&path)).ok()).unwrap_or_default();
            self.markers.insert(module, found);
        }
        &self.markers[&module]
    }

    /// What a module that process `pid` has mapped has of MPI.
    pub fn mpi(&mut self, pid: Pid, module: u32) -> &MpiSymbols {
        if !self.mpi.contains_key(&module) {
            let path = self.file(module).map(|path| format!("/proc/{pid}/root{path}"));
            let found = path.and_then(|path| mpi_symbols(Path::new(&path)).ok()).unwrap_or_default();
            self.mpi.insert(module, found);
        }
        &self.mpi[&module]
    }

    /// All of them, by number.
    pub fn finish(self) -> Vec<ModuleInfo> {
        self.table.into_modules()
    }
}

/// The modules of a run, which every thread of rprof that translates looks up.
#[derive(Debug, Clone, Default)]
pub struct SharedModules(Arc<Mutex<Modules>>);

impl SharedModules {
    /// The modules, for this thread alone.
    pub fn lock(&self) -> MutexGuard<'_, Modules> {
        // One that failed in the middle leaves at most a module without its markers.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
