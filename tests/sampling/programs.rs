//! Fixture programs, compiled when a test needs them, and their symbols.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use rprof::profile::code::CodeRef;
use rprof::profile::evidence::timed::TimedEvidence;
use rprof::tracee::launch::{Gated, Program, Streams, find_in_path, spawn_gated};

/// A compiled fixture.
pub struct Fixture {
    pub path: PathBuf,
    symbols: HashMap<String, (u64, u64)>,
    _directory: tempfile::TempDir,
}

impl Fixture {
    /// Compiles `fixtures/sample/NAME.c` with `flags`.
    pub fn compile(name: &str, flags: &[&str]) -> Fixture {
        Fixture::compile_of("sample", name, flags)
    }

    /// Compiles `fixtures/FOLDER/NAME.c` with `flags`.
    pub fn compile_of(folder: &str, name: &str, flags: &[&str]) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder).join(format!("{name}.c"));
        let status = Command::new("cc").args(flags).arg(source).arg("-o").arg(&path).status().unwrap();
        assert!(status.success(), "cc failed on {name}.c");
        let bytes = std::fs::read(&path).unwrap();
        let elf = goblin::elf::Elf::parse(&bytes).unwrap();
        let named = |s: &goblin::elf::Sym| Some((elf.strtab.get_at(s.st_name)?.to_owned(), (s.st_value, s.st_size)));
        let symbols = elf.syms.iter().filter(|s| s.is_function()).filter_map(|s| named(&s)).collect();
        Fixture { path, symbols, _directory: directory }
    }

    /// A child at the gate that will run it.
    pub fn gated(&self, arguments: &[&str]) -> Gated {
        gated(self.path.to_str().unwrap(), arguments)
    }

    /// The function of this program that `code` is in.
    pub fn function(&self, evidence: &TimedEvidence, code: &CodeRef) -> Option<&str> {
        let module = &evidence.modules[code.module as usize];
        if Path::new(&module.path) != self.path {
            return None;
        }
        let inside = |(_, (start, size)): &(&String, &(u64, u64))| (*start..start + size).contains(&code.offset);
        self.symbols.iter().find(inside).map(|(name, _)| name.as_str())
    }

    /// CPU seconds in each function of the program, kernel time on its behalf included.
    pub fn cpu_by_function(&self, evidence: &TimedEvidence) -> HashMap<String, f64> {
        let mut sums = HashMap::new();
        for sample in evidence.samples.iter().filter(|s| !s.off_cpu) {
            if let Some(name) = sample.stack.first().and_then(|leaf| self.function(evidence, leaf)) {
                *sums.entry(name.to_owned()).or_insert(0.0) += sample.weight_s;
            }
        }
        sums
    }
}

/// A child at the gate that will run `name`, looked up in PATH.
pub fn gated(name: &str, arguments: &[&str]) -> Gated {
    let path = find_in_path(name.as_ref()).unwrap();
    let argv = std::iter::once(&name).chain(arguments).map(OsString::from).collect();
    spawn_gated(&Program { path, argv }, Streams::default()).unwrap()
}
