//! Microkernels: exact instruction sequences, each with the constants of one iteration.
//!
//! ```text
//! spec (operation, width, chains, filler …) ─▶ x86_64/: instructions ─▶ emit: bytes ─▶ executable memory ─▶ Kernel
//! ```
//!
//! A kernel declares the work of one iteration ([`PerIteration`]). The counting engine must reproduce these figures exactly, so that
//! ceilings test the counters and counters test the ceilings.

mod executable;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

pub use executable::Executable;

use super::error::MachineError;

/// The work of one iteration of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PerIteration {
    /// Instructions, loop overhead included.
    pub instructions: u64,
    /// Instructions that the kernel measures (FP arithmetic, accesses, fillers), loop overhead excluded.
    pub payload: u64,
    /// FLOPs (docs/conventions.md, Operations).
    pub flops: u64,
    /// Integer operations (docs/conventions.md, Operations), loop overhead excluded.
    pub int_ops: u64,
    /// Loads, all widths.
    pub loads: u64,
    /// Stores, all widths.
    pub stores: u64,
    /// Bytes loaded.
    pub bytes_loaded: u64,
    /// Bytes stored.
    pub bytes_stored: u64,
}

/// The arguments of a kernel call. The emitted code depends on the layout.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Arguments {
    /// Base addresses of the arrays.
    pub pointers: [u64; 4],
    /// Inner iterations of one pass over the arrays.
    pub inner: u64,
    /// Unused, so that the vectors start on cache lines of their own.
    pub spare: [u64; 3],
    /// Doubles near one: operand of chains that must neither grow nor vanish.
    pub dp: [f64; 8],
    /// The same in single precision.
    pub sp: [f32; 16],
    /// Random 32-bit lanes: seeds of vector index generators.
    pub lanes: [u32; 16],
    /// Seeds of scalar index generators.
    pub seeds: [u64; 8],
    /// Positions of pointer chases. Kernels write them back, so the next call continues from there.
    pub chains: [u64; 16],
    /// A few hot lines for kernels that access such lines.
    pub scratch: [u64; 512],
}

impl Arguments {
    /// Arguments without arrays.
    pub fn new() -> Box<Self> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        Box::new(Arguments {
            pointers: [0; 4],
            inner: 0,
            spare: [0; 3],
            dp: [1.000_000_1; 8],
            sp: [1.000_01; 16],
            lanes: std::array::from_fn(|_| random() as u32),
            seeds: std::array::from_fn(|_| random()),
            chains: [0; 16],
            scratch: [0; 512],
        })
    }
}

/// An emitted microkernel.
#[derive(Debug)]
pub struct Kernel {
    /// The kernel's name, for error messages.
    pub name: String,
    /// The constants of one iteration of its innermost loop.
    pub work: PerIteration,
    /// Bits of the widest vectors that it executes; 0 without any.
    pub vector_bits: u32,
    code: Executable,
}

impl Kernel {
    /// A kernel from its code.
    pub fn new(name: String, work: PerIteration, vector_bits: u32, code: Executable) -> Self {
        Kernel { name, work, vector_bits, code }
    }

    /// Runs `iterations` (of the outer loop, if there are two).
    ///
    /// # Safety
    /// `arguments` must hold the arrays that the kernel was emitted for, each at least as long as
    /// `inner` iterations reach, and the CPU must have the instruction sets it was emitted with.
    pub unsafe fn call(&self, iterations: u64, arguments: &mut Arguments) {
        if iterations > 0 {
            // SAFETY: the code is a complete sysv64 function that returns; the caller vouches for the arrays.
            unsafe { self.code.call(iterations, arguments) }
        }
    }

    /// A copy of the code at another place in memory; the code refers to nothing by its address.
    ///
    /// # Errors
    /// As [`Executable::new`].
    pub fn copied(&self) -> Result<Self, MachineError> {
        let code = Executable::new(self.bytes())?;
        Ok(Kernel { name: self.name.clone(), code, ..*self })
    }

    /// The encoded bytes.
    pub fn bytes(&self) -> &[u8] {
        self.code.bytes()
    }
}
