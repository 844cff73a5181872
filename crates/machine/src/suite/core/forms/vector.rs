//! Forms on vector registers, with chains from register to register.

use iced_x86::{Code, Instruction, Register};

use super::{Chain, Form, absent, suffix};
use crate::host::features::Features;
use crate::kernels::x86_64::emit::{Emitter, vector};
use crate::kernels::x86_64::opcodes::{self, floating};
use crate::suite::core::emission::{Body, Vectors};
use rprof_isa::operation::{FpOp, Precision, Width};

/// How an instruction uses its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `dst = a op b`
    Three,
    /// `dst = a op b` by an immediate.
    ThreeBy(i32),
    /// `dst = op a`
    Two,
    /// `dst = op a` by an immediate.
    TwoBy(i32),
    /// `dst = dst + a·b`
    Accumulate,
    /// `mask = a op b` by an immediate, under the mask of the chain.
    Mask(i32),
    /// `dst = a op b` in the lanes of `k1`.
    Masked,
    /// `dst = dst op a`
    Destructive,
    /// `dst = dst op a` by an immediate.
    DestructiveBy(i32),
    /// `dst = dst op` an immediate.
    InPlace(i32),
}

/// An instruction and its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instr {
    code: Code,
    shape: Shape,
    width: Width,
}

/// An instruction at each width, scalar first, and as SSE if there is no AVX. `INVALID`: no such instruction.
struct Row {
    name: &'static str,
    shape: Shape,
    codes: [Code; 4],
    sse: [Code; 2],
    sse_shape: Shape,
    /// The instruction set of the SSE form and, at 256 bits, of the AVX form.
    needs: [fn(Features) -> bool; 2],
}

fn baseline(_: Features) -> bool {
    true
}
fn sse41(features: Features) -> bool {
    features.sse41
}
fn sha(features: Features) -> bool {
    features.sha
}
fn aes(features: Features) -> bool {
    features.aes
}
fn pclmulqdq(features: Features) -> bool {
    features.pclmulqdq
}
fn avx(features: Features) -> bool {
    features.avx
}
fn avx2(features: Features) -> bool {
    features.avx2
}

use Code::INVALID as NONE;

#[rustfmt::skip]
const ROWS: [Row; 13] = [
    Row { name: "vadd", shape: Shape::Three, sse_shape: Shape::Destructive, needs: [baseline, avx2],
        codes: [NONE, Code::VEX_Vpaddd_xmm_xmm_xmmm128, Code::VEX_Vpaddd_ymm_ymm_ymmm256, Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32],
        sse: [NONE, Code::Paddd_xmm_xmmm128] },
    Row { name: "vmul", shape: Shape::Three, sse_shape: Shape::Destructive, needs: [baseline, avx2],
        codes: [NONE, Code::VEX_Vpmuludq_xmm_xmm_xmmm128, Code::VEX_Vpmuludq_ymm_ymm_ymmm256, Code::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64],
        sse: [NONE, Code::Pmuludq_xmm_xmmm128] },
    Row { name: "vshift", shape: Shape::TwoBy(5), sse_shape: Shape::InPlace(5), needs: [baseline, avx2],
        codes: [NONE, Code::VEX_Vpsllq_xmm_xmm_imm8, Code::VEX_Vpsllq_ymm_ymm_imm8, Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8],
        sse: [NONE, Code::Psllq_xmm_imm8] },
    Row { name: "vlogic", shape: Shape::Three, sse_shape: Shape::Destructive, needs: [baseline, avx2],
        codes: [NONE, Code::VEX_Vpxor_xmm_xmm_xmmm128, Code::VEX_Vpxor_ymm_ymm_ymmm256, Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64],
        sse: [NONE, Code::Pxor_xmm_xmmm128] },
    Row { name: "shuffle", shape: Shape::ThreeBy(1), sse_shape: Shape::DestructiveBy(1), needs: [baseline, avx],
        codes: [NONE, Code::VEX_Vshufpd_xmm_xmm_xmmm128_imm8, Code::VEX_Vshufpd_ymm_ymm_ymmm256_imm8, Code::EVEX_Vshufpd_zmm_k1z_zmm_zmmm512b64_imm8],
        sse: [NONE, Code::Shufpd_xmm_xmmm128_imm8] },
    Row { name: "permute", shape: Shape::TwoBy(0x1b), sse_shape: Shape::Two, needs: [baseline, avx2],
        codes: [NONE, NONE, Code::VEX_Vpermpd_ymm_ymmm256_imm8, Code::EVEX_Vpermpd_zmm_k1z_zmmm512b64_imm8],
        sse: [NONE, NONE] },
    Row { name: "blend", shape: Shape::ThreeBy(1), sse_shape: Shape::DestructiveBy(1), needs: [sse41, avx],
        codes: [NONE, Code::VEX_Vblendpd_xmm_xmm_xmmm128_imm8, Code::VEX_Vblendpd_ymm_ymm_ymmm256_imm8, Code::EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64],
        sse: [NONE, Code::Blendpd_xmm_xmmm128_imm8] },
    Row { name: "fcmp", shape: Shape::ThreeBy(1), sse_shape: Shape::DestructiveBy(1), needs: [baseline, avx],
        codes: [Code::VEX_Vcmpsd_xmm_xmm_xmmm64_imm8, Code::VEX_Vcmppd_xmm_xmm_xmmm128_imm8, Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8, Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae],
        sse: [Code::Cmpsd_xmm_xmmm64_imm8, Code::Cmppd_xmm_xmmm128_imm8] },
    Row { name: "fminmax", shape: Shape::Three, sse_shape: Shape::Destructive, needs: [baseline, avx],
        codes: [Code::VEX_Vmaxsd_xmm_xmm_xmmm64, Code::VEX_Vmaxpd_xmm_xmm_xmmm128, Code::VEX_Vmaxpd_ymm_ymm_ymmm256, Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae],
        sse: [Code::Maxsd_xmm_xmmm64, Code::Maxpd_xmm_xmmm128] },
    Row { name: "fround", shape: Shape::TwoBy(3), sse_shape: Shape::TwoBy(3), needs: [sse41, avx],
        codes: [Code::VEX_Vroundsd_xmm_xmm_xmmm64_imm8, Code::VEX_Vroundpd_xmm_xmmm128_imm8, Code::VEX_Vroundpd_ymm_ymmm256_imm8, Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae],
        sse: [Code::Roundsd_xmm_xmmm64_imm8, Code::Roundpd_xmm_xmmm128_imm8] },
    Row { name: "sha", shape: Shape::Destructive, sse_shape: Shape::Destructive, needs: [sha, sha],
        codes: [NONE, Code::Sha256rnds2_xmm_xmmm128, NONE, NONE],
        sse: [NONE, Code::Sha256rnds2_xmm_xmmm128] },
    Row { name: "aes", shape: Shape::Destructive, sse_shape: Shape::Destructive, needs: [aes, aes],
        codes: [NONE, Code::Aesenc_xmm_xmmm128, NONE, NONE],
        sse: [NONE, Code::Aesenc_xmm_xmmm128] },
    Row { name: "clmul", shape: Shape::DestructiveBy(0), sse_shape: Shape::DestructiveBy(0), needs: [pclmulqdq, pclmulqdq],
        codes: [NONE, Code::Pclmulqdq_xmm_xmmm128_imm8, NONE, NONE],
        sse: [NONE, Code::Pclmulqdq_xmm_xmmm128_imm8] },
];

const FLOATING: [(&str, FpOp, Precision); 7] = [
    ("fadd", FpOp::Add, Precision::Dp),
    ("fmul", FpOp::Mul, Precision::Dp),
    ("ffma", FpOp::Fma, Precision::Dp),
    ("fdiv", FpOp::Div, Precision::Dp),
    ("fsqrt", FpOp::Sqrt, Precision::Dp),
    ("fdivs", FpOp::Div, Precision::Sp),
    ("fsqrts", FpOp::Sqrt, Precision::Sp),
];

/// Widths in the order of the columns.
pub(super) const WIDTHS: [Width; 4] = [Width::Scalar, Width::W128, Width::W256, Width::W512];

impl Row {
    /// The instruction at a width; `None`: this CPU lacks it.
    fn at(&self, column: usize, features: Features) -> Option<Instr> {
        let width = WIDTHS[column];
        let there = match width {
            Width::W512 => features.avx512f,
            Width::W256 => features.avx && self.needs[1](features),
            _ => self.needs[0](features),
        };
        let legacy = !features.avx;
        let code = if legacy { *self.sse.get(column)? } else { self.codes[column] };
        let shape = match (legacy, width, self.name) {
            (true, ..) => self.sse_shape,
            // A mask takes the place of the immediate, or of the vector.
            (_, Width::W512, "blend") => Shape::Masked,
            (_, Width::W512, "fcmp") => Shape::Mask(1),
            // The scalar forms take the upper half from another register.
            (_, Width::Scalar, "fround") => Shape::ThreeBy(3),
            _ => self.shape,
        };
        (there && code != NONE).then_some(Instr { code, shape, width })
    }

    /// Whether any CPU has it at this width.
    fn exists(&self, column: usize) -> bool {
        self.codes[column] != NONE
    }
}

/// The instruction of [`floating`] in this representation.
fn arithmetic(op: FpOp, precision: Precision, width: Width, features: Features) -> Option<Instr> {
    let opcode = floating(op, precision, width, features)?;
    let shape = match opcode.form {
        opcodes::Form::Three => Shape::Three,
        opcodes::Form::Accumulate => Shape::Accumulate,
        opcodes::Form::Destructive => Shape::Destructive,
        opcodes::Form::Unary => Shape::Two,
    };
    Some(Instr { code: opcode.code, shape, width })
}

impl Instr {
    /// Appends the instruction with `dst`; `a` is its source beside the operand near one.
    fn emit(self, e: &mut Emitter, dst: Register, a: Register) {
        let (_, b) = e.operands(self.width);
        let code = self.code;
        // Square roots and rounding read the last operand.
        let unary = matches!(code, Code::VEX_Vroundsd_xmm_xmm_xmmm64_imm8)
            || matches!(code, Code::VEX_Vsqrtsd_xmm_xmm_xmmm64 | Code::VEX_Vsqrtss_xmm_xmm_xmmm32);
        let last = if unary { a } else { b };
        let built = match self.shape {
            Shape::Three | Shape::Masked => Instruction::with3(code, dst, a, last),
            Shape::ThreeBy(by) | Shape::Mask(by) => Instruction::with4(code, dst, a, last, by),
            Shape::Two => Instruction::with2(code, dst, a),
            Shape::TwoBy(by) => Instruction::with3(code, dst, a, by),
            Shape::Accumulate => Instruction::with3(code, dst, e.operands(self.width).0, b),
            Shape::Destructive => Instruction::with2(code, dst, b),
            Shape::DestructiveBy(by) => Instruction::with3(code, dst, b, by),
            Shape::InPlace(by) => Instruction::with2(code, dst, by),
        };
        let mask = match self.shape {
            Shape::Masked => Register::K1,
            Shape::Mask(_) if a == dst || dst == Register::K2 => Register::K2,
            _ => Register::None,
        };
        e.checked(built.map(|mut instruction| {
            instruction.set_op_mask(mask);
            instruction
        }));
    }

    /// A link of a chain.
    fn dependent(self) -> Body {
        Box::new(move |e, _| match self.shape {
            Shape::Mask(_) => self.emit(e, Register::K2, vector(self.width, 0)),
            _ => self.emit(e, vector(self.width, 0), vector(self.width, 0)),
        })
    }

    /// One that waits for nothing, as far as there are registers.
    fn independent(self) -> Body {
        Box::new(move |e, n| {
            let registers = e.free_registers(self.width);
            // Instructions that overwrite their destination do not break the chains of those that add to it.
            let chains = registers - OVERWRITTEN;
            let a = e.operands(self.width).0;
            match self.shape {
                Shape::Mask(_) => self.emit(e, Register::K3 + (n % 5) as u32, a),
                Shape::Accumulate => self.emit(e, vector(self.width, n % chains), a),
                Shape::Destructive | Shape::DestructiveBy(_) | Shape::InPlace(_) => {
                    self.emit(e, vector(self.width, n % registers), a);
                }
                _ => self.emit(e, vector(self.width, chains + n % OVERWRITTEN), a),
            }
        })
    }

    fn form(self, name: String, precision: Precision) -> Form {
        let vectors = Some(Vectors { precision, width: self.width });
        let how = matches!(self.shape, Shape::Mask(_)).then_some("through the mask that it writes under");
        let chain = Chain { how, ..Chain::of(self.dependent()) };
        Form::new(name, vectors, Ok(chain), self.independent())
    }
}

/// Registers for instructions that write them without reading them.
const OVERWRITTEN: usize = 4;

pub(super) fn forms(features: Features) -> Vec<Form> {
    let mut forms = Vec::new();
    let mut add = |name: &str, precision, width: Width, instr: Option<Instr>| {
        let name = format!("{name}.{}", suffix(width));
        forms.push(match instr {
            Some(instr) => instr.form(name, precision),
            None => absent(name, "such instruction at this width"),
        });
    };
    for row in &ROWS {
        for column in (0..WIDTHS.len()).filter(|column| row.exists(*column)) {
            add(row.name, Precision::Dp, WIDTHS[column], row.at(column, features));
        }
    }
    for (name, op, precision) in FLOATING {
        for width in WIDTHS {
            add(name, precision, width, arithmetic(op, precision, width, features));
        }
    }
    forms
}
