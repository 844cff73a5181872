//! Instruction → form, by mnemonic and operands.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::form::{Form, Kind};
use rprof_isa::facts::{InstructionClass, InstructionFacts};
use rprof_isa::operation::{FpOp, Precision, Width};

/// Work of an instruction on the execution ports besides its loads and stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    /// `None` for plain loads and stores, and for instructions that renaming handles.
    pub form: Option<Form>,
    /// Micro-operations of that form, one after the other on the same ports; the last one's result counts.
    pub uops: u8,
}

impl Work {
    const NONE: Work = Work { form: None, uops: 0 };

    fn one(form: Form) -> Work {
        Work { form: Some(form), uops: 1 }
    }

    fn of(kind: Kind, uops: u8) -> Work {
        Work { form: Some(Form::scalar(kind)), uops }
    }
}

/// The work of an instruction.
pub(super) fn work(instruction: &Instruction, facts: &InstructionFacts) -> Work {
    use Mnemonic::*;
    if facts.class == InstructionClass::Nop || is_eliminated(instruction) {
        return Work::NONE;
    }
    if instruction.has_lock_prefix() || (instruction.mnemonic() == Xchg && has_memory(instruction)) {
        return Work::of(Kind::Locked, 4);
    }
    if let Some(flop) = facts.flops.first() {
        return floating(flop.op, flop.precision, flop.width);
    }
    if facts.fp_instruction {
        return other_floating(instruction, width(instruction, facts));
    }
    if facts.class == InstructionClass::Branch {
        return Work::of(Kind::Branch, 1);
    }
    let name = instruction.mnemonic();
    if moves_only(instruction) {
        return Work::NONE;
    }
    if uses_vectors(instruction) {
        return vector(instruction, facts);
    }
    match name {
        Imul | Mulx => Work::of(Kind::Imul, 1),
        Mul => Work::of(Kind::Imul, 2),
        Div | Idiv if instruction.op0_register().is_gpr64() || instruction.memory_size().size() == 8 => {
            Work::of(Kind::Div64, 1)
        }
        Div | Idiv => Work::of(Kind::Div32, 1),
        Shl | Shr | Sar | Rol | Ror
            if instruction.op1_kind() == OpKind::Register && instruction.op1_register() == Register::CL =>
        {
            Work::of(Kind::ShiftCl, 1)
        }
        Shl | Shr | Sar | Rol | Ror | Shlx | Shrx | Sarx | Rorx | Bswap => Work::of(Kind::Shift, 1),
        Rcl | Rcr | Shld | Shrd => Work::of(Kind::Shift, 2),
        Lea if is_three_component(instruction) => Work::of(Kind::Lea3, 1),
        Andn | Bextr | Blsi | Blsr | Blsmsk | Bzhi => Work::of(Kind::Bmi, 1),
        Pdep | Pext | Popcnt | Lzcnt | Tzcnt | Bsf | Bsr | Crc32 => Work::of(Kind::Popcnt, 1),
        Adc | Sbb | Adcx | Adox => Work::of(Kind::Adc, 1),
        Cpuid | Rdtsc | Rdtscp | Lfence | Mfence | Xgetbv | Xsave | Xsavec | Xrstor | Fxsave | Fxrstor | Rdrand
        | Rdseed | Pause | Rdpid | Vzeroall | Cmpxchg8b | Cmpxchg16b | Ldmxcsr | Stmxcsr | Fldcw | Fnstcw => {
            Work::of(Kind::Special, 4)
        }
        Syscall | Sysenter | Int | Sfence | Vzeroupper | Emms | Clflush | Clflushopt | Clwb => Work::NONE,
        Cmpxchg | Xadd | Xchg => Work::of(Kind::Add, 3),
        Fsin | Fcos | Fsincos | Fptan | Fpatan | F2xm1 | Fyl2x | Fyl2xp1 | Fprem | Fprem1 | Fscale => {
            Work::of(Kind::Special, 20)
        }
        _ if is_set(name) => Work::of(Kind::Setcc, 1),
        _ if instruction.condition_code() != iced_x86::ConditionCode::None => Work::of(Kind::Cmov, 1),
        _ => Work::of(Kind::Add, 1),
    }
}

fn floating(op: FpOp, precision: Precision, width: Width) -> Work {
    let single = matches!(precision, Precision::Sp | Precision::Hp | Precision::Bf16);
    let kind = match op {
        FpOp::Add => Kind::FAdd,
        FpOp::Mul => Kind::FMul,
        FpOp::Fma => Kind::FFma,
        FpOp::Div if single => Kind::FDivs,
        FpOp::Div => Kind::FDiv,
        FpOp::Sqrt if single => Kind::FSqrts,
        FpOp::Sqrt => Kind::FSqrt,
        FpOp::Other if precision == Precision::X87 => return Work::of(Kind::Special, 8),
        // Horizontal additions and dot products: two shuffles and an addition, or more of both.
        FpOp::Other => return Work { form: Some(Form::new(Kind::FFma, width)), uops: 1 },
    };
    Work::one(Form::new(kind, width))
}

fn other_floating(instruction: &Instruction, width: Width) -> Work {
    use Mnemonic::*;
    let kind = match instruction.mnemonic() {
        Comisd | Comiss | Ucomisd | Ucomiss | Vcomisd | Vcomiss | Vucomisd | Vucomiss | Vcomish | Vucomish | Fcomi
        | Fcomip | Fucomi | Fucomip | Fcom | Fcomp | Fcompp | Fucom | Fucomp | Fucompp | Ftst => {
            return Work::of(Kind::Fcomi, 1);
        }
        Minss | Minsd | Minps | Minpd | Maxss | Maxsd | Maxps | Maxpd | Vminss | Vminsd | Vminps | Vminpd | Vmaxss
        | Vmaxsd | Vmaxps | Vmaxpd | Vminph | Vminsh | Vmaxph | Vmaxsh => Kind::FMinmax,
        Roundss | Roundsd | Roundps | Roundpd | Vroundss | Vroundsd | Vroundps | Vroundpd | Vrndscaless
        | Vrndscalesd | Vrndscaleps | Vrndscalepd | Frndint => Kind::FRound,
        Cmpss | Cmpsd | Cmpps | Cmppd | Vcmpss | Vcmpsd | Vcmpps | Vcmppd | Vcmpph | Vcmpsh | Vfpclassps
        | Vfpclasspd | Vfpclassss | Vfpclasssd => Kind::FCmp,
        _ if general_operand(instruction) => return Work { form: Some(Form::new(Kind::CvtInt, width)), uops: 2 },
        _ => Kind::Cvt,
    };
    Work::one(Form::new(kind, width))
}

fn vector(instruction: &Instruction, facts: &InstructionFacts) -> Work {
    use Mnemonic::*;
    let width = width(instruction, facts);
    let name = instruction.mnemonic();
    let form = |kind| Work::one(Form::new(kind, width));
    if operands(instruction).all(|register| register.is_k() || register.is_gpr()) {
        return match operands(instruction).any(Register::is_gpr) {
            true => Work::of(Kind::MovVecGpr, 1),
            false => Work::of(Kind::Kop, 1),
        };
    }
    if MULTIPLIES.contains(&name) {
        let uops = if matches!(name, Pmulld | Vpmulld | Vpmullq) { 2 } else { 1 };
        return Work { uops, ..form(Kind::VMul) };
    }
    match name {
        Movd | Movq | Vmovd | Vmovq | Pextrb | Pextrw | Pextrd | Pextrq | Vpextrb | Vpextrw | Vpextrd | Vpextrq
        | Pmovmskb | Vpmovmskb | Movmskps | Movmskpd | Vmovmskps | Vmovmskpd | Ptest | Vptest | Vtestps | Vtestpd
        | Extractps | Vextractps
            if !has_memory(instruction) && general_operand(instruction) =>
        {
            let reads = instruction.op0_register().is_vector_register() || instruction.op0_register().is_mm();
            Work::of(if reads { Kind::MovGprVec } else { Kind::MovVecGpr }, 1)
        }
        Ptest | Vptest | Vtestps | Vtestpd => Work::of(Kind::MovVecGpr, 1),
        Pinsrb | Pinsrw | Pinsrd | Pinsrq | Vpinsrb | Vpinsrw | Vpinsrd | Vpinsrq if !has_memory(instruction) => {
            Work::of(Kind::MovGprVec, 2)
        }
        Vpbroadcastb | Vpbroadcastw | Vpbroadcastd | Vpbroadcastq if general_operand(instruction) => {
            form(Kind::Permute)
        }
        // The others of SHA are like shuffles and additions.
        Sha256rnds2 | Sha1rnds4 => form(Kind::Sha),
        Aesenc | Aesenclast | Aesdec | Aesdeclast | Vaesenc | Vaesenclast | Vaesdec | Vaesdeclast | Aesimc
        | Vaesimc | Aeskeygenassist | Vaeskeygenassist => form(Kind::Aes),
        Pclmulqdq | Vpclmulqdq => form(Kind::Clmul),
        _ if SHIFTS.contains(&name) => form(Kind::VShift),
        _ if LOGIC.contains(&name) => form(Kind::VLogic),
        _ if BLENDS.contains(&name) => form(Kind::Blend),
        _ if ACROSS.contains(&name) && width != Width::W128 && width != Width::Scalar => form(Kind::Permute),
        _ if SHUFFLES.contains(&name) || ACROSS.contains(&name) => form(Kind::Shuffle),
        _ if facts.int_ops > 0 => form(Kind::VAdd),
        _ if instruction.op_mask().is_k() => form(Kind::Blend),
        _ => form(Kind::VLogic),
    }
}

const MULTIPLIES: &[Mnemonic] = {
    use Mnemonic::*;
    &[
        Pmuludq,
        Pmuldq,
        Pmullw,
        Pmulhw,
        Pmulhuw,
        Pmulld,
        Pmaddwd,
        Pmaddubsw,
        Pmulhrsw,
        Psadbw,
        Vpmuludq,
        Vpmuldq,
        Vpmullw,
        Vpmulhw,
        Vpmulhuw,
        Vpmulld,
        Vpmullq,
        Vpmaddwd,
        Vpmaddubsw,
        Vpmulhrsw,
        Vpsadbw,
        Vpdpbusd,
        Vpdpbusds,
        Vpdpwssd,
        Vpdpwssds,
        Vpmadd52luq,
        Vpmadd52huq,
    ]
};

const SHIFTS: &[Mnemonic] = {
    use Mnemonic::*;
    &[
        Psllw, Pslld, Psllq, Psrlw, Psrld, Psrlq, Psraw, Psrad, Vpsllw, Vpslld, Vpsllq, Vpsrlw, Vpsrld, Vpsrlq, Vpsraw,
        Vpsrad, Vpsraq, Vpsllvd, Vpsllvq, Vpsrlvd, Vpsrlvq, Vpsravd, Vpsravq, Vprold, Vprolq, Vprord, Vprorq, Vprolvd,
        Vprolvq, Vprorvd, Vprorvq,
    ]
};

const LOGIC: &[Mnemonic] = {
    use Mnemonic::*;
    &[
        Pand, Por, Pxor, Pandn, Andps, Andpd, Orps, Orpd, Xorps, Xorpd, Andnps, Andnpd, Vpand, Vpor, Vpxor, Vpandn,
        Vandps, Vandpd, Vorps, Vorpd, Vxorps, Vxorpd, Vandnps, Vandnpd, Vpandd, Vpandq, Vpord, Vporq, Vpxord, Vpxorq,
        Vpandnd, Vpandnq, Vpternlogd, Vpternlogq, Fabs, Fchs,
    ]
};

const BLENDS: &[Mnemonic] = {
    use Mnemonic::*;
    &[
        Blendps, Blendpd, Pblendw, Vblendps, Vblendpd, Vpblendd, Vpblendw, Blendvps, Blendvpd, Pblendvb, Vblendvps,
        Vblendvpd, Vpblendvb, Vblendmps, Vblendmpd, Vpblendmd, Vpblendmq, Vpblendmb, Vpblendmw, Movss, Movsd, Vmovss,
        Vmovsd,
    ]
};

const SHUFFLES: &[Mnemonic] = {
    use Mnemonic::*;
    &[
        Pshufb,
        Pshufd,
        Pshufhw,
        Pshuflw,
        Pshufw,
        Shufps,
        Shufpd,
        Unpcklps,
        Unpckhps,
        Unpcklpd,
        Unpckhpd,
        Punpcklbw,
        Punpckhbw,
        Punpcklwd,
        Punpckhwd,
        Punpckldq,
        Punpckhdq,
        Punpcklqdq,
        Punpckhqdq,
        Packsswb,
        Packssdw,
        Packuswb,
        Packusdw,
        Palignr,
        Insertps,
        Movddup,
        Movshdup,
        Movsldup,
        Movhlps,
        Movlhps,
        Movlps,
        Movhps,
        Movlpd,
        Movhpd,
        Pslldq,
        Psrldq,
        Vpshufb,
        Vpshufd,
        Vpshufhw,
        Vpshuflw,
        Vshufps,
        Vshufpd,
        Vunpcklps,
        Vunpckhps,
        Vunpcklpd,
        Vunpckhpd,
        Vpunpcklbw,
        Vpunpckhbw,
        Vpunpcklwd,
        Vpunpckhwd,
        Vpunpckldq,
        Vpunpckhdq,
        Vpunpcklqdq,
        Vpunpckhqdq,
        Vpacksswb,
        Vpackssdw,
        Vpackuswb,
        Vpackusdw,
        Vpalignr,
        Vinsertps,
        Vmovddup,
        Vmovshdup,
        Vmovsldup,
        Vmovhlps,
        Vmovlhps,
        Vmovlps,
        Vmovhps,
        Vmovlpd,
        Vmovhpd,
        Vpslldq,
        Vpsrldq,
        Vpermilps,
        Vpermilpd,
    ]
};

/// Those that move data across 128 bits when they are wide enough.
const ACROSS: &[Mnemonic] = {
    use Mnemonic::*;
    &[
        Vpermd,
        Vpermq,
        Vpermps,
        Vpermpd,
        Vperm2f128,
        Vperm2i128,
        Vinsertf128,
        Vinserti128,
        Vextractf128,
        Vextracti128,
        Vinsertf32x4,
        Vinsertf64x2,
        Vinsertf64x4,
        Vinserti32x4,
        Vinserti64x2,
        Vinserti64x4,
        Vextractf32x4,
        Vextractf64x2,
        Vextractf64x4,
        Vextracti32x4,
        Vextracti64x2,
        Vextracti64x4,
        Vpermt2d,
        Vpermt2q,
        Vpermt2ps,
        Vpermt2pd,
        Vpermi2d,
        Vpermi2q,
        Vpermi2ps,
        Vpermi2pd,
        Vpermw,
        Vpermb,
        Vpermt2w,
        Vpermi2w,
        Valignd,
        Valignq,
        Vshuff32x4,
        Vshuff64x2,
        Vshufi32x4,
        Vshufi64x2,
        Vbroadcastss,
        Vbroadcastsd,
        Vpbroadcastb,
        Vpbroadcastw,
        Vpbroadcastd,
        Vpbroadcastq,
        Vpmovzxbw,
        Vpmovzxbd,
        Vpmovzxbq,
        Vpmovzxwd,
        Vpmovzxwq,
        Vpmovzxdq,
        Vpmovsxbw,
        Vpmovsxbd,
        Vpmovsxbq,
        Vpmovsxwd,
        Vpmovsxwq,
        Vpmovsxdq,
        Vpmovqd,
        Vpmovqw,
        Vpmovqb,
        Vpmovdw,
        Vpmovdb,
        Vpmovwb,
        Vpcompressd,
        Vpcompressq,
        Vcompressps,
        Vcompresspd,
        Vpexpandd,
        Vpexpandq,
        Vexpandps,
        Vexpandpd,
        Pmovzxbw,
        Pmovzxbd,
        Pmovzxbq,
        Pmovzxwd,
        Pmovzxwq,
        Pmovzxdq,
        Pmovsxbw,
        Pmovsxbd,
        Pmovsxbq,
        Pmovsxwd,
        Pmovsxwq,
        Pmovsxdq,
    ]
};

/// Moves between registers that renaming does.
pub(super) fn is_eliminated(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    if has_memory(instruction) || instruction.op_mask().is_k() || instruction.op_count() != 2 {
        return false;
    }
    let (to, from) = (instruction.op0_register(), instruction.op1_register());
    match instruction.mnemonic() {
        Mov => to.is_gpr64() && from.is_gpr64() || to.is_gpr32() && from.is_gpr32(),
        Movaps | Movapd | Movups | Movupd | Movdqa | Movdqu | Vmovaps | Vmovapd | Vmovups | Vmovupd | Vmovdqa
        | Vmovdqu | Vmovdqa32 | Vmovdqa64 | Vmovdqu8 | Vmovdqu16 | Vmovdqu32 | Vmovdqu64 => true,
        Fxch | Fst | Fstp | Fld => true,
        _ => false,
    }
}

/// Additions of small constants to whole registers, which some cores do when they rename.
pub(super) fn adds_constant(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    const SMALL: std::ops::Range<i64> = -1024..1024;
    let whole = instruction.op0_kind() == OpKind::Register && instruction.op0_register().is_gpr64();
    match instruction.mnemonic() {
        Inc | Dec => whole,
        Add | Sub => {
            let immediate = matches!(instruction.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64);
            whole && immediate && SMALL.contains(&(instruction.immediate(1) as i64))
        }
        Lea => {
            let base = instruction.memory_base();
            let plain = instruction.memory_index() == Register::None && base.is_gpr64();
            whole && plain && SMALL.contains(&(instruction.memory_displacement64() as i64))
        }
        _ => false,
    }
}

/// Plain loads and stores: only the load and store ports work for them.
fn moves_only(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    let merges = instruction.op_mask().is_k() && !instruction.zeroing_masking();
    if !has_memory(instruction) {
        return matches!(instruction.mnemonic(), Push | Pop);
    }
    if merges && instruction.op0_kind() == OpKind::Register {
        return false;
    }
    match instruction.mnemonic() {
        Mov | Movzx | Movsx | Movsxd | Movbe | Push | Pop | Prefetcht0 | Prefetcht1 | Prefetcht2 | Prefetchnta
        | Prefetchw | Movnti => true,
        Movaps | Movapd | Movups | Movupd | Movdqa | Movdqu | Lddqu | Movntdqa | Movntps | Movntpd | Movntdq
        | Vmovaps | Vmovapd | Vmovups | Vmovupd | Vmovdqa | Vmovdqu | Vlddqu | Vmovntdqa | Vmovntps | Vmovntpd
        | Vmovntdq | Vmovdqa32 | Vmovdqa64 | Vmovdqu8 | Vmovdqu16 | Vmovdqu32 | Vmovdqu64 => true,
        Movss | Movsd | Vmovss | Vmovsd | Vmovsh | Movd | Movq | Vmovd | Vmovq | Movddup | Vmovddup | Vbroadcastss
        | Vbroadcastsd | Vbroadcastf128 | Vbroadcasti128 | Vbroadcastf32x4 | Vbroadcastf64x2 | Vbroadcastf64x4
        | Vbroadcasti32x4 | Vbroadcasti64x2 | Vbroadcasti64x4 | Vpbroadcastd | Vpbroadcastq | Kmovb | Kmovw | Kmovd
        | Kmovq | Fld | Fst | Fstp | Fild | Fistp | Fist => true,
        Movlps | Movlpd | Movhps | Movhpd | Vmovlps | Vmovlpd | Vmovhps | Vmovhpd => {
            instruction.op0_kind() == OpKind::Memory
        }
        Movsb | Movsw | Movsq | Stosb | Stosw | Stosd | Stosq | Lodsb | Lodsw | Lodsd | Lodsq => true,
        Vgatherdps | Vgatherdpd | Vgatherqps | Vgatherqpd | Vpgatherdd | Vpgatherdq | Vpgatherqd | Vpgatherqq
        | Vscatterdps | Vscatterdpd | Vscatterqps | Vscatterqpd | Vpscatterdd | Vpscatterdq | Vpscatterqd
        | Vpscatterqq => true,
        _ => false,
    }
}

fn is_three_component(instruction: &Instruction) -> bool {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    base != Register::None && index != Register::None && instruction.memory_displacement64() != 0
}

fn is_set(name: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        name,
        Seta | Setae
            | Setb
            | Setbe
            | Sete
            | Setg
            | Setge
            | Setl
            | Setle
            | Setne
            | Setno
            | Setnp
            | Setns
            | Seto
            | Setp
            | Sets
    )
}

pub(super) fn has_memory(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|n| {
        use OpKind::*;
        matches!(
            instruction.op_kind(n),
            Memory | MemorySegSI | MemorySegESI | MemorySegRSI | MemoryESDI | MemoryESEDI | MemoryESRDI
        )
    })
}

fn operands(instruction: &Instruction) -> impl Iterator<Item = Register> {
    (0..instruction.op_count())
        .filter(|&n| instruction.op_kind(n) == OpKind::Register)
        .map(|n| instruction.op_register(n))
}

fn general_operand(instruction: &Instruction) -> bool {
    operands(instruction).any(Register::is_gpr)
}

fn uses_vectors(instruction: &Instruction) -> bool {
    operands(instruction).any(|r| r.is_vector_register() || r.is_k() || r.is_mm() || r.is_st())
}

/// The widest vector among the operands.
pub(super) fn width(instruction: &Instruction, facts: &InstructionFacts) -> Width {
    if facts.fp_instruction && !facts.simd_instruction {
        return Width::Scalar;
    }
    let bytes = operands(instruction).filter(|r| r.is_vector_register()).map(Register::size).max();
    match bytes {
        Some(64) => Width::W512,
        Some(32) => Width::W256,
        Some(_) => Width::W128,
        None => Width::Scalar,
    }
}
