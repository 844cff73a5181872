//! Which instructions do FLOPs, and how many: ordered data, the first row that names a mnemonic holds.
//!
//! Conventions beyond docs/conventions.md, each decided once, here:
//! - `dppd`, `dpps`: n selected lanes are n multiplies and n − 1 adds per 128 bits; lanes that the immediate leaves out are 0.
//! - `fprem`, `fprem1`: one division. `fscale`, `fabs`, `fchs`, `fxtract`: no FLOPs.
//! - Steps of 3DNow! reciprocals (`pfrcpit1` …) and the exponentials of AVX-512ER and KNC: 1 per lane, as the approximations.
//! - AMX: full tiles (16 rows of 64 bytes). A smaller tile configuration does less than is counted.

use iced_x86::Mnemonic::{self, *};

use crate::operation::{FpOp, Precision};

/// How many units of work an instruction does with all lanes active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lanes {
    /// One.
    One,
    /// One per this many bytes of the widest register operand.
    Vector(u32),
    /// The high bits of the immediate select among this many lanes in each 128 bits.
    Selected(u32),
}

/// FLOPs = lanes × per_lane of `op` in `precision`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arithmetic {
    pub op: FpOp,
    pub precision: Precision,
    pub lanes: Lanes,
    pub per_lane: u32,
}

use Lanes::{One, Selected, Vector};

/// Rows of (work of one lane, the mnemonics that do it).
#[rustfmt::skip]
pub(super) const ARITHMETIC: &[(Arithmetic, &[Mnemonic])] = &[
    // vaddsd xmm1, xmm2, xmm3  →  1 add
    (row(FpOp::Add, Precision::Dp, One, 1), &[
        Addsd, Vaddsd, Subsd, Vsubsd,
    ]),
    // vaddss xmm1, xmm2, xmm3  →  1 add
    (row(FpOp::Add, Precision::Sp, One, 1), &[
        Addss, Vaddss, Subss, Vsubss,
    ]),
    // vaddsh xmm1, xmm2, xmm3  →  1 add
    (row(FpOp::Add, Precision::Hp, One, 1), &[
        Vaddsh, Vsubsh,
    ]),
    // vaddpd zmm1, zmm2, zmm3  →  8 add
    (row(FpOp::Add, Precision::Dp, Vector(8), 1), &[
        Addpd, Vaddpd, Addsubpd, Vaddsubpd, Haddpd, Vhaddpd, Vaddnpd, Subpd, Vsubpd, Hsubpd, Vhsubpd, Vsubrpd,
    ]),
    // vaddps zmm1, zmm2, zmm3  →  16 add
    (row(FpOp::Add, Precision::Sp, Vector(4), 1), &[
        Addps, Vaddps, Addsubps, Vaddsubps, Haddps, Vhaddps, Vaddnps, Vaddsetsps, Subps, Vsubps, Hsubps,
        Vhsubps, Vsubrps,
    ]),
    // vaddph zmm1, zmm2, zmm3  →  32 add
    (row(FpOp::Add, Precision::Hp, Vector(2), 1), &[
        Vaddph, Vsubph,
    ]),
    // vmulsd xmm1, xmm2, xmm3  →  1 mul
    (row(FpOp::Mul, Precision::Dp, One, 1), &[
        Mulsd, Vmulsd,
    ]),
    // vmulss xmm1, xmm2, xmm3  →  1 mul
    (row(FpOp::Mul, Precision::Sp, One, 1), &[
        Mulss, Vmulss,
    ]),
    // vmulsh xmm1, xmm2, xmm3  →  1 mul
    (row(FpOp::Mul, Precision::Hp, One, 1), &[
        Vmulsh,
    ]),
    // vmulpd zmm1, zmm2, zmm3  →  8 mul
    (row(FpOp::Mul, Precision::Dp, Vector(8), 1), &[
        Mulpd, Vmulpd,
    ]),
    // vmulps zmm1, zmm2, zmm3  →  16 mul
    (row(FpOp::Mul, Precision::Sp, Vector(4), 1), &[
        Mulps, Vmulps,
    ]),
    // vmulph zmm1, zmm2, zmm3  →  32 mul
    (row(FpOp::Mul, Precision::Hp, Vector(2), 1), &[
        Vmulph,
    ]),
    // vdivsd xmm1, xmm2, xmm3  →  1 div
    (row(FpOp::Div, Precision::Dp, One, 1), &[
        Divsd, Vdivsd,
    ]),
    // vdivss xmm1, xmm2, xmm3  →  1 div
    (row(FpOp::Div, Precision::Sp, One, 1), &[
        Divss, Vdivss,
    ]),
    // vdivsh xmm1, xmm2, xmm3  →  1 div
    (row(FpOp::Div, Precision::Hp, One, 1), &[
        Vdivsh,
    ]),
    // vdivpd zmm1, zmm2, zmm3  →  8 div
    (row(FpOp::Div, Precision::Dp, Vector(8), 1), &[
        Divpd, Vdivpd,
    ]),
    // vdivps zmm1, zmm2, zmm3  →  16 div
    (row(FpOp::Div, Precision::Sp, Vector(4), 1), &[
        Divps, Vdivps,
    ]),
    // vdivph zmm1, zmm2, zmm3  →  32 div
    (row(FpOp::Div, Precision::Hp, Vector(2), 1), &[
        Vdivph,
    ]),
    // vsqrtsd xmm1, xmm2, xmm3  →  1 sqrt
    (row(FpOp::Sqrt, Precision::Dp, One, 1), &[
        Sqrtsd, Vsqrtsd,
    ]),
    // vsqrtss xmm1, xmm2, xmm3  →  1 sqrt
    (row(FpOp::Sqrt, Precision::Sp, One, 1), &[
        Sqrtss, Vsqrtss,
    ]),
    // vsqrtsh xmm1, xmm2, xmm3  →  1 sqrt
    (row(FpOp::Sqrt, Precision::Hp, One, 1), &[
        Vsqrtsh,
    ]),
    // vsqrtpd zmm1, zmm2, zmm3  →  8 sqrt
    (row(FpOp::Sqrt, Precision::Dp, Vector(8), 1), &[
        Sqrtpd, Vsqrtpd,
    ]),
    // vsqrtps zmm1, zmm2, zmm3  →  16 sqrt
    (row(FpOp::Sqrt, Precision::Sp, Vector(4), 1), &[
        Sqrtps, Vsqrtps,
    ]),
    // vsqrtph zmm1, zmm2, zmm3  →  32 sqrt
    (row(FpOp::Sqrt, Precision::Hp, Vector(2), 1), &[
        Vsqrtph,
    ]),
    // vfmadd231sd xmm1, xmm2, xmm3  →  1 fma of 2 FLOPs
    (row(FpOp::Fma, Precision::Dp, One, 2), &[
        Vfmadd132sd, Vfmadd213sd, Vfmadd231sd, Vfmaddsd, Vfmsub132sd, Vfmsub213sd, Vfmsub231sd, Vfmsubsd,
        Vfnmadd132sd, Vfnmadd213sd, Vfnmadd231sd, Vfnmaddsd, Vfnmsub132sd, Vfnmsub213sd, Vfnmsub231sd,
        Vfnmsubsd,
    ]),
    // vfmadd231ss xmm1, xmm2, xmm3  →  1 fma of 2 FLOPs
    (row(FpOp::Fma, Precision::Sp, One, 2), &[
        Vfmadd132ss, Vfmadd213ss, Vfmadd231ss, Vfmaddss, Vfmsub132ss, Vfmsub213ss, Vfmsub231ss, Vfmsubss,
        Vfnmadd132ss, Vfnmadd213ss, Vfnmadd231ss, Vfnmaddss, Vfnmsub132ss, Vfnmsub213ss, Vfnmsub231ss,
        Vfnmsubss,
    ]),
    // vfmadd231sh xmm1, xmm2, xmm3  →  1 fma of 2 FLOPs
    (row(FpOp::Fma, Precision::Hp, One, 2), &[
        Vfmadd132sh, Vfmadd213sh, Vfmadd231sh, Vfmsub132sh, Vfmsub213sh, Vfmsub231sh, Vfnmadd132sh,
        Vfnmadd213sh, Vfnmadd231sh, Vfnmsub132sh, Vfnmsub213sh, Vfnmsub231sh,
    ]),
    // vfmadd231pd zmm1, zmm2, zmm3  →  8 fma of 2 FLOPs
    (row(FpOp::Fma, Precision::Dp, Vector(8), 2), &[
        Vfmadd132pd, Vfmadd213pd, Vfmadd231pd, Vfmaddpd, Vfmsub132pd, Vfmsub213pd, Vfmsub231pd, Vfmsubpd,
        Vfnmadd132pd, Vfnmadd213pd, Vfnmadd231pd, Vfnmaddpd, Vfnmsub132pd, Vfnmsub213pd, Vfnmsub231pd,
        Vfnmsubpd, Vfmaddsub132pd, Vfmaddsub213pd, Vfmaddsub231pd, Vfmaddsubpd, Vfmsubadd132pd, Vfmsubadd213pd,
        Vfmsubadd231pd, Vfmsubaddpd,
    ]),
    // vfmadd231ps zmm1, zmm2, zmm3  →  16 fma of 2 FLOPs
    (row(FpOp::Fma, Precision::Sp, Vector(4), 2), &[
        Vfmadd132ps, Vfmadd213ps, Vfmadd231ps, Vfmaddps, Vfmsub132ps, Vfmsub213ps, Vfmsub231ps, Vfmsubps,
        Vfnmadd132ps, Vfnmadd213ps, Vfnmadd231ps, Vfnmaddps, Vfnmsub132ps, Vfnmsub213ps, Vfnmsub231ps,
        Vfnmsubps, Vfmaddsub132ps, Vfmaddsub213ps, Vfmaddsub231ps, Vfmaddsubps, Vfmsubadd132ps, Vfmsubadd213ps,
        Vfmsubadd231ps, Vfmsubaddps, Vfmadd233ps,
    ]),
    // vfmadd231ph zmm1, zmm2, zmm3  →  32 fma of 2 FLOPs
    (row(FpOp::Fma, Precision::Hp, Vector(2), 2), &[
        Vfmadd132ph, Vfmadd213ph, Vfmadd231ph, Vfmsub132ph, Vfmsub213ph, Vfmsub231ph, Vfnmadd132ph,
        Vfnmadd213ph, Vfnmadd231ph, Vfnmsub132ph, Vfnmsub213ph, Vfnmsub231ph, Vfmaddsub132ph, Vfmaddsub213ph,
        Vfmaddsub231ph, Vfmsubadd132ph, Vfmsubadd213ph, Vfmsubadd231ph,
    ]),
    // v4fmaddss xmm1, xmm2+3, m128  →  4 chained fma in one lane
    (row(FpOp::Fma, Precision::Sp, One, 8), &[
        V4fmaddss, V4fnmaddss,
    ]),
    // v4fmaddps zmm1, zmm2+3, m128  →  16 lanes of 4 chained fma
    (row(FpOp::Fma, Precision::Sp, Vector(4), 8), &[
        V4fmaddps, V4fnmaddps,
    ]),
    // vfmulcsh xmm1, xmm2, xmm3  →  one pair: 4 mul, 2 add
    (row(FpOp::Other, Precision::Hp, One, 6), &[
        Vfmulcsh, Vfcmulcsh,
    ]),
    // vfmulcph zmm1, zmm2, zmm3  →  16 pairs: 4 mul, 2 add each
    (row(FpOp::Other, Precision::Hp, Vector(4), 6), &[
        Vfmulcph, Vfcmulcph,
    ]),
    // vfmaddcsh xmm1, xmm2, xmm3  →  one pair: 4 mul, 4 add
    (row(FpOp::Other, Precision::Hp, One, 8), &[
        Vfmaddcsh, Vfcmaddcsh,
    ]),
    // vfmaddcph zmm1, zmm2, zmm3  →  16 pairs: 4 mul, 4 add each
    (row(FpOp::Other, Precision::Hp, Vector(4), 8), &[
        Vfmaddcph, Vfcmaddcph,
    ]),
    // vdpbf16ps zmm1, zmm2, zmm3  →  16 lanes: 2 mul, 2 add each
    (row(FpOp::Other, Precision::Bf16, Vector(4), 4), &[
        Vdpbf16ps,
    ]),
    // tdpbf16ps tmm1, tmm2, tmm3  →  16 × 16 × 32 multiply-adds of full tiles
    (row(FpOp::Other, Precision::Bf16, One, 16384), &[
        Tdpbf16ps,
    ]),
    // tdpfp16ps tmm1, tmm2, tmm3  →  16 × 16 × 32 multiply-adds of full tiles
    (row(FpOp::Other, Precision::Hp, One, 16384), &[
        Tdpfp16ps,
    ]),
    // tcmmimfp16ps tmm1, tmm2, tmm3  →  16 × 16 × 16 × (2 mul, 2 add) of full tiles
    (row(FpOp::Other, Precision::Hp, One, 16384), &[
        Tcmmimfp16ps, Tcmmrlfp16ps,
    ]),
    // dppd xmm1, xmm2, imm8  →  products of the lanes in imm8[5:4] and their sum
    (row(FpOp::Other, Precision::Dp, Selected(2), 1), &[
        Dppd, Vdppd,
    ]),
    // vdpps ymm1, ymm2, ymm3, imm8  →  per 128 bits: products of the lanes in imm8[7:4] and their sum
    (row(FpOp::Other, Precision::Sp, Selected(4), 1), &[
        Dpps, Vdpps,
    ]),
    // rcpss xmm1, xmm2  →  1 approximation
    (row(FpOp::Other, Precision::Sp, One, 1), &[
        Rcpss, Vrcpss, Rsqrtss, Vrsqrtss, Vrcp14ss, Vrsqrt14ss, Vrcp28ss, Vrsqrt28ss,
    ]),
    // vrcp14sd xmm1, xmm2, xmm3  →  1 approximation
    (row(FpOp::Other, Precision::Dp, One, 1), &[
        Vrcp14sd, Vrsqrt14sd, Vrcp28sd, Vrsqrt28sd,
    ]),
    // vrcpsh xmm1, xmm2, xmm3  →  1 approximation
    (row(FpOp::Other, Precision::Hp, One, 1), &[
        Vrcpsh, Vrsqrtsh,
    ]),
    // vrcp14ps zmm1, zmm2  →  16 approximations
    (row(FpOp::Other, Precision::Sp, Vector(4), 1), &[
        Rcpps, Vrcpps, Rsqrtps, Vrsqrtps, Vrcp14ps, Vrsqrt14ps, Vrcp28ps, Vrsqrt28ps, Vrcp23ps, Vrsqrt23ps,
        Vexp2ps, Vexp223ps, Vlog2ps,
    ]),
    // vrcp14pd zmm1, zmm2  →  8 approximations
    (row(FpOp::Other, Precision::Dp, Vector(8), 1), &[
        Vrcp14pd, Vrsqrt14pd, Vrcp28pd, Vrsqrt28pd, Vexp2pd,
    ]),
    // vrcpph zmm1, zmm2  →  32 approximations
    (row(FpOp::Other, Precision::Hp, Vector(2), 1), &[
        Vrcpph, Vrsqrtph,
    ]),
    // fadd st0, st1  →  1 add
    (row(FpOp::Add, Precision::X87, One, 1), &[
        Fadd, Faddp, Fiadd, Fsub, Fsubp, Fisub, Fsubr, Fsubrp, Fisubr,
    ]),
    // fmul st0, st1  →  1 mul
    (row(FpOp::Mul, Precision::X87, One, 1), &[
        Fmul, Fmulp, Fimul,
    ]),
    // fdiv st0, st1  →  1 div; a partial remainder is a division that keeps the other result
    (row(FpOp::Div, Precision::X87, One, 1), &[
        Fdiv, Fdivp, Fidiv, Fdivr, Fdivrp, Fidivr, Fprem, Fprem1,
    ]),
    // fsqrt  →  1 sqrt
    (row(FpOp::Sqrt, Precision::X87, One, 1), &[
        Fsqrt,
    ]),
    // fsin  →  1 transcendental
    (row(FpOp::Other, Precision::X87, One, 1), &[
        F2xm1, Fcos, Fsin, Fsincos, Fptan, Fpatan, Fyl2x, Fyl2xp1,
    ]),
    // pfadd mm0, mm1  →  2 add
    (row(FpOp::Add, Precision::Sp, Vector(4), 1), &[
        Pfadd, Pfsub, Pfsubr, Pfacc, Pfnacc, Pfpnacc,
    ]),
    // pfmul mm0, mm1  →  2 mul
    (row(FpOp::Mul, Precision::Sp, Vector(4), 1), &[
        Pfmul,
    ]),
    // pfrcp mm0, mm1  →  1 approximation, copied to both lanes
    (row(FpOp::Other, Precision::Sp, One, 1), &[
        Pfrcp, Pfrsqrt,
    ]),
    // pfrcpit1 mm0, mm1  →  2 steps of an approximation
    (row(FpOp::Other, Precision::Sp, Vector(4), 1), &[
        Pfrcpit1, Pfrcpit2, Pfrsqit1, Pfrcpv, Pfrsqrtv,
    ]),
];

const fn row(op: FpOp, precision: Precision, lanes: Lanes, per_lane: u32) -> Arithmetic {
    Arithmetic { op, precision, lanes, per_lane }
}
