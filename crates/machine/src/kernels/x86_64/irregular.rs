//! Accesses that prefetchers cannot or hardly follow: strides, random loads, gathers; and random branches.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::emit::{CHAINS, Emitter, FREE, INNER, LANES, POINTERS, SEEDS};
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::{Kernel, PerIteration};

/// Loads in one inner iteration of [`stride`].
pub const STRIDE_LOADS: u64 = 16;

/// Loads of one double every `stride` bytes. One outer iteration walks `inner` bodies. Each next one starts a line further, modulo the
/// stride, so that in the end the kernel touches every line.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn stride(stride: u64, features: Features) -> Result<Kernel, MachineError> {
    use rprof_isa::operation::Width;
    let mut e = Emitter::new(format!("stride {stride}"), features);
    e.two(Code::Xor_r32_rm32, Register::R11D, Register::R11D);
    let outer = e.label();
    e.load(Code::Mov_r64_rm64, Register::R8, Register::RSI, POINTERS);
    e.two(Code::Add_r64_rm64, Register::R8, Register::R11);
    e.immediate(Code::Add_rm64_imm32, Register::R11, 64);
    e.immediate(Code::And_rm64_imm32, Register::R11, (stride.max(64) - 1) as i64 & !63);
    e.load(Code::Mov_r64_rm64, Register::RBX, Register::RSI, INNER);
    let load = e.move_load(Width::Scalar);
    let head = e.loop_head();
    for n in 0..STRIDE_LOADS {
        e.load(load, Register::XMM0 + (n % 8) as u32, Register::R8, (n * stride) as i64);
    }
    e.immediate(Code::Add_rm64_imm32, Register::R8, (STRIDE_LOADS * stride) as i64);
    e.loop_end(Register::RBX, head);
    e.loop_end(Register::RDI, outer);
    e.finish(PerIteration {
        instructions: STRIDE_LOADS + 3,
        payload: STRIDE_LOADS,
        loads: STRIDE_LOADS,
        bytes_loaded: 8 * STRIDE_LOADS,
        ..Default::default()
    })
}

/// Flushes `inner` lines from the first pointer on out of all caches; `None` if the CPU can only flush one after the other.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn flush(features: Features) -> Result<Option<Kernel>, MachineError> {
    if !features.clflushopt {
        return Ok(None);
    }
    let mut e = Emitter::new("flush", features);
    e.load(Code::Mov_r64_rm64, Register::R8, Register::RSI, POINTERS);
    e.load(Code::Mov_r64_rm64, Register::RBX, Register::RSI, INNER);
    let head = e.loop_head();
    e.checked(Instruction::with1(Code::Clflushopt_m8, MemoryOperand::with_base(Register::R8)));
    e.immediate(Code::Add_rm64_imm8, Register::R8, 64);
    e.loop_end(Register::RBX, head);
    e.finish(PerIteration { instructions: 4, payload: 1, ..Default::default() }).map(Some)
}

/// Multiplier and increment of the 64-bit index generator (Knuth's MMIX).
const MULTIPLIER: i64 = 6_364_136_223_846_793_005;
const INCREMENT: i32 = 1_442_695_041;

/// Generators of [`random_held`]: approximately the number of lines that most cores can wait for at once.
const HELD: u64 = 16;

/// Independent loads of one double from random lines among 2^`line_bits`; four generators side by side.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn random(line_bits: u32, features: Features) -> Result<Kernel, MachineError> {
    use rprof_isa::operation::Width;
    let mut e = Emitter::new(format!("random 2^{line_bits}"), features);
    let generators = [FREE[0], FREE[1], FREE[2], FREE[3]];
    for (n, register) in generators.iter().enumerate() {
        e.load(Code::Mov_r64_rm64, *register, Register::RSI, SEEDS + 8 * n as i64);
    }
    e.load(Code::Mov_r64_rm64, Register::R8, Register::RSI, POINTERS);
    e.immediate(Code::Mov_r64_imm64, Register::R9, MULTIPLIER);
    let load = e.move_load(Width::Scalar);
    let head = e.loop_head();
    let before = e.count();
    for n in 0..8 {
        let register = generators[n % 4];
        let index = FREE[4 + n % 4];
        e.two(Code::Imul_r64_rm64, register, Register::R9);
        e.immediate(Code::Add_rm64_imm32, register, i64::from(INCREMENT));
        e.two(Code::Mov_r64_rm64, index, register);
        e.immediate(Code::Shr_rm64_imm8, index, i64::from(64 - line_bits));
        e.immediate(Code::Shl_rm64_imm8, index, 6);
        e.load_indexed(load, Register::XMM0 + n as u32, Register::R8, index);
    }
    e.loop_end(Register::RDI, head);
    let instructions = (e.count() - before) as u64;
    for (n, register) in generators.iter().enumerate() {
        e.store(Code::Mov_rm64_r64, Register::RSI, SEEDS + 8 * n as i64, *register);
    }
    e.finish(PerIteration { instructions, payload: 8, loads: 8, bytes_loaded: 64, ..Default::default() })
}

/// Like [`random`], with [`HELD`] generators, each of which waits for the value that it loaded: exactly this number of lines is under way.
/// It reaches more on cores that retry loads over and over while all fill buffers are taken.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn random_held(line_bits: u32, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("random 2^{line_bits}, {HELD} at a time"), features);
    e.load(Code::Mov_r64_rm64, Register::R8, Register::RSI, POINTERS);
    e.immediate(Code::Mov_r64_imm64, Register::R9, MULTIPLIER);
    let (state, index) = (Register::R11, Register::RBX);
    let head = e.loop_head();
    let before = e.count();
    for n in 0..HELD {
        let slot = CHAINS + 8 * n as i64;
        e.load(Code::Mov_r64_rm64, state, Register::RSI, slot);
        e.two(Code::Imul_r64_rm64, state, Register::R9);
        e.immediate(Code::Add_rm64_imm32, state, i64::from(INCREMENT));
        e.two(Code::Mov_r64_rm64, index, state);
        e.immediate(Code::Shr_rm64_imm8, index, i64::from(64 - line_bits));
        e.immediate(Code::Shl_rm64_imm8, index, 6);
        e.load_indexed(Code::Add_r64_rm64, state, Register::R8, index);
        e.store(Code::Mov_rm64_r64, Register::RSI, slot, state);
    }
    e.loop_end(Register::RDI, head);
    let instructions = (e.count() - before) as u64;
    e.finish(PerIteration {
        instructions,
        payload: HELD,
        loads: 2 * HELD,
        stores: HELD,
        bytes_loaded: 16 * HELD,
        bytes_stored: 8 * HELD,
        ..Default::default()
    })
}

/// Gathers of eight (AVX2: four) doubles from random lines among 2^`line_bits`; `None` without gathers.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn gather(line_bits: u32, features: Features) -> Result<Option<Kernel>, MachineError> {
    if !features.avx512f && !features.avx2 {
        return Ok(None);
    }
    let mut e = Emitter::new(format!("gather 2^{line_bits}"), features);
    e.load(Code::Mov_r64_rm64, Register::R8, Register::RSI, POINTERS);
    e.immediate(Code::Mov_r32_imm32, Register::EAX, 1_664_525);
    e.two(Code::VEX_Vmovd_xmm_rm32, Register::XMM14, Register::EAX);
    e.two(Code::VEX_Vpbroadcastd_ymm_xmmm32, Register::YMM14, Register::XMM14);
    e.immediate(Code::Mov_r32_imm32, Register::EAX, 1_013_904_223);
    e.two(Code::VEX_Vmovd_xmm_rm32, Register::XMM15, Register::EAX);
    e.two(Code::VEX_Vpbroadcastd_ymm_xmmm32, Register::YMM15, Register::XMM15);
    let generators = [Register::YMM0, Register::YMM1];
    let as_lines = Code::VEX_Vmovups_ymm_ymmm256;
    for (n, register) in generators.iter().enumerate() {
        e.load(as_lines, *register, Register::RSI, LANES + 32 * n as i64);
    }
    let lanes = if features.avx512f { 8 } else { 4 };
    let head = e.loop_head();
    let before = e.count();
    for n in 0..4 {
        let state = generators[n % 2];
        let index = Register::YMM4 + n as u32;
        e.three(Code::VEX_Vpmulld_ymm_ymm_ymmm256, state, state, Register::YMM14);
        e.three(Code::VEX_Vpaddd_ymm_ymm_ymmm256, state, state, Register::YMM15);
        e.shift(Code::VEX_Vpsrld_ymm_ymm_imm8, index, state, 32 - line_bits.min(28) as i32);
        e.shift(Code::VEX_Vpslld_ymm_ymm_imm8, index, index, 3);
        if features.avx512f {
            e.three(Code::VEX_Kxnorw_kr_kr_kr, Register::K1, Register::K0, Register::K0);
            let from = MemoryOperand::with_base_index_scale(Register::R8, index, 8);
            let to = Register::ZMM8 + n as u32;
            e.checked(Instruction::with2(Code::EVEX_Vgatherdpd_zmm_k1_vm32y, to, from).map(|mut i| {
                i.set_op_mask(Register::K1);
                i
            }));
        } else {
            let mask = Register::YMM12;
            e.three(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, mask, mask, mask);
            let from = MemoryOperand::with_base_index_scale(Register::R8, Register::XMM0 + index.number() as u32, 8);
            let to = Register::YMM8 + n as u32;
            e.checked(Instruction::with3(Code::VEX_Vgatherdpd_ymm_vm32x_ymm, to, from, mask));
        }
    }
    e.loop_end(Register::RDI, head);
    let instructions = (e.count() - before) as u64;
    for (n, register) in generators.iter().enumerate() {
        e.store(Code::VEX_Vmovups_ymmm256_ymm, Register::RSI, LANES + 32 * n as i64, *register);
    }
    let loads = 4 * lanes;
    let work = PerIteration { instructions, payload: loads, loads, bytes_loaded: 8 * loads, ..Default::default() };
    e.finish(work).map(Some)
}

/// Branches in one iteration of [`branches`].
pub const BRANCHES: u64 = 8;

/// Conditional jumps over one instruction: on a random bit (`random`), or never taken. All else is equal.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn branches(random: bool, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(if random { "branches random" } else { "branches predictable" }, features);
    e.load(Code::Mov_r64_rm64, Register::RAX, Register::RSI, SEEDS);
    e.immediate(Code::Mov_r64_imm64, Register::R9, MULTIPLIER);
    e.two(Code::Xor_r32_rm32, Register::EBP, Register::EBP);
    let tested = if random { Register::RAX } else { Register::RBP };
    let head = e.loop_head();
    let before = e.count();
    for _ in 0..BRANCHES {
        e.two(Code::Imul_r64_rm64, Register::RAX, Register::R9);
        e.immediate(Code::Add_rm64_imm32, Register::RAX, i64::from(INCREMENT));
        e.two(Code::Test_rm64_r64, tested, tested);
        let over = e.forward();
        e.branch(Code::Js_rel32_64, over);
        e.immediate(Code::Add_rm64_imm8, Register::RCX, 1);
        e.place(over);
    }
    e.loop_end(Register::RDI, head);
    let instructions = (e.count() - before) as u64;
    e.store(Code::Mov_rm64_r64, Register::RSI, SEEDS, Register::RAX);
    e.finish(PerIteration { instructions, payload: BRANCHES, ..Default::default() })
}
