//! The join's view of code: the function of an address, the functions inlined there, its source line.
//!
//! The join depends on this trait alone, so that `profile` needs no ELF or DWARF reader; `symbols` implements it.

use std::sync::Arc;

use rprof_profile::code::ModuleInfo;
use rprof_profile::run::Warning;

/// Names for addresses. Offsets are those of [`CodeRef`](rprof_profile::CodeRef): ELF virtual addresses for files, run-time addresses for
/// everything else. No method fails: unknown code gets a name made of module and offset.
pub trait Resolver {
    /// Passes on the observed starts of functions (targets of executed calls), for modules without symbols. `addresses` must be sorted.
    /// Takes effect for a module only before its first look-up.
    fn call_targets(&mut self, module: &ModuleInfo, addresses: &[u64]);

    /// The function that holds `offset`.
    fn function(&mut self, module: &ModuleInfo, offset: u64) -> FunctionAt;

    /// The functions inlined at `offset`, innermost first; the host function is not among them.
    fn inlined(&mut self, module: &ModuleInfo, offset: u64) -> Vec<InlinedAt>;

    /// The source line of the instruction at `offset`.
    fn line(&mut self, module: &ModuleInfo, offset: u64) -> Option<SourceLine>;

    /// The source line at `offset` in the host function: if a function was inlined there, the line of its call.
    fn host_line(&mut self, module: &ModuleInfo, offset: u64) -> Option<SourceLine> {
        self.line(module, offset)
    }

    /// The code bytes from `start` to `end`, as the module's file holds them.
    fn code(&mut self, module: &ModuleInfo, start: u64, end: u64) -> Option<Vec<u8>>;

    /// The object that the memory at `offset` of a module belongs to.
    fn data(&mut self, _module: &ModuleInfo, _offset: u64) -> DataAt {
        DataAt::Unnamed
    }

    /// Doubts about names: files that changed since they ran, debug information that could not be read.
    fn warnings(&self) -> Vec<Warning>;
}

/// A function as the resolver knows it. A detached cold part counts as its host function, so `offset` need not lie
/// between `start` and `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionAt {
    /// The function's first address; together with the module this is its identity.
    pub start: u64,
    /// Part of the function around the requested offset: first address.
    pub part_start: u64,
    /// First address after that part.
    pub part_end: u64,
    /// Demangled name in full.
    pub name: Arc<str>,
    /// Whether the name is a symbol's (else it was made of module and offset).
    pub named: bool,
    /// Displayed name of the module.
    pub module: Arc<str>,
}

/// Memory of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataAt {
    /// Part of a variable.
    Variable {
        /// Demangled name in full.
        name: Arc<str>,
        /// Its size.
        bytes: u64,
    },
    /// Part of the module, but of no named symbol.
    Unnamed,
    /// Outside the module.
    Outside,
}

/// A function inlined at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlinedAt {
    /// Demangled name in full.
    pub name: Arc<str>,
    /// The line executed in it.
    pub line: Option<SourceLine>,
}

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// Path as the debug information gives it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
}
