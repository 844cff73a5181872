//! PTX text of the microkernels that measure a GPU's ceilings, and of kernels with known counts.
//!
//! Nothing here talks to a device: each constructor returns a [`Kernel`], a PTX module with one entry, together with a
//! formula for the work of a launch. The driver compiles the text.
//!
//! ```text
//! constructor (scalar, mma, stream, …) → Text (registers, loops, clock record) → Kernel { name, ptx, needs, work }
//! ```
//!
//! All kernels have the same seven parameters, in this order: `u64 a, u64 b, u64 c` (device pointers), `u64 out` (a
//! device array of at least nine u64), `u64 count`, `u32 iters`, `u32 spare` (must be 0). Thread 0 of block 0 writes
//! `%clock64` at its begin and end to `out[0]` and `out[1]` (in clocks), and `%globaltimer` at its begin and end to
//! `out[2]` and `out[3]` (in ns). Results go to `out[8]` if `result & spare` is not 0, which never holds: the compiler
//! does not know that and must compute them. [`empty`] writes nothing; [`chase`] always writes `out[8]`.

#[cfg(test)]
mod catalogue;
mod empty;
mod init;
mod intensity;
mod latency;
mod mix;
mod mma;
mod scalar;
mod shared;
mod span;
mod stream;
mod text;
mod trials;
mod vectors;
mod wgmma;
mod yard;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tools;

pub use empty::empty;
pub use init::{fill, link};
pub use intensity::{Data, flops_per_element};
pub use latency::{chase, flush};
pub use mix::{MIX, MIX_NAME, mix, mix_counts};
pub use mma::{Shape, dmma, mma};
pub use scalar::{Operation, Precision, scalar, scalar_in_lanes};
pub use shared::{Access, shared};
pub use stream::{Cached, Stream, l1_region, stream, working_set};
pub use trials::{launches_update, staged, trials_read, trials_update};
pub use wgmma::wgmma;
pub use yard::{Known, yard};

/// One kernel: a PTX module with one entry.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Name of the entry: a short id of `[a-z0-9_]`.
    pub name: String,
    /// The text of the module.
    pub ptx: String,
    /// The least device that runs it.
    pub needs: Needs,
    /// The unit of [`Kernel::work`].
    pub unit: Unit,
    /// Bytes of dynamic shared memory that the launch must ask for.
    pub shared_dynamic: u32,
    work: Work,
    /// Major capabilities with a compiler that only imitates the instruction that the kernel is about.
    imitated: &'static [u32],
}

/// The least compute capability; `exact` for architecture-specific code such as `sm_90a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    pub major: u32,
    pub minor: u32,
    pub exact: bool,
}

impl Needs {
    /// Code that runs on this capability and on all later ones.
    const fn at_least(major: u32, minor: u32) -> Self {
        Self { major, minor, exact: false }
    }
}

/// Unit of a kernel's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Floating-point operations; an FMA is two.
    Flop,
    /// Integer operations, a multiply-add is two; or special functions, one each.
    Op,
    /// Bytes read plus bytes written.
    Byte,
    /// Dependent loads.
    Hop,
    Nothing,
}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Trips of the outer loop.
    pub iters: u32,
    /// Elements: 16-byte vectors of an array for streams, hops for a chase; see each kernel. Less than 2³².
    pub count: u64,
}

/// Type of the operands of a tensor instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Bf16,
    F16,
    Tf32,
    E4m3,
    S8,
}

impl Type {
    /// As PTX and the names of kernels spell it.
    fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::Tf32 => "tf32",
            Self::E4m3 => "e4m3",
            Self::S8 => "s8",
        }
    }

    /// k of one instruction, of `mma` and `wgmma` alike: 256 bits of a row.
    fn depth(self) -> u32 {
        match self {
            Self::Bf16 | Self::F16 => 16,
            Self::Tf32 => 8,
            Self::E4m3 | Self::S8 => 32,
        }
    }

    /// The type of the accumulators, as PTX spells it.
    fn accumulator(self) -> &'static str {
        if self == Self::S8 { "s32" } else { "f32" }
    }

    fn unit(self) -> Unit {
        if self == Self::S8 { Unit::Op } else { Unit::Flop }
    }

    /// Bits kept of a random word, and bits set in it: random signs and fractions, magnitudes in [0.5, 1).
    fn operand_bits(self) -> (u32, u32) {
        match self {
            Self::Bf16 => (0x807f_807f, 0x3f00_3f00),
            Self::F16 => (0x83ff_83ff, 0x3800_3800),
            Self::Tf32 => (0x807f_ffff, 0x3f00_0000),
            Self::E4m3 => (0x8787_8787, 0x3030_3030),
            Self::S8 => (0xffff_ffff, 0),
        }
    }
}

/// Formula for the work of a launch. Only the loops count: prologue and epilogue are left out.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// `amount × blocks × threads × iters`
    PerThread(f64),
    /// `amount × count × iters`
    PerElement(f64),
    /// `amount × count × blocks × iters`: each block has `count` elements of its own.
    PerBlockElement(f64),
    /// `amount × count`: `iters` is not used.
    PerCount(f64),
    Nothing,
}

impl Kernel {
    /// Work of one launch in `unit`: that of its loops, without prologue and epilogue.
    pub fn work(&self, launch: &Launch) -> f64 {
        let (blocks, threads) = (f64::from(launch.blocks), f64::from(launch.threads));
        let (iters, count) = (f64::from(launch.iters), launch.count as f64);
        match self.work {
            Work::PerThread(amount) => amount * blocks * threads * iters,
            Work::PerElement(amount) => amount * count * iters,
            Work::PerBlockElement(amount) => amount * count * blocks * iters,
            Work::PerCount(amount) => amount * count,
            Work::Nothing => 0.0,
        }
    }

    /// Whether a device of this compute capability runs it, with the instruction that it is about.
    pub fn runs_on(&self, major: u32, minor: u32) -> bool {
        if self.imitated.contains(&major) {
            return false;
        }
        let needed = (self.needs.major, self.needs.minor);
        if self.needs.exact { needed == (major, minor) } else { needed <= (major, minor) }
    }

    /// The same kernel under another entry name.
    fn renamed(mut self, name: &str) -> Self {
        self.ptx = self.ptx.replacen(&format!(".entry {}(", self.name), &format!(".entry {name}("), 1);
        self.name = name.to_owned();
        self
    }
}
