//! Arithmetic on registers: throughput, co-issue, latency chains, restarted chains.

use iced_x86::{Code, Instruction, Register};

use super::emit::{Emitter, vector};
use super::opcodes::{Form, Opcode};
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::{Kernel, PerIteration};
use rprof_isa::operation::{Precision, Width};

/// Appends `opcode` working on chain register `n`; `dependent`: the result depends on the previous content of the register.
pub fn arithmetic(e: &mut Emitter, opcode: Opcode, width: Width, n: usize, dependent: bool, mask: Register) {
    let (a, b) = e.operands(width);
    let dst = vector(width, n);
    let built = match opcode.form {
        Form::Three if dependent && opcode.is_scalar_sqrt() => Instruction::with3(opcode.code, dst, dst, dst),
        Form::Three if dependent => Instruction::with3(opcode.code, dst, dst, b),
        Form::Three | Form::Accumulate => Instruction::with3(opcode.code, dst, a, b),
        Form::Destructive => Instruction::with2(opcode.code, dst, b),
        Form::Unary if dependent => Instruction::with2(opcode.code, dst, dst),
        Form::Unary => Instruction::with2(opcode.code, dst, b),
    };
    e.checked(built.map(|mut instruction| {
        if mask != Register::None {
            instruction.set_op_mask(mask);
        }
        instruction
    }));
}

/// Destinations of instructions that are to be as independent of each other as registers allow. Instructions that read their destination
/// form chains, which share all registers but one; the other instructions overwrite that one.
pub struct Destinations {
    chains: usize,
    next: usize,
}

impl Destinations {
    /// The lowest `registers` registers, for `opcodes`.
    pub fn new(opcodes: &[Opcode], registers: usize) -> Self {
        let overwrite = opcodes.iter().any(|o| !Self::is_chained(o));
        Destinations { chains: registers - usize::from(overwrite), next: 0 }
    }

    /// The one for the next instruction.
    pub fn next(&mut self, opcode: Opcode) -> usize {
        if !Self::is_chained(&opcode) {
            return self.chains;
        }
        self.next = (self.next + 1) % self.chains;
        self.next
    }

    fn is_chained(opcode: &Opcode) -> bool {
        matches!(opcode.form, Form::Accumulate | Form::Destructive)
    }
}

/// Times that [`throughput`] goes through the registers in an iteration, for one operation, and for several. If these share pipes, the
/// remainder of the loop's length, divided by the fetch width, costs some percent (Zen 5, FMA and additions of 256 bits: 3.73 a cycle in
/// loops of 56, 4.0 in loops of 208).
const TIMES: usize = 4;
const TIMES_OF_SEVERAL: usize = 16;

/// Independent instructions, `opcodes` taking turns, as many registers in flight as there are.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn throughput(
    name: &str,
    opcodes: &[Opcode],
    precision: Precision,
    width: Width,
    features: Features,
) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(name, features);
    let registers = e.free_registers(width);
    e.load_operands(precision, width);
    e.load_chains(precision, width, registers);
    let mut destinations = Destinations::new(opcodes, registers);
    let times = if opcodes.len() > 1 { TIMES_OF_SEVERAL } else { TIMES };
    let head = e.loop_head();
    let before = e.count();
    let mut work = PerIteration::default();
    for n in 0..registers * times / opcodes.len() * opcodes.len() {
        let opcode = opcodes[n % opcodes.len()];
        arithmetic(&mut e, opcode, width, destinations.next(opcode), false, Register::None);
        work.payload += 1;
        work.flops += opcode.flops;
        work.int_ops += opcode.int_ops;
    }
    e.loop_end(Register::RDI, head);
    work.instructions = (e.count() - before) as u64;
    e.finish(work)
}

/// Masked instructions (k1 = half of the lanes), independent by registers. `flops` counts active lanes.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn masked(
    name: &str,
    opcode: Opcode,
    precision: Precision,
    width: Width,
    features: Features,
) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(name, features);
    let registers = e.free_registers(width);
    let half = (1_i64 << (width.lanes(precision) / 2)) - 1;
    e.load_operands(precision, width);
    e.load_chains(precision, width, registers);
    e.immediate(Code::Mov_r32_imm32, Register::EAX, half);
    e.two(Code::VEX_Kmovw_kr_r32, Register::K1, Register::EAX);
    let head = e.loop_head();
    for n in 0..registers * 4 {
        arithmetic(&mut e, opcode, width, n % registers, false, Register::K1);
    }
    e.loop_end(Register::RDI, head);
    let payload = registers as u64 * 4;
    let work =
        PerIteration { instructions: payload + 2, payload, flops: payload * opcode.flops / 2, ..Default::default() };
    e.finish(work)
}

/// `chains` dependent chains side by side, each through `opcodes` in turn. One chain: its latency.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn chains(
    name: &str,
    opcodes: &[Opcode],
    count: usize,
    precision: Precision,
    width: Width,
    features: Features,
) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(name, features);
    e.load_operands(precision, width);
    e.load_chains(precision, width, count);
    let head = e.loop_head();
    let mut work = PerIteration::default();
    let turns = (64 / count).max(4).next_multiple_of(opcodes.len());
    for turn in 0..turns {
        for chain in 0..count {
            let opcode = opcodes[turn % opcodes.len()];
            arithmetic(&mut e, opcode, width, chain, true, Register::None);
            work.payload += 1;
            work.flops += opcode.flops;
        }
    }
    e.loop_end(Register::RDI, head);
    work.instructions = work.payload + 2;
    e.finish(work)
}

/// One chain of `length`, then a zeroing idiom that restarts it: shows how many such chains the window overlaps.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn restarted(name: &str, opcode: Opcode, length: usize, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(name, features);
    e.load_operands(Precision::Dp, Width::Scalar);
    let restarts = (256 / length).max(1);
    let head = e.loop_head();
    for _ in 0..restarts {
        let zero = Register::XMM0;
        if features.avx {
            e.three(Code::VEX_Vxorpd_xmm_xmm_xmmm128, zero, zero, zero);
        } else {
            e.two(Code::Xorpd_xmm_xmmm128, zero, zero);
        }
        for _ in 0..length {
            arithmetic(&mut e, opcode, Width::Scalar, 0, true, Register::None);
        }
    }
    e.loop_end(Register::RDI, head);
    let payload = (restarts * length) as u64;
    let instructions = payload + restarts as u64 + 2;
    e.finish(PerIteration { instructions, payload, flops: payload * opcode.flops, ..Default::default() })
}

/// The latency of an instruction that is no arithmetic: a chain of one register through it.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn shuffle_chain(features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new("shuffle chain", features);
    e.load_operands(Precision::Dp, Width::W128);
    let head = e.loop_head();
    for _ in 0..64 {
        e.shift(Code::Shufps_xmm_xmmm128_imm8, Register::XMM0, Register::XMM0, 0b0001_1011);
    }
    e.loop_end(Register::RDI, head);
    e.finish(PerIteration { instructions: 66, payload: 64, ..Default::default() })
}
