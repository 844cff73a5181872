//! The kernels as exact instruction sequences, each with the bound that it was built to show.
//!
//! Every kernel is a function of its own, so that a profile shows one function a kernel. Vector kernels exist for AVX-512, AVX2
//! with FMA, and SSE2. This module states only the intended bound of a kernel: the counted pass must find out how many FLOPs
//! and bytes it makes.

mod table;

use rprof_profile::vocabulary::Class;

use std::arch::global_asm;

use super::variant::Variant;

pub use table::KERNELS;

global_asm!(
    include_str!("prelude.s"),
    include_str!("stream.s"),
    include_str!("chase.s"),
    include_str!("arithmetic.s"),
    include_str!("integer.s"),
    ".text",
    options(raw)
);

/// The code of a kernel: `(a, b, c, iterations of a pass, passes)`; yields the low lane of an accumulator.
pub type Entry = unsafe extern "C" fn(*mut u8, *mut u8, *mut u8, u64, u64) -> u64;

/// A kernel in one instruction set.
#[derive(Debug, Clone, Copy)]
pub struct Code {
    /// Instruction set it needs.
    pub variant: Variant,
    /// The name of the function, as a profile shows it.
    pub symbol: &'static str,
    /// The function.
    pub entry: Entry,
}

/// The bound that a kernel was built for. If it depends on the host, `expected` asks the host's ceilings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltFor {
    /// This class on every host.
    Class(Class),
    /// Every pipe busy with FMAs of the widest vectors: `peak` wherever those are the widest useful.
    Peak,
    /// FMAs of vectors of this width only, of single precision.
    Width(&'static str),
    /// Adds (`add`) or multiplies (`mul`) only, of this precision.
    OneOperation(&'static str, &'static str),
    /// Adds and multiplies in even shares, without FMA.
    AddMul,
    /// One FMA among `1/fraction` instructions, with this filler.
    Filler(&'static str, u32),
    /// `loads` vector loads and `stores` vector stores for each vector add, all in L1.
    Accesses {
        /// Loads for one add.
        loads: u32,
        /// Stores for one add.
        stores: u32,
    },
    /// Independent integer operations.
    Integer,
}

/// The level that holds a kernel's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    L1,
    L2,
    L3,
    Dram,
}

/// The data that a kernel works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// None; a pass is this many iterations.
    Registers { iterations: u64 },
    /// `arrays` arrays that together fill the level; an iteration consumes `vectors` vectors of each.
    Arrays { level: Level, arrays: usize, vectors: usize },
    /// Like `Arrays` with one array, consumed in steps of `bytes` whatever the vector is.
    Bytes { level: Level, bytes: usize },
    /// One random cycle of cache lines, entered at eight places; a pass is this many hops by eight.
    Ring { level: Level, iterations: u64 },
    /// A table read at random places; its size is a power of two.
    Table { level: Level, iterations: u64 },
}

/// Who runs a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Team {
    /// One thread, pinned to one CPU.
    One,
    /// One thread that may run on all CPUs.
    OneFree,
    /// One pinned thread a CPU.
    All,
    /// Like `All`; all but the first do a third of the work, and then block in a barrier.
    Uneven,
    /// The same with a barrier that spins.
    UnevenSpin,
}

/// A kernel.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Its name, without the instruction set.
    pub name: &'static str,
    /// The bound that it was built for.
    pub built_for: BuiltFor,
    /// Its data.
    pub data: Data,
    /// Its threads.
    pub team: Team,
    /// Part of `rprof demo`; the others are for tests and benchmarks.
    pub in_demo: bool,
    /// Its code, widest first.
    pub code: &'static [Code],
}

impl Kernel {
    /// The kernel of this name.
    pub fn named(name: &str) -> Option<&'static Kernel> {
        KERNELS.iter().find(|k| k.name == name)
    }

    /// Its code for a CPU with `variant`: the widest that it may use.
    pub fn code(&self, variant: Variant) -> Option<&Code> {
        self.code.iter().filter(|c| c.variant <= variant).max_by_key(|c| c.variant)
    }
}
