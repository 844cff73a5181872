//! Places of code: modules and offsets in them, the keys by which evidence is joined.

use serde::{Deserialize, Serialize};

/// A place in a module's code. Evidence of different passes is joined by (module identity, offset).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CodeRef {
    /// Index into the evidence's `modules`.
    pub module: u32,
    /// For [`ModuleKind::File`]: the virtual address as the ELF file states it (run-time address − load bias); for
    /// [`ModuleKind::Vdso`]: the offset from its start.
    /// For all other kinds: the run-time address.
    pub offset: u64,
}

/// A module that code was seen in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// The kind of mapping.
    pub kind: ModuleKind,
    /// Path as the process's map names it, bytes that are no UTF-8 as `\xHH`; `[vdso]`, `[anon]`, `[kernel]` otherwise.
    pub path: String,
    /// GNU build id in lower-case hexadecimal, if the file has one.
    pub build_id: Option<String>,
    /// Process that it was seen in first (JIT maps are kept per process).
    pub pid: u32,
    /// The load bias of its first mapping: run-time address − ELF virtual address.
    pub bias: u64,
}

/// The name of executable memory that no file backs.
pub const ANONYMOUS: &str = "[anon]";

/// The kind of a module's mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModuleKind {
    /// An ELF file.
    File,
    /// The vdso.
    Vdso,
    /// Anonymous executable memory: code made at run time.
    Anonymous,
    /// Kernel code.
    Kernel,
}

impl ModuleInfo {
    /// The identity by which modules of different passes are the same: build id, else path.
    pub fn identity(&self) -> &str {
        self.build_id.as_deref().unwrap_or(&self.path)
    }

    /// The file name part of the path, for display.
    pub fn file_name(&self) -> &str {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        path.rsplit('/').next().unwrap_or(path)
    }
}
