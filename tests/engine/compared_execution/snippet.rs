//! Pieces of a snippet: one instruction, or a few around a transfer of control, a string, a division, a gather.

use iced_x86::{Code, Instruction, MemoryOperand, Register, RepPrefixKind, RflagsBits};

use super::operands::{self, Memory};
use super::random::Random;

/// Instructions under construction. Each has a number instead of an address; branches name the number of their target.
#[derive(Debug, Default)]
pub struct Assembly {
    /// In order.
    pub instructions: Vec<Instruction>,
    labels: u64,
}

/// A place that branches name.
#[derive(Debug, Clone, Copy)]
pub struct Label(u64);

/// Numbers of labels; those of other instructions are below.
const LABELS: u64 = 1 << 32;

impl Assembly {
    /// Appends an instruction.
    pub fn push(&mut self, mut instruction: Instruction) {
        instruction.set_ip(1 + self.instructions.len() as u64);
        self.instructions.push(instruction);
    }

    /// Appends an instruction, and one that sets all flags if the first leaves some undefined: undefined flags depend on their
    /// earlier values, which counters may have changed.
    pub fn defined(&mut self, instruction: Instruction) {
        self.push(instruction);
        if instruction.rflags_undefined() != RflagsBits::NONE {
            self.op(Instruction::with2(Code::Cmp_r64_rm64, Register::RBX, Register::R14));
        }
    }

    /// Appends an instruction that iced can surely encode.
    pub fn op(&mut self, instruction: Result<Instruction, iced_x86::IcedError>) {
        self.push(instruction.expect("the operands fit"));
    }

    /// A label to be placed.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(LABELS + self.labels)
    }

    /// Places a label here.
    pub fn place(&mut self, label: Label) {
        let mut nop = Instruction::with(Code::Nopd);
        nop.set_ip(label.0);
        self.instructions.push(nop);
    }

    /// A branch or call to `label`.
    pub fn branch(&mut self, code: Code, label: Label) {
        self.op(Instruction::with_branch(code, label.0));
    }

    /// `lea register, [rip + label]`
    pub fn address(&mut self, register: Register, label: Label) {
        let place = MemoryOperand::with_base_displ(Register::RIP, label.0 as i64);
        self.op(Instruction::with2(Code::Lea_r64_m, register, place));
    }
}

/// Codes from which random instructions are chosen.
#[derive(Debug)]
pub struct Choice {
    /// Plain ones.
    pub plain: Vec<Code>,
    /// Gathers and scatters.
    pub gathers: Vec<Code>,
    /// `wrgsbase` is there.
    pub fsgsbase: bool,
}

impl Choice {
    /// One plain instruction that does not write any of `but`.
    fn plain_but(&self, random: &mut Random, memory: Memory, but: &[Register]) -> Instruction {
        loop {
            let code = random.of(&self.plain);
            let Some(i) = operands::instruction(code, random, memory) else { continue };
            let mut factory = iced_x86::InstructionInfoFactory::new();
            let used = factory.info(&i).used_registers();
            if !used.iter().any(|r| but.contains(&r.register().full_register())) {
                return i;
            }
        }
    }

    fn plain(&self, random: &mut Random, memory: Memory) -> Instruction {
        self.plain_but(random, memory, &[])
    }

    fn several(&self, code: &mut Assembly, random: &mut Random, memory: Memory, but: &[Register]) {
        for _ in 0..=random.below(3) {
            code.defined(self.plain_but(random, memory, but));
        }
    }

    /// Appends the piece of code that `seed` determines.
    pub fn piece(&self, code: &mut Assembly, seed: u64, memory: Memory) {
        let mut random = Random::new(seed);
        let random = &mut random;
        match random.below(64) {
            0..2 => self.stack(code, random, memory),
            2..6 => self.forward(code, random, memory),
            6..10 => self.counted_loop(code, random, memory),
            10..12 => self.call(code, random, memory),
            12..14 => indirect(code, random),
            14..17 => string(code, random),
            17..19 => division(code, random),
            19..22 if !self.gathers.is_empty() => self.gather(code, random),
            22 => system(code),
            23 if self.fsgsbase => code.op(Instruction::with1(Code::Rdgsbase_r64, Register::RDX)),
            24 => identification(code),
            _ => code.defined(self.plain(random, memory)),
        }
    }

    /// `push`, something, `pop` elsewhere; or the flags.
    fn stack(&self, code: &mut Assembly, random: &mut Random, memory: Memory) {
        let flags = random.one_in(2);
        let (from, to) = (random.of(&[Register::RAX, Register::R12]), random.of(&[Register::RDX, Register::R9]));
        if flags {
            code.push(Instruction::with(Code::Pushfq));
        } else {
            code.op(Instruction::with1(Code::Push_r64, from));
        }
        self.several(code, random, memory, &[]);
        if flags {
            code.push(Instruction::with(Code::Popfq));
        } else {
            code.op(Instruction::with1(Code::Pop_r64, to));
        }
    }

    /// A conditional branch over something.
    fn forward(&self, code: &mut Assembly, random: &mut Random, memory: Memory) {
        const CONDITIONS: [Code; 10] = [
            Code::Jo_rel32_64,
            Code::Jb_rel32_64,
            Code::Jae_rel32_64,
            Code::Je_rel32_64,
            Code::Ja_rel32_64,
            Code::Js_rel32_64,
            Code::Jp_rel32_64,
            Code::Jl_rel32_64,
            Code::Jg_rel8_64,
            Code::Jrcxz_rel8_64,
        ];
        let behind = code.label();
        code.branch(random.of(&CONDITIONS), behind);
        self.several(code, random, memory, &[]);
        code.place(behind);
    }

    /// A loop of one block, its counter in a register of its own or in RCX.
    fn counted_loop(&self, code: &mut Assembly, random: &mut Random, memory: Memory) {
        let (top, short) = (code.label(), random.one_in(3));
        let counter = if short { Register::ECX } else { Register::EBP };
        code.op(Instruction::with2(Code::Mov_r32_imm32, counter, 1 + random.below(9) as i32));
        code.place(top);
        self.several(code, random, memory, &[Register::RCX, Register::RBP]);
        if short {
            code.branch(Code::Loop_rel8_64_RCX, top);
        } else {
            if random.one_in(2) {
                code.op(Instruction::with1(Code::Dec_rm32, counter));
            } else {
                code.op(Instruction::with2(Code::Sub_rm32_imm8, counter, 1));
            }
            code.branch(Code::Jne_rel32_64, top);
        }
    }

    /// A function and its call, direct or through a register.
    fn call(&self, code: &mut Assembly, random: &mut Random, memory: Memory) {
        let (function, behind) = (code.label(), code.label());
        code.branch(Code::Jmp_rel32_64, behind);
        code.place(function);
        self.several(code, random, memory, &[]);
        code.push(Instruction::with(Code::Retnq));
        code.place(behind);
        if random.one_in(2) {
            code.branch(Code::Call_rel32_64, function);
        } else {
            code.address(Register::R11, function);
            code.op(Instruction::with1(Code::Call_rm64, Register::R11));
        }
    }

    /// Indices into register 7, a mask, a gather or scatter.
    fn gather(&self, code: &mut Assembly, random: &mut Random) {
        let mut gather = None;
        while gather.is_none() {
            gather = operands::gather(random.of(&self.gathers), random);
        }
        let gather = gather.expect("the loop ended");
        let at = MemoryOperand::with_base_displ(Register::RBX, random.below(8) as i64 * 64);
        let narrow = !operands::has_quadword_indices(gather.code());
        let wide = gather.memory_index().is_zmm();
        let widen = match (narrow, wide) {
            (true, true) => Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128,
            (false, true) => Code::EVEX_Vpmovzxbq_zmm_k1z_xmmm64,
            (true, false) => Code::VEX_Vpmovzxbd_ymm_xmmm64,
            (false, false) => Code::VEX_Vpmovzxbq_ymm_xmmm32,
        };
        code.op(Instruction::with2(widen, if wide { Register::ZMM7 } else { Register::YMM7 }, at));
        let (a, b) = (Register::YMM6, Register::YMM6);
        code.op(Instruction::with3(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, a, b, b));
        if gather.op_mask() != Register::None {
            code.op(Instruction::with2(Code::VEX_Kmovw_kr_r32, Register::K1, Register::EDX));
        }
        code.push(gather);
    }
}

/// A jump through a register or memory.
fn indirect(code: &mut Assembly, random: &mut Random) {
    let behind = code.label();
    code.address(Register::R10, behind);
    if random.one_in(2) {
        code.op(Instruction::with1(Code::Jmp_rm64, Register::R10));
    } else {
        let place = MemoryOperand::with_base_displ(Register::RBX, 128);
        code.op(Instruction::with2(Code::Mov_rm64_r64, place, Register::R10));
        code.op(Instruction::with1(Code::Jmp_rm64, place));
    }
    code.push(Instruction::with(Code::Ud2));
    code.place(behind);
    // Memory and the register hold an address that is the same in every run.
}

/// A string instruction, with and without `rep`, in both directions.
fn string(code: &mut Assembly, random: &mut Random) {
    let (from, to) = (random.below(64) as i64 * 8 - 256, random.below(64) as i64 * 8 - 256);
    code.op(Instruction::with2(Code::Lea_r64_m, Register::RSI, MemoryOperand::with_base_displ(Register::RBX, from)));
    code.op(Instruction::with2(Code::Lea_r64_m, Register::RDI, MemoryOperand::with_base_displ(Register::RBX, to)));
    code.op(Instruction::with2(Code::Mov_r32_imm32, Register::ECX, random.below(20) as i32));
    code.push(Instruction::with(if random.one_in(4) { Code::Std } else { Code::Cld }));
    let repeat = random.of(&[RepPrefixKind::None, RepPrefixKind::Repe]);
    let compare = random.of(&[RepPrefixKind::None, RepPrefixKind::Repe, RepPrefixKind::Repne]);
    code.op(match random.below(9) {
        0 => Instruction::with_movsb(64, Register::None, repeat),
        1 => Instruction::with_movsd(64, Register::None, repeat),
        2 => Instruction::with_movsq(64, Register::None, repeat),
        3 => Instruction::with_stosb(64, repeat),
        4 => Instruction::with_stosq(64, repeat),
        5 => Instruction::with_lodsw(64, Register::None, repeat),
        6 => Instruction::with_cmpsb(64, Register::None, compare),
        7 => Instruction::with_cmpsd(64, Register::None, compare),
        _ => Instruction::with_scasb(64, compare),
    });
    code.push(Instruction::with(Code::Cld));
}

/// A division by a divisor other than zero and with a quotient that fits.
fn division(code: &mut Assembly, random: &mut Random) {
    code.op(Instruction::with2(Code::Mov_r32_imm32, Register::ECX, 1 + random.below(1 << 30) as i32));
    code.op(Instruction::with2(Code::Xor_r32_rm32, Register::EDX, Register::EDX));
    let divide = random.of(&[Code::Div_rm64, Code::Div_rm32, Code::Idiv_rm32]);
    if divide == Code::Idiv_rm32 {
        code.op(Instruction::with2(Code::And_rm32_imm32, Register::EAX, 0x7fff_ffff));
    }
    let divisor = if divide == Code::Div_rm64 { Register::RCX } else { Register::ECX };
    code.defined(Instruction::with1(divide, divisor).expect("the operands fit"));
}

/// `sched_yield`: RCX and R11 are the kernel's afterwards; the trap flag in R11 would be the single-step engine's.
fn system(code: &mut Assembly) {
    code.op(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, libc::SYS_sched_yield as i32));
    code.push(Instruction::with(Code::Syscall));
    code.op(Instruction::with2(Code::Btr_rm64_imm8, Register::R11, 8));
    code.op(Instruction::with2(Code::Cmp_r64_rm64, Register::R11, Register::RCX));
}

/// `cpuid`, the leaf that is the same on every CPU of a host.
fn identification(code: &mut Assembly) {
    code.op(Instruction::with1(Code::Push_r64, Register::RBX));
    code.op(Instruction::with2(Code::Xor_r32_rm32, Register::EAX, Register::EAX));
    code.push(Instruction::with(Code::Cpuid));
    code.op(Instruction::with1(Code::Pop_r64, Register::RBX));
}

/// Names a snippet in messages.
pub fn listing(instructions: &[Instruction]) -> String {
    use iced_x86::{Formatter, IntelFormatter};
    let mut formatter = IntelFormatter::new();
    let mut text = String::new();
    for i in instructions.iter().filter(|i| i.code() != Code::Nopd) {
        text.push_str("    ");
        formatter.format(i, &mut text);
        text.push('\n');
    }
    text
}
