//! Forms that convert between kinds of registers or numbers; their chains go there and back.

use iced_x86::{Code, Instruction, Register};

use super::{Chain, Form, absent, suffix};
use crate::host::features::Features;
use crate::kernels::x86_64::emit::{Emitter, vector};
use crate::suite::core::emission::{Body, Vectors, general};
use rprof_isa::operation::{Precision, Width};

pub(super) fn forms(features: Features) -> Vec<Form> {
    let mut forms = Vec::new();
    for width in super::vector::WIDTHS {
        let there = features.widths().contains(&width);
        for name in ["cvt", "cvtint"] {
            let name_of_width = format!("{name}.{}", suffix(width));
            forms.push(match there {
                true => conversion(name_of_width, name == "cvtint", width, features),
                false => absent(name_of_width, "such instruction at this width"),
            });
        }
    }
    forms.extend(between(features));
    forms.push(compare_into_flags(features));
    forms.push(match features.avx512f {
        true => masks(),
        false => absent("kop", "AVX-512"),
    });
    forms
}

fn masks() -> Form {
    let and = |e: &mut Emitter, to, from| e.three(Code::VEX_Kandw_kr_kr_kr, to, from, Register::K1);
    let chain = Chain::of(Box::new(move |e, _| and(e, Register::K2, Register::K2)));
    Form::new("kop", None, Ok(chain), Box::new(move |e, n| and(e, Register::K2 + (n % 6) as u32, Register::K1)))
}

fn dp(width: Width) -> Option<Vectors> {
    Some(Vectors { precision: Precision::Dp, width })
}

/// The instruction from doubles and the one back to them: register operands only, scalar ones with the upper half of the destination.
fn pair(to_integers: bool, width: Width, avx: bool) -> [Code; 2] {
    use Code::*;
    match (to_integers, width, avx) {
        (false, Width::Scalar, true) => [VEX_Vcvtsd2ss_xmm_xmm_xmmm64, VEX_Vcvtss2sd_xmm_xmm_xmmm32],
        (false, Width::Scalar, false) => [Cvtsd2ss_xmm_xmmm64, Cvtss2sd_xmm_xmmm32],
        (false, Width::W128, true) => [VEX_Vcvtpd2ps_xmm_xmmm128, VEX_Vcvtps2pd_xmm_xmmm64],
        (false, Width::W128, false) => [Cvtpd2ps_xmm_xmmm128, Cvtps2pd_xmm_xmmm64],
        (false, Width::W256, _) => [VEX_Vcvtpd2ps_xmm_ymmm256, VEX_Vcvtps2pd_ymm_xmmm128],
        (false, Width::W512, _) => [EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae],
        (true, Width::Scalar, true) => [VEX_Vcvttsd2si_r32_xmmm64, VEX_Vcvtsi2sd_xmm_xmm_rm32],
        (true, Width::Scalar, false) => [Cvttsd2si_r32_xmmm64, Cvtsi2sd_xmm_rm32],
        (true, Width::W128, true) => [VEX_Vcvttpd2dq_xmm_xmmm128, VEX_Vcvtdq2pd_xmm_xmmm64],
        (true, Width::W128, false) => [Cvttpd2dq_xmm_xmmm128, Cvtdq2pd_xmm_xmmm64],
        (true, Width::W256, _) => [VEX_Vcvttpd2dq_xmm_ymmm256, VEX_Vcvtdq2pd_ymm_xmmm128],
        (true, Width::W512, _) => [EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae, EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er],
    }
}

fn conversion(name: String, to_integers: bool, width: Width, features: Features) -> Form {
    let codes = pair(to_integers, width, features.avx);
    let step = move |e: &mut Emitter, back: bool, to: usize, from: usize| {
        let code = codes[usize::from(back)];
        let half = match width {
            Width::W512 => Width::W256,
            _ => Width::W128,
        };
        let general = to_integers && width == Width::Scalar;
        let narrow = |n: usize| if general { Register::EAX } else { vector(half, n) };
        let (dst, src) = match back {
            false => (narrow(to), vector(width, from)),
            true => (vector(width, to), narrow(from)),
        };
        // These take the upper half from another register.
        let has_three = width == Width::Scalar && features.avx && (back || !to_integers);
        e.checked(match has_three {
            true => Instruction::with3(code, dst, vector(width, from), src),
            false => Instruction::with2(code, dst, src),
        });
    };
    let chain = Chain {
        times: 2.0,
        how: Some("half of the way there and back"),
        ..Chain::of(Box::new(move |e, _| {
            step(e, false, 1, 0);
            step(e, true, 0, 1);
        }))
    };
    let rate: Body = Box::new(move |e, n| {
        let source = e.free_registers(width);
        step(e, n % 2 == 1, source - 4 + n % 4, source);
    });
    Form::new(name, dp(width), Ok(chain), rate)
}

/// `movq` both ways.
fn between(features: Features) -> [Form; 2] {
    let [to_vector, from_vector] = movq(features);
    let chain = move || Chain {
        times: 2.0,
        how: Some("half of the way there and back"),
        ..Chain::of(Box::new(move |e, _| {
            e.two(to_vector, Register::XMM0, Register::RAX);
            e.two(from_vector, Register::RAX, Register::XMM0);
        }))
    };
    let to: Body = Box::new(move |e, n| e.two(to_vector, vector(Width::W128, n % 14), Register::RSI));
    let from: Body = Box::new(move |e, n| e.two(from_vector, general(n), Register::XMM0));
    [("movgprvec", to), ("movvecgpr", from)].map(|(name, rate)| Form::new(name, dp(Width::W128), Ok(chain()), rate))
}

/// General register to vector register, and back.
pub(super) fn movq(features: Features) -> [Code; 2] {
    match features.avx {
        true => [Code::VEX_Vmovq_xmm_rm64, Code::VEX_Vmovq_rm64_xmm],
        false => [Code::Movq_xmm_rm64, Code::Movq_rm64_xmm],
    }
}

/// `ucomisd`: a chain through the flags, a conditional move and a move back.
fn compare_into_flags(features: Features) -> Form {
    let compare = if features.avx { Code::VEX_Vucomisd_xmm_xmmm64 } else { Code::Ucomisd_xmm_xmmm64 };
    let [to_vector, _] = movq(features);
    let chain = Chain {
        minus_forms: &["cmov", "movgprvec"],
        how: Some("a chain of it, `cmov` and `movq`, less theirs"),
        ..Chain::of(Box::new(move |e, _| {
            e.two(compare, Register::XMM0, Register::XMM1);
            e.two(Code::Cmovb_r64_rm64, Register::RAX, Register::RDX);
            e.two(to_vector, Register::XMM0, Register::RAX);
        }))
    };
    let rate: Body = Box::new(move |e, _| e.two(compare, Register::XMM0, Register::XMM1));
    Form::new("fcomi", dp(Width::W128), Ok(chain), rate)
}
