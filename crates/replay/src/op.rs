//! Instructions as the core model executes them.

/// Number of registers, flags included; the last one means "none" and is always ready.
pub const REGISTERS: usize = 72;
/// No register.
pub const NONE: u8 = REGISTERS as u8 - 1;
/// The carry flag.
pub const CARRY: u8 = 16;
/// The other flags.
pub const FLAGS: u8 = 17;
/// First vector register.
pub const VECTORS: u8 = 18;
/// First mask register.
pub const MASKS: u8 = 50;
/// First x87 or MMX register.
pub const X87: u8 = 58;

/// Properties of an instruction besides its form, one bit each.
pub mod kind {
    /// Loads.
    pub const LOAD: u16 = 1;
    /// Stores.
    pub const STORE: u16 = 2;
    /// Conditional jump.
    pub const CONDITIONAL: u16 = 4;
    /// Any jump, call or return.
    pub const BRANCH: u16 = 8;
    /// Call.
    pub const CALL: u16 = 16;
    /// Return.
    pub const RETURN: u16 = 32;
    /// `rep` string instruction: its accesses are of any length.
    pub const STRING: u16 = 64;
    /// Writes a general register.
    pub const GENERAL: u16 = 128;
    /// Writes a vector register.
    pub const VECTOR: u16 = 256;
    /// Its result does not depend on its inputs, and renaming makes it.
    pub const CLEARS: u16 = 512;
    /// Renaming moves a register, or adds a small constant to one.
    pub const MOVES: u16 = 1024;
    /// Waits in the scheduler of vector operations.
    pub const VECTOR_WINDOW: u16 = 2048;
    /// A jump to a lower address.
    pub const BACKWARD: u16 = 4096;
    /// Scalar or narrow arithmetic that vectors could do.
    pub const ARITHMETIC: u16 = 8192;
    /// A multiplication that could be one operation with the addition that takes its product, and that addition.
    pub const FUSED_PRODUCT: u16 = 16_384;
    pub const FUSED_SUM: u16 = 32_768;
}

/// No form.
pub const NO_FORM: u8 = u8::MAX;

/// Whether a core may rename the value that an instruction stores or loads through a general register, judged by its operand alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Renaming {
    /// It has an index, or is relative to the instruction, or has other than four or eight bytes.
    #[default]
    Never,
    /// A base register and a constant.
    Plain,
    /// The same, of a load that an operation on registers follows at once, in the same instruction or the next one: cores that make
    /// one operation of both do not rename it.
    Computed,
}

/// One instruction of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// Number of the instruction among all instructions of the program.
    pub site: u32,
    /// Byte offset in its block.
    pub offset: u16,
    /// Encoded length in bytes.
    pub length: u8,
    /// Slots of dispatch and retirement that it takes.
    pub slots: u8,
    /// [`Form`](super::form::Form) of its computation, or [`NO_FORM`].
    pub form: u8,
    /// Micro-operations of that form.
    pub uops: u8,
    /// Bits of [`kind`].
    pub kind: u16,
    /// Registers that make its addresses.
    pub address: [u8; 2],
    /// Registers with values that it computes with or stores.
    pub data: [u8; 5],
    /// Registers that it writes.
    pub writes: [u8; 4],
    /// 0 for general registers, 1 for vectors: register file and width of the data that it loads or stores, 1 + 0 … 3.
    pub data_width: u8,
    /// Its memory operand as written: base, index, scale, displacement.
    pub expression: u32,
    pub renaming: Renaming,
}

impl Op {
    /// Whether it has all `bits` of [`kind`].
    #[inline]
    pub fn is(&self, bits: u16) -> bool {
        self.kind & bits != 0
    }
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Block {
    /// Run-time address of its first instruction, and one past its last.
    pub start: u64,
    pub end: u64,
    /// Its instructions in [`Program::ops`].
    pub first: u32,
    pub last: u32,
    /// Target of its last instruction if that is a direct jump; 0 otherwise.
    pub target: u64,
    /// It is a loop in which each iteration waits for the one before, by more than a sum: vectors make no iteration shorter.
    pub is_serial: bool,
}

/// The blocks of all bursts.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub ops: Vec<Op>,
    pub blocks: Vec<Block>,
    /// Places of the instructions in the code, by [`Op::site`].
    pub sites: Vec<rprof_profile::CodeRef>,
}

impl Program {
    /// The instructions of block `n`.
    #[inline]
    pub fn block(&self, n: u32) -> (&Block, &[Op]) {
        let block = &self.blocks[n as usize];
        (block, &self.ops[block.first as usize..block.last as usize])
    }
}
