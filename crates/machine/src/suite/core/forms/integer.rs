//! Forms on general registers.

use iced_x86::{Code, MemoryOperand, Register};

use super::{Chain, Form, absent};
use crate::host::features::Features;
use crate::kernels::x86_64::emit::Emitter;
use crate::suite::core::emission::{Body, general};

/// The register that chains go through.
const LINK: Register = Register::RBX;

/// Registers that nothing writes in chains: zero.
const ZERO: Register = Register::R8;

/// Appends an instruction that works on a register: reads it, if dependent, and writes it.
type Step = fn(&mut Emitter, Register, bool);

/// The register that a step reads: its own, or one that nothing waits for.
fn source(register: Register, dependent: bool) -> Register {
    if dependent { register } else { Register::RSI }
}

const STEPS: [(&str, Step); 8] = [
    ("add", |e, r, _| e.two(Code::Add_r64_rm64, r, Register::RSI)),
    ("imul", |e, r, dependent| e.shift(Code::Imul_r64_rm64_imm8, r, source(r, dependent), 3)),
    ("shift", |e, r, _| e.immediate(Code::Shl_rm64_imm8, r, 5)),
    ("lea3", |e, r, dependent| {
        let address = MemoryOperand::with_base_index_scale_displ_size(source(r, dependent), Register::RSI, 2, 8, 1);
        e.checked(iced_x86::Instruction::with2(Code::Lea_r64_m, r, address));
    }),
    ("bmi", |e, r, dependent| e.three(Code::VEX_Andn_r64_r64_rm64, r, Register::RSI, source(r, dependent))),
    ("popcnt", |e, r, dependent| e.two(Code::Popcnt_r64_rm64, r, source(r, dependent))),
    ("cmov", |e, r, _| e.two(Code::Cmovne_r64_rm64, r, Register::RSI)),
    ("bsf", |e, r, dependent| e.two(Code::Bsf_r64_rm64, r, source(r, dependent))),
];

/// A branch that is not taken: the carry stays clear.
fn branch(e: &mut Emitter, _: usize) {
    let next = e.forward();
    e.branch(Code::Jb_rel32_64, next);
    e.place(next);
}

/// Replaces additions beside branches: it leaves the flags alone, so that no core fuses the two.
pub fn branch_without_flags() -> Body {
    Box::new(|e, n| e.one(Code::Not_rm64, general(n)))
}

pub(super) fn forms(features: Features) -> Vec<Form> {
    let mut forms = Vec::new();
    for (name, step) in STEPS {
        let there = match name {
            "bmi" => features.bmi1,
            "popcnt" => features.popcnt,
            _ => true,
        };
        if !there {
            forms.push(absent(name, if name == "bmi" { "BMI1" } else { "POPCNT" }));
            continue;
        }
        let chain = Chain::of(Box::new(move |e, _| step(e, LINK, true)));
        forms.push(Form::new(name, None, Ok(chain), Box::new(move |e, n| step(e, general(n), false))));
    }
    forms.extend([shift_by_register(), set(), add_with_carry(), not_taken()]);
    forms.extend([division("div64", Code::Div_rm64), division("div32", Code::Div_rm32)]);
    forms
}

fn not_taken() -> Form {
    Form::new("branch", None, Err("a branch has no result".into()), Box::new(branch))
}

fn shift_by_register() -> Form {
    let step = |e: &mut Emitter, r: Register| e.two(Code::Shl_rm64_CL, r, Register::CL);
    let chain = Chain::of(Box::new(move |e, _| step(e, LINK)));
    // All but the last register, which holds the count.
    Form::new("shiftcl", None, Ok(chain), Box::new(move |e, n| step(e, general(n % 12))))
}

fn set() -> Form {
    let step = |e: &mut Emitter, n: usize| {
        let low = general(n).full_register32();
        e.one(Code::Setne_rm8, low8(low));
    };
    let chain = Chain {
        minus: 1.0,
        how: Some("a chain of it and `test`, less one cycle"),
        ..Chain::of(Box::new(|e, _| {
            e.two(Code::Test_rm8_r8, Register::BL, Register::BL);
            e.one(Code::Setne_rm8, Register::BL);
        }))
    };
    Form::new("setcc", None, Ok(chain), Box::new(step))
}

fn low8(register: Register) -> Register {
    match register.full_register() {
        Register::RAX => Register::AL,
        Register::RCX => Register::CL,
        Register::RDX => Register::DL,
        Register::RBX => Register::BL,
        Register::RBP => Register::BPL,
        other => Register::R8L + (other as u32 - Register::R8 as u32),
    }
}

fn add_with_carry() -> Form {
    const SUMS: [Register; 4] = [Register::RBX, Register::RBP, Register::R9, Register::R10];
    let chain = Chain::of(Box::new(|e, _| e.two(Code::Adc_r64_rm64, LINK, ZERO)));
    let rate: Body = Box::new(|e, n| {
        // The instruction that zeroes a register also clears the carry, which then waits for nothing.
        e.two(Code::Xor_r32_rm32, Register::R8D, Register::R8D);
        e.two(Code::Adc_r64_rm64, SUMS[n % SUMS.len()], Register::RSI);
    });
    Form::new("adc", None, Ok(chain), rate)
}

/// A large number by three: of operands of one word, few take longer.
fn division(name: &str, code: Code) -> Form {
    const LARGE: Register = Register::R10;
    let is_wide = code == Code::Div_rm64;
    let setup = move |e: &mut Emitter| {
        e.immediate(Code::Mov_r32_imm32, Register::R9D, 3);
        e.immediate(Code::Mov_r64_imm64, LARGE, if is_wide { i64::MAX - 14 } else { i64::from(i32::MAX) - 14 });
    };
    let divide = move |e: &mut Emitter, code_before: Code| {
        e.two(Code::Xor_r32_rm32, Register::EDX, Register::EDX);
        e.two(code_before, Register::RAX, LARGE);
        e.one(code, if is_wide { Register::R9 } else { Register::R9D });
    };
    let chain = Chain {
        minus: 1.0,
        how: Some("a chain of it and `or`, less one cycle; a large dividend by three"),
        ..Chain::of(Box::new(move |e, _| divide(e, Code::Or_r64_rm64)))
    };
    let rate: Body = Box::new(move |e, _| divide(e, Code::Mov_r64_rm64));
    Form { setup: Box::new(setup), ..Form::new(name, None, Ok(chain), rate) }
}
