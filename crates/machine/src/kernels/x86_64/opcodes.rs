//! The instruction for each (operation, precision, width), as ordered data.

use iced_x86::Code;

use crate::host::features::Features;
use rprof_isa::operation::{FpOp, Precision, Width};

/// How an instruction uses its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `dst = a op b`
    Three,
    /// `dst = dst + a·b`
    Accumulate,
    /// `dst = dst op a`
    Destructive,
    /// `dst = op a`
    Unary,
}

/// One arithmetic instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode {
    /// Its encoding.
    pub code: Code,
    /// Its operands.
    pub form: Form,
    /// FLOPs of one execution (integer dot products: 0).
    pub flops: u64,
    /// Integer operations of one execution.
    pub int_ops: u64,
}

impl Opcode {
    /// `vsqrtsd dst, a, b` takes its operand from `b`: a chain must go through that.
    pub fn is_scalar_sqrt(&self) -> bool {
        matches!(self.code, Code::VEX_Vsqrtsd_xmm_xmm_xmmm64 | Code::VEX_Vsqrtss_xmm_xmm_xmmm32)
    }
}

/// The instruction for `op`; `None` if this CPU lacks it.
pub fn floating(op: FpOp, precision: Precision, width: Width, features: Features) -> Option<Opcode> {
    if !features.has(op, width) {
        return None;
    }
    let (code, form) = match precision {
        Precision::Dp | Precision::Sp => {
            let column = usize::from(precision == Precision::Sp);
            if width == Width::W512 {
                evex(op)?[column]
            } else if features.avx {
                vex(op, width)?[column]
            } else {
                sse(op, width)?[column]
            }
        }
        Precision::Hp if width == Width::W512 && features.avx512fp16 => half(op)?,
        _ => return None,
    };
    let per_lane = if op == FpOp::Fma { 2 } else { 1 };
    Some(Opcode { code, form, flops: per_lane * u64::from(width.lanes(precision)), int_ops: 0 })
}

type Row = [(Code, Form); 2];

/// 512 bits: dp, sp.
fn evex(op: FpOp) -> Option<Row> {
    use Code::*;
    use Form::*;
    Some(match op {
        FpOp::Add => [(EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er, Three), (EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, Three)],
        FpOp::Mul => [(EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er, Three), (EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, Three)],
        FpOp::Div => [(EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er, Three), (EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, Three)],
        FpOp::Sqrt => [(EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er, Unary), (EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, Unary)],
        FpOp::Fma => [
            (EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er, Accumulate),
            (EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er, Accumulate),
        ],
        FpOp::Other => return None,
    })
}

/// VEX, up to 256 bits: dp, sp.
fn vex(op: FpOp, width: Width) -> Option<Row> {
    use Code::*;
    use Form::*;
    Some(match (op, width) {
        (FpOp::Add, Width::Scalar) => [(VEX_Vaddsd_xmm_xmm_xmmm64, Three), (VEX_Vaddss_xmm_xmm_xmmm32, Three)],
        (FpOp::Add, Width::W128) => [(VEX_Vaddpd_xmm_xmm_xmmm128, Three), (VEX_Vaddps_xmm_xmm_xmmm128, Three)],
        (FpOp::Add, Width::W256) => [(VEX_Vaddpd_ymm_ymm_ymmm256, Three), (VEX_Vaddps_ymm_ymm_ymmm256, Three)],
        (FpOp::Mul, Width::Scalar) => [(VEX_Vmulsd_xmm_xmm_xmmm64, Three), (VEX_Vmulss_xmm_xmm_xmmm32, Three)],
        (FpOp::Mul, Width::W128) => [(VEX_Vmulpd_xmm_xmm_xmmm128, Three), (VEX_Vmulps_xmm_xmm_xmmm128, Three)],
        (FpOp::Mul, Width::W256) => [(VEX_Vmulpd_ymm_ymm_ymmm256, Three), (VEX_Vmulps_ymm_ymm_ymmm256, Three)],
        (FpOp::Div, Width::Scalar) => [(VEX_Vdivsd_xmm_xmm_xmmm64, Three), (VEX_Vdivss_xmm_xmm_xmmm32, Three)],
        (FpOp::Div, Width::W128) => [(VEX_Vdivpd_xmm_xmm_xmmm128, Three), (VEX_Vdivps_xmm_xmm_xmmm128, Three)],
        (FpOp::Div, Width::W256) => [(VEX_Vdivpd_ymm_ymm_ymmm256, Three), (VEX_Vdivps_ymm_ymm_ymmm256, Three)],
        (FpOp::Sqrt, Width::Scalar) => [(VEX_Vsqrtsd_xmm_xmm_xmmm64, Three), (VEX_Vsqrtss_xmm_xmm_xmmm32, Three)],
        (FpOp::Sqrt, Width::W128) => [(VEX_Vsqrtpd_xmm_xmmm128, Unary), (VEX_Vsqrtps_xmm_xmmm128, Unary)],
        (FpOp::Sqrt, Width::W256) => [(VEX_Vsqrtpd_ymm_ymmm256, Unary), (VEX_Vsqrtps_ymm_ymmm256, Unary)],
        (FpOp::Fma, Width::Scalar) => {
            [(VEX_Vfmadd231sd_xmm_xmm_xmmm64, Accumulate), (VEX_Vfmadd231ss_xmm_xmm_xmmm32, Accumulate)]
        }
        (FpOp::Fma, Width::W128) => {
            [(VEX_Vfmadd231pd_xmm_xmm_xmmm128, Accumulate), (VEX_Vfmadd231ps_xmm_xmm_xmmm128, Accumulate)]
        }
        (FpOp::Fma, Width::W256) => {
            [(VEX_Vfmadd231pd_ymm_ymm_ymmm256, Accumulate), (VEX_Vfmadd231ps_ymm_ymm_ymmm256, Accumulate)]
        }
        (FpOp::Other, _) | (_, Width::W512) => return None,
    })
}

/// Legacy SSE2: dp, sp.
fn sse(op: FpOp, width: Width) -> Option<Row> {
    use Code::*;
    use Form::*;
    Some(match (op, width) {
        (FpOp::Add, Width::Scalar) => [(Addsd_xmm_xmmm64, Destructive), (Addss_xmm_xmmm32, Destructive)],
        (FpOp::Add, Width::W128) => [(Addpd_xmm_xmmm128, Destructive), (Addps_xmm_xmmm128, Destructive)],
        (FpOp::Mul, Width::Scalar) => [(Mulsd_xmm_xmmm64, Destructive), (Mulss_xmm_xmmm32, Destructive)],
        (FpOp::Mul, Width::W128) => [(Mulpd_xmm_xmmm128, Destructive), (Mulps_xmm_xmmm128, Destructive)],
        (FpOp::Div, Width::Scalar) => [(Divsd_xmm_xmmm64, Destructive), (Divss_xmm_xmmm32, Destructive)],
        (FpOp::Div, Width::W128) => [(Divpd_xmm_xmmm128, Destructive), (Divps_xmm_xmmm128, Destructive)],
        (FpOp::Sqrt, Width::Scalar) => [(Sqrtsd_xmm_xmmm64, Unary), (Sqrtss_xmm_xmmm32, Unary)],
        (FpOp::Sqrt, Width::W128) => [(Sqrtpd_xmm_xmmm128, Unary), (Sqrtps_xmm_xmmm128, Unary)],
        _ => return None,
    })
}

/// binary16 at 512 bits.
fn half(op: FpOp) -> Option<(Code, Form)> {
    use Code::*;
    Some(match op {
        FpOp::Add => (EVEX_Vaddph_zmm_k1z_zmm_zmmm512b16_er, Form::Three),
        FpOp::Mul => (EVEX_Vmulph_zmm_k1z_zmm_zmmm512b16_er, Form::Three),
        FpOp::Fma => (EVEX_Vfmadd231ph_zmm_k1z_zmm_zmmm512b16_er, Form::Accumulate),
        _ => return None,
    })
}

/// `vdpbf16ps`: a product and a sum in each 16-bit lane.
pub fn bf16_dot(width: Width, features: Features) -> Option<Opcode> {
    use Code::*;
    let code = match width {
        Width::W512 => EVEX_Vdpbf16ps_zmm_k1z_zmm_zmmm512b32,
        Width::W256 if features.avx512vl => EVEX_Vdpbf16ps_ymm_k1z_ymm_ymmm256b32,
        Width::W128 if features.avx512vl => EVEX_Vdpbf16ps_xmm_k1z_xmm_xmmm128b32,
        _ => return None,
    };
    let flops = 2 * u64::from(width.lanes(Precision::Bf16));
    features.avx512bf16.then_some(Opcode { code, form: Form::Accumulate, flops, int_ops: 0 })
}

/// `vpdpbusd`: a product and a sum of each byte.
pub fn int8_dot(width: Width, features: Features) -> Option<Opcode> {
    use Code::*;
    let masked = features.avx512vnni && features.avx512vl;
    let code = match width {
        Width::W512 if features.avx512vnni => EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32,
        Width::W256 if masked => EVEX_Vpdpbusd_ymm_k1z_ymm_ymmm256b32,
        Width::W128 if masked => EVEX_Vpdpbusd_xmm_k1z_xmm_xmmm128b32,
        Width::W256 if features.avxvnni => VEX_Vpdpbusd_ymm_ymm_ymmm256,
        Width::W128 if features.avxvnni => VEX_Vpdpbusd_xmm_xmm_xmmm128,
        _ => return None,
    };
    // Twice as many bytes as 16-bit lanes.
    let bytes = 2 * u64::from(width.lanes(Precision::Hp));
    Some(Opcode { code, form: Form::Accumulate, flops: 0, int_ops: 2 * bytes })
}

/// An operation on 32-bit integer lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegerOp {
    /// Addition.
    Add,
    /// Multiplication, low half.
    Mul,
    /// Exclusive or.
    Logic,
}

/// The vector instruction for an operation on 32-bit lanes.
pub fn integer(op: IntegerOp, width: Width, features: Features) -> Option<Opcode> {
    use Code::*;
    use IntegerOp::*;
    let (code, form) = match (op, width) {
        (Add, Width::W128) => (Paddd_xmm_xmmm128, Form::Destructive),
        (Logic, Width::W128) => (Pxor_xmm_xmmm128, Form::Destructive),
        (Add, Width::W256) if features.avx2 => (VEX_Vpaddd_ymm_ymm_ymmm256, Form::Three),
        (Mul, Width::W256) if features.avx2 => (VEX_Vpmulld_ymm_ymm_ymmm256, Form::Three),
        (Logic, Width::W256) if features.avx2 => (VEX_Vpxor_ymm_ymm_ymmm256, Form::Three),
        (Add, Width::W512) if features.avx512f => (EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, Form::Three),
        (Mul, Width::W512) if features.avx512f => (EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, Form::Three),
        (Logic, Width::W512) if features.avx512f => (EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, Form::Three),
        _ => return None,
    };
    // Logic has no lanes of its own; they count as 64-bit ones.
    let lanes = width.lanes(if op == Logic { Precision::Dp } else { Precision::Sp });
    Some(Opcode { code, form, flops: 0, int_ops: u64::from(lanes) })
}
