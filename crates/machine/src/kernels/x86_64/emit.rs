//! From a list of instructions to a callable kernel: prologue, aligned loop, epilogue.

use std::mem::offset_of;

use iced_x86::{BlockEncoder, BlockEncoderOptions, Code, Instruction, InstructionBlock, MemoryOperand, Register};

use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::{Arguments, Executable, Kernel, PerIteration};
use rprof_isa::operation::{Precision, Width};

/// Offsets of the arguments that emitted code reads.
pub const POINTERS: i64 = offset_of!(Arguments, pointers) as i64;
pub const INNER: i64 = offset_of!(Arguments, inner) as i64;
pub const DP: i64 = offset_of!(Arguments, dp) as i64;
pub const SP: i64 = offset_of!(Arguments, sp) as i64;
pub const LANES: i64 = offset_of!(Arguments, lanes) as i64;
pub const SEEDS: i64 = offset_of!(Arguments, seeds) as i64;
pub const CHAINS: i64 = offset_of!(Arguments, chains) as i64;
pub const SCRATCH: i64 = offset_of!(Arguments, scratch) as i64;

const SAVED: [Register; 6] = [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

/// A branch target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(u64);

impl Label {
    /// The address that an operand relative to `rip` takes to mean the label's place.
    pub fn target(self) -> u64 {
        self.0
    }
}

/// Collects the instructions of one kernel; [`finish`](Self::finish) reports the first invalid one.
pub struct Emitter {
    name: String,
    features: Features,
    list: Vec<Instruction>,
    next_label: u64,
    pending: Option<Label>,
    align_at: Option<usize>,
    broken: Option<String>,
}

impl Emitter {
    /// Starts a kernel; pushes the registers that the calling convention preserves.
    pub fn new(name: impl Into<String>, features: Features) -> Self {
        let mut emitter = Emitter {
            name: name.into(),
            features,
            list: Vec::new(),
            next_label: 1,
            pending: None,
            align_at: None,
            broken: None,
        };
        for register in SAVED {
            emitter.one(Code::Push_r64, register);
        }
        emitter
    }

    /// The instruction sets it may use.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Instructions so far.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Appends `instruction`.
    pub fn push(&mut self, mut instruction: Instruction) {
        if let Some(label) = self.pending.take() {
            instruction.set_ip(label.0);
        }
        self.list.push(instruction);
    }

    /// Appends an instruction; remembers the first error if one could not be constructed.
    pub fn checked(&mut self, instruction: Result<Instruction, iced_x86::IcedError>) {
        match instruction {
            Ok(instruction) => self.push(instruction),
            Err(error) => {
                self.broken.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// `code a`
    pub fn one(&mut self, code: Code, a: Register) {
        self.checked(Instruction::with1(code, a));
    }

    /// `code a, b`
    pub fn two(&mut self, code: Code, a: Register, b: Register) {
        self.checked(Instruction::with2(code, a, b));
    }

    /// `code a, b, c`
    pub fn three(&mut self, code: Code, a: Register, b: Register, c: Register) {
        self.checked(Instruction::with3(code, a, b, c));
    }

    /// `code a, imm`
    pub fn immediate(&mut self, code: Code, a: Register, value: i64) {
        if code == Code::Mov_r64_imm64 {
            self.checked(Instruction::with2(code, a, value as u64));
        } else {
            self.checked(Instruction::with2(code, a, value as i32));
        }
    }

    /// `code a, b, imm8`
    pub fn shift(&mut self, code: Code, a: Register, b: Register, value: i32) {
        self.checked(Instruction::with3(code, a, b, value));
    }

    /// `code a, [base + offset]`
    pub fn load(&mut self, code: Code, a: Register, base: Register, offset: i64) {
        self.checked(Instruction::with2(code, a, MemoryOperand::with_base_displ(base, offset)));
    }

    /// `code a, b, [base + offset]`
    pub fn load3(&mut self, code: Code, a: Register, b: Register, base: Register, offset: i64) {
        self.checked(Instruction::with3(code, a, b, MemoryOperand::with_base_displ(base, offset)));
    }

    /// `code a, [base + index]`
    pub fn load_indexed(&mut self, code: Code, a: Register, base: Register, index: Register) {
        self.checked(Instruction::with2(code, a, MemoryOperand::with_base_index(base, index)));
    }

    /// `code [base + offset], a`
    pub fn store(&mut self, code: Code, base: Register, offset: i64, a: Register) {
        self.checked(Instruction::with2(code, MemoryOperand::with_base_displ(base, offset), a));
    }

    /// `code [base + offset]`
    pub fn memory(&mut self, code: Code, base: Register, offset: i64) {
        self.checked(Instruction::with1(code, MemoryOperand::with_base_displ(base, offset)));
    }

    /// Marks the place before the next instruction.
    pub fn label(&mut self) -> Label {
        let label = self.forward();
        self.place(label);
        label
    }

    /// A label to be placed later.
    pub fn forward(&mut self) -> Label {
        self.next_label += 1;
        Label(self.next_label)
    }

    /// Places a label before the next instruction.
    pub fn place(&mut self, label: Label) {
        self.pending = Some(label);
    }

    /// `code target`
    pub fn branch(&mut self, code: Code, target: Label) {
        self.checked(Instruction::with_branch(code, target.0));
    }

    /// The innermost loop's head: aligned to 64 bytes.
    pub fn loop_head(&mut self) -> Label {
        self.align_at = Some(self.list.len());
        self.label()
    }

    /// `dec counter; jne head`: two instructions of loop overhead.
    pub fn loop_end(&mut self, counter: Register, head: Label) {
        self.one(Code::Dec_rm64, counter);
        self.branch(Code::Jne_rel32_64, head);
    }

    /// Loads the operand near one into both operand registers of `width`.
    pub fn load_operands(&mut self, precision: Precision, width: Width) {
        let (a, b) = self.operands(width);
        let offset = if precision == Precision::Sp { SP } else { DP };
        let full = if width == Width::Scalar { Width::W128 } else { width };
        let code = self.move_load(full);
        for register in [a, b] {
            self.load(code, vector(full, index_of(register)), Register::RSI, offset);
        }
    }

    /// Fills the first `count` vector registers with the operand near one.
    pub fn load_chains(&mut self, precision: Precision, width: Width, count: usize) {
        let offset = if precision == Precision::Sp { SP } else { DP };
        let full = if width == Width::Scalar { Width::W128 } else { width };
        let code = self.move_load(full);
        for n in 0..count {
            self.load(code, vector(full, n), Register::RSI, offset);
        }
    }

    /// Vector registers of `width` that are free for chains.
    pub fn free_registers(&self, width: Width) -> usize {
        if width == Width::W512 { 30 } else { 14 }
    }

    /// The two registers that hold the operands near one.
    pub fn operands(&self, width: Width) -> (Register, Register) {
        let first = self.free_registers(width);
        (vector(width, first), vector(width, first + 1))
    }

    /// The unaligned vector load of `width` (scalar: one double).
    pub fn move_load(&self, width: Width) -> Code {
        match (width, self.features.avx) {
            (Width::Scalar, false) => Code::Movsd_xmm_xmmm64,
            (Width::Scalar, true) => Code::VEX_Vmovsd_xmm_m64,
            (Width::W128, false) => Code::Movups_xmm_xmmm128,
            (Width::W128, true) => Code::VEX_Vmovups_xmm_xmmm128,
            (Width::W256, _) => Code::VEX_Vmovups_ymm_ymmm256,
            (Width::W512, _) => Code::EVEX_Vmovups_zmm_k1z_zmmm512,
        }
    }

    /// The unaligned vector store of `width` (scalar: one double).
    pub fn move_store(&self, width: Width) -> Code {
        match (width, self.features.avx) {
            (Width::Scalar, false) => Code::Movsd_xmmm64_xmm,
            (Width::Scalar, true) => Code::VEX_Vmovsd_m64_xmm,
            (Width::W128, false) => Code::Movups_xmmm128_xmm,
            (Width::W128, true) => Code::VEX_Vmovups_xmmm128_xmm,
            (Width::W256, _) => Code::VEX_Vmovups_ymmm256_ymm,
            (Width::W512, _) => Code::EVEX_Vmovups_zmmm512_k1z_zmm,
        }
    }

    /// Appends the epilogue, encodes and maps the kernel.
    ///
    /// # Errors
    /// [`MachineError::Encode`] for an instruction that cannot be encoded, [`MachineError::Executable`] if memory is refused.
    pub fn finish(mut self, work: PerIteration) -> Result<Kernel, MachineError> {
        let vector_bits = self.list.iter().map(vector_bits).max().unwrap_or(0);
        if self.features.avx {
            self.push(Instruction::with(Code::VEX_Vzeroupper));
        }
        for register in SAVED.into_iter().rev() {
            self.one(Code::Pop_r64, register);
        }
        self.push(Instruction::with(Code::Retnq));
        let broken = |reason: String, name: &str| MachineError::Encode { kernel: name.to_owned(), reason };
        if let Some(reason) = self.broken.take() {
            return Err(broken(reason, &self.name));
        }
        let first = encode(&self.list).map_err(|reason| broken(reason, &self.name))?;
        let mut code = first.code_buffer;
        if let Some(at) = self.align_at {
            let head = first.new_instruction_offsets.get(at).copied().unwrap_or(0) as usize;
            let padding = head.next_multiple_of(64) - head;
            let nop = Instruction::with(Code::Nopd);
            self.list.splice(at..at, std::iter::repeat_n(nop, padding));
            code = encode(&self.list).map_err(|reason| broken(reason, &self.name))?.code_buffer;
        }
        Ok(Kernel::new(self.name, work, vector_bits, Executable::new(&code)?))
    }
}

/// Bits of the widest vector register among the operands.
fn vector_bits(instruction: &Instruction) -> u32 {
    let registers = (0..instruction.op_count()).map(|operand| instruction.op_register(operand));
    registers.filter(|r| r.is_vector_register()).map(|r| 8 * r.size() as u32).max().unwrap_or(0)
}

fn encode(list: &[Instruction]) -> Result<iced_x86::BlockEncoderResult, String> {
    let block = InstructionBlock::new(list, 0x1_0000_0000);
    BlockEncoder::encode(64, block, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS).map_err(|e| e.to_string())
}

/// Vector register `n` of `width` (scalar: xmm).
pub fn vector(width: Width, n: usize) -> Register {
    let first = match width {
        Width::Scalar | Width::W128 => Register::XMM0,
        Width::W256 => Register::YMM0,
        Width::W512 => Register::ZMM0,
    };
    first + n as u32
}

/// The number of a vector register.
pub fn index_of(register: Register) -> usize {
    register.number()
}

/// Bytes of a vector register of `width`; scalar: one double.
pub fn vector_bytes(width: Width) -> u64 {
    u64::from(width.lanes(Precision::Dp)) * 8
}

/// General registers that kernels may use beside `rdi`, `rsi` and `rbx`.
pub const FREE: [Register; 8] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
