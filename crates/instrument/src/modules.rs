//! The modules that the program's code lies in, and the watched functions in them: markers, and those of MPI and BLAS.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::unistd::Pid;

use rprof_profile::code::{ModuleInfo, ModuleKind};
use rprof_tracee::blas::find::BlasSymbols;
use rprof_tracee::elf_reader::ElfReader;
use rprof_tracee::maps::Mapping;
use rprof_tracee::markers::{Marker, find};
use rprof_tracee::modules::{Located, ModuleTable};
use rprof_tracee::mpi::find::MpiSymbols;

/// The modules met so far.
#[derive(Debug, Default)]
pub struct Modules {
    table: ModuleTable,
    /// By module.
    watched: HashMap<u32, Watched>,
}

/// The watched functions of a module.
#[derive(Debug, Default)]
pub struct Watched {
    /// Marker functions: (offset, which).
    pub markers: Vec<(u64, Marker)>,
    /// Its functions of MPI.
    pub mpi: MpiSymbols,
    /// Its functions of BLAS.
    pub blas: BlasSymbols,
}

impl Watched {
    /// Reads the symbols of the file at `path`.
    fn read(path: &Path) -> io::Result<Watched> {
        let (mut markers, mut mpi, mut blas) = (find::Found::default(), MpiSymbols::default(), BlasSymbols::default());
        ElfReader::open(path)?.defined_symbols(|symbol| {
            markers.add(symbol);
            mpi.add(symbol);
            blas.add(symbol);
        })?;
        Ok(Watched { markers: markers.finish(), mpi: mpi.finish(path), blas: blas.finish() })
    }
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

    /// The watched functions of a module that process `pid` has mapped.
    pub fn watched(&mut self, pid: Pid, module: u32) -> &Watched {
        if !self.watched.contains_key(&module) {
            let path = self.file(module).map(|path| format!("/proc/{pid}/root{path}"));
            let found = path.and_then(|path| Watched::read(Path::new(&path)).ok()).unwrap_or_default();
            self.watched.insert(module, found);
        }
        &self.watched[&module]
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
        // One that failed in the middle leaves at most a module without its watched functions.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
