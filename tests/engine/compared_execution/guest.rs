//! An executable file that sets a known state for each snippet, executes the snippet, and writes the state that it left.
//!
//! ```text
//!  so many rounds:
//!    all memory as it was: pread(this file)
//!    for each snippet:   xrstor, popfq, mov r, …   ─▶   the snippet   ─▶   mov […], r   pushfq; pop […]   xsave
//!  at the end:           write(1, records), exit(0)
//!  a record:           memory (RBX in its middle) | general registers, flags | vector state
//! ```

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use iced_x86::{BlockEncoder, BlockEncoderOptions, Code, Instruction, InstructionBlock, MemoryOperand, Register};

use super::operands::Memory;
use super::random::Random;
use super::snippet::Assembly;

const TEXT: u64 = 0x40_0000;
const DATA: u64 = 0x1000_0000;
const PAGE: u64 = 4096;
/// Bytes of a record.
pub const RECORD: usize = 8192;
const REGISTERS_AT: usize = 2048;
const STATE_AT: usize = 4096;
/// Bytes of a snippet's memory.
const MEMORY: usize = 2048;
/// In the first page of the data, behind the extended state: address of this file, rounds that are left, the stack
/// pointer.
const ITSELF: u64 = DATA + PAGE - 32;
const ROUNDS_LEFT: u64 = DATA + PAGE - 16;
const STACK: u64 = DATA + PAGE - 8;

/// General registers in the order of a record; RSP is not among them.
const GENERAL: [Register; 15] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// Address of snippet `n`'s memory.
pub fn memory(n: usize) -> Memory {
    Memory { middle: record(n) + MEMORY as u64 / 2 }
}

fn record(n: usize) -> u64 {
    DATA + PAGE + (n * RECORD) as u64
}

/// Bits of the extended state that the host has and that are compared: x87, SSE, AVX, AVX-512.
pub fn state_mask(flags: &std::collections::HashSet<String>) -> u32 {
    let bit = |flag: &str, bits| if flags.contains(flag) { bits } else { 0 };
    0b11 | bit("avx", 0b100) | bit("avx512f", 0b1110_0000)
}

/// Writes the program that executes `snippets`, its state made from `seed`, in as many `rounds`, each of them from the same state.
pub fn write(path: &Path, snippets: &[Vec<Instruction>], seed: u64, mask: u32, rounds: u32) {
    let (text, data) = program(snippets, seed, mask, rounds, 0);
    // The text is as long wherever the data are in the file.
    let (text, _) = program(snippets, seed, mask, rounds, data_from(&text) + PAGE);
    fs::write(path, executable(&text, &data)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The program's text and data; the data's records begin at `records` in the file.
fn program(snippets: &[Vec<Instruction>], seed: u64, mask: u32, rounds: u32, records: u64) -> (Vec<u8>, Vec<u8>) {
    const FILE: u64 = 3;
    let mut random = Random::new(seed);
    let mut code = Assembly::default();
    call(&mut code, libc::SYS_arch_prctl, &[0x1001, memory(0).middle]);
    call(&mut code, libc::SYS_open, &[ITSELF, libc::O_RDONLY as u64]);
    code.op(Instruction::with2(Code::Mov_r64_imm64, Register::RSI, FILE));
    code.op(Instruction::with2(Code::Mov_rm64_r64, Register::RDI, Register::RAX));
    code.op(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, libc::SYS_dup2 as i32));
    code.push(Instruction::with(Code::Syscall));
    code.op(Instruction::with2(Code::Mov_rm64_r64, at(STACK), Register::RSP));
    code.op(Instruction::with2(Code::Mov_rm64_imm32, at(ROUNDS_LEFT), rounds as i32));
    let round = code.label();
    code.place(round);
    code.op(Instruction::with2(Code::Mov_r64_rm64, Register::RSP, at(STACK)));
    code.op(Instruction::with2(Code::Mov_r64_imm64, Register::R10, records));
    call(&mut code, libc::SYS_pread64, &[FILE, record(0), (snippets.len() * RECORD) as u64]);
    let mut data = initial_state(&mut random, mask);
    for (n, snippet) in snippets.iter().enumerate() {
        before(&mut code, &mut random, n, mask);
        append(&mut code, snippet);
        after(&mut code, n, mask);
        let mut bytes = vec![0; RECORD];
        bytes[..MEMORY].fill_with(|| random.next() as u8);
        data.extend(bytes);
    }
    code.op(Instruction::with1(Code::Dec_rm64, at(ROUNDS_LEFT)));
    code.branch(Code::Jne_rel32_64, round);
    call(&mut code, libc::SYS_write, &[1, record(0), (snippets.len() * RECORD) as u64]);
    call(&mut code, libc::SYS_exit_group, &[0]);
    let block = InstructionBlock::new(&code.instructions, TEXT + PAGE);
    (BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).expect("branches reach").code_buffer, data)
}

/// The snippet's labels become the program's.
fn append(code: &mut Assembly, snippet: &[Instruction]) {
    const MANY: u64 = 1 << 40;
    let base = (1 + code.instructions.len() as u64) * MANY;
    for i in snippet {
        let mut i = *i;
        i.set_ip(base + i.ip());
        if i.is_jcc_short_or_near() || i.is_jmp_short_or_near() || i.is_call_near() || i.is_jcx_short() || i.is_loop() {
            i.set_near_branch64(base + i.near_branch64());
        } else if i.is_ip_rel_memory_operand() && i.memory_displacement64() >= 1 << 32 {
            i.set_memory_displacement64(base + i.memory_displacement64());
        }
        code.instructions.push(i);
    }
}

fn at(address: u64) -> MemoryOperand {
    MemoryOperand::with_displ(address, 8)
}

fn call(code: &mut Assembly, number: i64, arguments: &[u64]) {
    code.op(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, number as i32));
    for (&value, register) in arguments.iter().zip([Register::RDI, Register::RSI, Register::RDX]) {
        code.op(Instruction::with2(Code::Mov_r64_imm64, register, value));
    }
    code.push(Instruction::with(Code::Syscall));
}

/// The state before a snippet.
fn before(code: &mut Assembly, random: &mut Random, n: usize, mask: u32) {
    code.op(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, mask as i32));
    code.op(Instruction::with2(Code::Xor_r32_rm32, Register::EDX, Register::EDX));
    code.op(Instruction::with1(Code::Xrstor64_mem, at(DATA)));
    // Carry, parity, adjust, zero, sign, overflow.
    code.op(Instruction::with1(Code::Pushq_imm32, (random.next() & 0x8d5 | 0x202) as i32));
    code.push(Instruction::with(Code::Popfq));
    for register in GENERAL {
        let value = match register {
            Register::RBX => memory(n).middle,
            Register::R14 => 64,
            _ if random.one_in(3) => random.below(256),
            _ => random.next(),
        };
        code.op(Instruction::with2(Code::Mov_r64_imm64, register, value));
    }
}

/// Saves the state that a snippet left.
fn after(code: &mut Assembly, n: usize, mask: u32) {
    let registers = record(n) + REGISTERS_AT as u64;
    for (i, register) in GENERAL.into_iter().enumerate() {
        code.op(Instruction::with2(Code::Mov_rm64_r64, at(registers + 8 * i as u64), register));
    }
    code.push(Instruction::with(Code::Pushfq));
    code.op(Instruction::with1(Code::Pop_rm64, at(registers + 8 * GENERAL.len() as u64)));
    code.op(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, mask as i32));
    code.op(Instruction::with2(Code::Xor_r32_rm32, Register::EDX, Register::EDX));
    code.op(Instruction::with1(Code::Xsave64_mem, at(record(n) + STATE_AT as u64)));
    code.push(Instruction::with(Code::Cld));
}

/// The page that `xrstor` reads: numbers of moderate size in the vector registers, random masks, x87 as after `fninit`.
fn initial_state(random: &mut Random, mask: u32) -> Vec<u8> {
    let mut page = vec![0u8; PAGE as usize];
    let mut vectors = |page: &mut Vec<u8>, from: usize, bytes: usize| {
        for word in page[from..from + bytes].chunks_exact_mut(8) {
            let small = random.below(2_000_001) as f64 / 1e4 - 100.0;
            let single = (u64::from((small as f32).to_bits()) << 32) | u64::from((small as f32 * 0.3).to_bits());
            let value = random.of(&[small.to_bits(), single, small.to_bits(), single, random.clone().next()]);
            word.copy_from_slice(&value.to_le_bytes());
        }
    };
    let component = |n: u32| {
        let leaf = std::arch::x86_64::__cpuid_count(0xd, n);
        (leaf.ebx as usize, leaf.eax as usize)
    };
    vectors(&mut page, 160, 256);
    for n in [2, 5, 6, 7] {
        if mask >> n & 1 == 1 {
            let (offset, size) = component(n);
            assert!(offset + size <= PAGE as usize, "component {n} of the extended state at {offset}");
            vectors(&mut page, offset, size);
        }
    }
    page[0..2].copy_from_slice(&0x37fu16.to_le_bytes());
    page[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
    page[512..520].copy_from_slice(&u64::from(mask).to_le_bytes());
    let itself = (ITSELF - DATA) as usize;
    page[itself..itself + 15].copy_from_slice(b"/proc/self/exe\0");
    page
}

/// Offset of the data in the file.
fn data_from(text: &[u8]) -> u64 {
    (PAGE + text.len() as u64).next_multiple_of(PAGE)
}

/// A static executable with two segments.
fn executable(text: &[u8], data: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let header: [u64; 8] = [
        0x0001_0102_464c_457f, // 64 bits, little-endian
        0,
        0x0000_0001_003e_0002, // executable, x86-64
        TEXT + PAGE,
        64,
        0,
        0x0038_0040_0000_0000, // sizes of this header and of a program header
        0x0000_0000_0000_0002, // two of them
    ];
    let text_end = PAGE + text.len() as u64;
    let data_from = data_from(text);
    let segments: [[u64; 7]; 2] = [
        [0x5_0000_0001, 0, TEXT, TEXT, text_end, text_end, PAGE],
        [0x6_0000_0001, data_from, DATA, DATA, data.len() as u64, data.len() as u64, PAGE],
    ];
    for word in header.iter().chain(segments.iter().flatten()) {
        file.extend(word.to_le_bytes());
    }
    file.resize(PAGE as usize, 0);
    file.extend(text);
    file.resize(data_from as usize, 0);
    file.extend(data);
    file
}

/// The first thing in which two records differ; if the processor notes addresses of its own, nothing is compared. A
/// program that is executed step by step (`stepped`) sees the trap flag that does it.
pub fn difference(found: &[u8], expected: &[u8], stepped: bool) -> Option<String> {
    const TRAP_AT: usize = REGISTERS_AT + 8 * GENERAL.len() + 1;
    let mask = |i: usize| match i {
        TRAP_AT if stepped => 0xfe,
        // Last x87 instruction and operand; which components were in use.
        _ if (STATE_AT + 6..STATE_AT + 24).contains(&i) || (STATE_AT + 512..STATE_AT + 576).contains(&i) => 0,
        _ => 0xff,
    };
    let i = (0..RECORD).find(|&i| (found[i] ^ expected[i]) & mask(i) != 0)?;
    let word = |bytes: &[u8]| {
        let from = i & !7;
        u64::from_le_bytes(bytes[from..from + 8].try_into().expect("eight bytes"))
    };
    let what = match i {
        0..REGISTERS_AT => format!("memory at RBX{:+}", i as i64 - MEMORY as i64 / 2),
        REGISTERS_AT..STATE_AT => match GENERAL.get((i - REGISTERS_AT) / 8) {
            Some(register) => format!("{register:?}"),
            None => "flags".into(),
        },
        _ => format!("extended state at {}", i - STATE_AT),
    };
    Some(format!("{what}: {:#x}, natively {:#x}", word(found), word(expected)))
}
