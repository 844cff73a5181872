//! Evidence of the data that instructions brought from memory: a sample of the addresses, and the mappings there.

use serde::{Deserialize, Serialize};

use crate::code::{CodeRef, ModuleInfo};

/// Memory that a program asked the kernel for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Who asked: places inside the calls on the stack, innermost first.
    pub frames: Vec<CodeRef>,
    /// Whether the program requested it as a stack (`MAP_STACK`).
    pub stack: bool,
}

/// The kinds of memory behind a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// The file of a module, or memory right behind it, with its zero-initialised data.
    Module {
        /// Index into [`DataEvidence::modules`].
        module: u32,
        /// Run-time address − module offset.
        bias: u64,
        /// No file is mapped there itself.
        behind: bool,
    },
    /// Another file: its path.
    File(String),
    /// The heap that the kernel names so (`brk`).
    Heap,
    /// The first thread's stack.
    Stack,
    /// Memory of a large allocation.
    Allocated {
        /// As in [`Allocation`].
        frames: Vec<CodeRef>,
        /// As in [`Allocation`].
        stack: bool,
    },
    /// None of these.
    Anonymous,
    /// Not known: the process's map could not be read in time, or has too many entries.
    Unread,
}

/// A mapping that something was brought from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataMapping {
    /// Bytes.
    pub bytes: u64,
    /// Its kind.
    pub backing: Backing,
}

/// An address that a line was brought from (or stored past the caches to).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSample {
    /// The address that was accessed.
    pub address: u64,
    /// Index into [`DataEvidence::mappings`]; `None` if nothing was mapped there any more.
    pub mapping: Option<u32>,
}

/// A sample of one instruction's lines in one thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteData {
    /// The instruction.
    pub at: CodeRef,
    /// Lines that all samples together represent.
    pub lines: f64,
    /// The samples, each with the same weight.
    pub samples: Vec<DataSample>,
    /// They are all lines that were seen, not some of them.
    pub complete: bool,
}

/// The data of all instructions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DataEvidence {
    /// Modules that mappings refer to.
    pub modules: Vec<ModuleInfo>,
    /// Mappings that samples refer to.
    pub mappings: Vec<DataMapping>,
    /// One or two entries per (site, thread).
    pub sites: Vec<SiteData>,
}
