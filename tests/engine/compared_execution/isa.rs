//! Which instructions a generated program may contain: those that this CPU has, that cannot fault, and on which two runs agree.

use std::collections::HashSet;
use std::fs;

use iced_x86::{Code, CpuidFeature, FlowControl, Instruction, Mnemonic, OpCodeOperandKind as Kind};

/// All plain instructions of the host, in the order of iced's numbers.
pub fn plain() -> Vec<Code> {
    let flags = flags();
    Code::values().filter(|&code| is_plain(code) && code.cpuid_features().iter().all(|&f| has(&flags, f))).collect()
}

/// The host's gathers and scatters.
pub fn gathers() -> Vec<Code> {
    let flags = flags();
    let vsib = |k: &Kind| {
        use Kind::{mem_vsib32x, mem_vsib32y, mem_vsib32z, mem_vsib64x, mem_vsib64y, mem_vsib64z};
        [mem_vsib32x, mem_vsib32y, mem_vsib32z, mem_vsib64x, mem_vsib64y, mem_vsib64z].contains(k)
    };
    Code::values()
        .filter(|c| c.op_code().op_kinds().iter().any(vsib) && c.op_code().op_count() > 1)
        .filter(|c| c.cpuid_features().iter().all(|&f| has(&flags, f)))
        .collect()
}

/// The flags of `/proc/cpuinfo`.
pub fn flags() -> HashSet<String> {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    line.split_whitespace().skip(2).map(str::to_owned).collect()
}

/// Whether the CPU has a feature; a feature without a Linux flag counts as absent.
fn has(flags: &HashSet<String>, feature: CpuidFeature) -> bool {
    use CpuidFeature as F;
    let name = match feature {
        F::INTEL8086
        | F::INTEL186
        | F::INTEL286
        | F::INTEL386
        | F::INTEL486
        | F::X64
        | F::FPU
        | F::FPU287
        | F::FPU387 => {
            return true;
        }
        F::MULTIBYTENOP | F::PAUSE | F::CPUID => return true,
        F::SSE3 => "pni".into(),
        F::LZCNT => "abm".into(),
        F::SHA => "sha_ni".into(),
        F::CMPXCHG16B => "cx16".into(),
        F::CLFSH => "clflush".into(),
        F::PREFETCHW => "3dnowprefetch".into(),
        F::AVX512_IFMA | F::AVX512_VBMI => format!("{feature:?}").to_lowercase().replace('_', ""),
        _ => format!("{feature:?}").to_lowercase(),
    };
    flags.contains(&name)
}

/// Instructions that fault, are privileged, answer differently every time, or need more than registers and an address.
fn is_plain(code: Code) -> bool {
    use Mnemonic as M;
    let info = code.op_code();
    let instruction = {
        let mut i = Instruction::default();
        i.set_code(code);
        i
    };
    if !info.is_instruction() || !info.mode64() || info.is_privileged() || info.is_input_output() {
        return false;
    }
    if instruction.flow_control() != FlowControl::Next
        || instruction.is_stack_instruction()
        || instruction.is_string_instruction()
        || instruction.is_save_restore_instruction()
    {
        return false;
    }
    if !info.op_kinds().iter().all(|&k| supported(k)) || info.op_kinds().first() == Some(&Kind::seg_reg) {
        return false;
    }
    !matches!(
        code.mnemonic(),
        // Other values every time, or on every CPU.
        M::Rdtsc | M::Rdtscp | M::Rdpid | M::Rdpru | M::Rdrand | M::Rdseed | M::Cpuid | M::Xgetbv | M::Rdpmc
        // Tables of the system; not for a program on newer CPUs.
        | M::Sgdt | M::Sidt | M::Sldt | M::Str | M::Smsw | M::Lar | M::Lsl | M::Verr | M::Verw | M::Lfs | M::Lgs | M::Lss
        // Unmask exceptions, or store the address of the instruction.
        | M::Fldcw | M::Fldenv | M::Fnstenv | M::Fstenv | M::Fnsave | M::Fsave | M::Frstor | M::Ldmxcsr | M::Vldmxcsr | M::Fxsave | M::Fxrstor
        | M::Fxsave64 | M::Fxrstor64
        // Their address is in a register that they do not show.
        | M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu | M::Clzero | M::Monitorx | M::Mwaitx | M::Monitor | M::Mwait
        | M::Movdir64b | M::Enqcmd | M::Xlatb
        // Needs a configuration that makes sense, and leave to have it.
        | M::Ldtilecfg
        // Divide: made with a divisor elsewhere. Bases of segments: likewise.
        | M::Div | M::Idiv | M::Wrfsbase | M::Wrgsbase | M::Rdfsbase
        | M::Reservednop | M::Wrpkru | M::Rdpkru | M::Enter | M::Leave | M::Cmpxchg16b | M::Jmpe
    )
}

/// Operands that the generator can make.
fn supported(kind: Kind) -> bool {
    use Kind as K;
    !matches!(
        kind,
        K::farbr2_2
            | K::farbr4_2
            | K::mem_offs
            | K::mem_mpx
            | K::mem_mib
            | K::mem_vsib32x
            | K::mem_vsib32y
            | K::mem_vsib32z
            | K::mem_vsib64x
            | K::mem_vsib64y
            | K::mem_vsib64z
            | K::r32_or_mem_mpx
            | K::r64_or_mem_mpx
            | K::bnd_or_mem_mpx
            | K::bnd_reg
            | K::cr_reg
            | K::dr_reg
            | K::tr_reg
            | K::imm4_m2z
            | K::br16_1
            | K::br32_1
            | K::br64_1
            | K::br16_2
            | K::br32_4
            | K::br64_4
            | K::xbegin_2
            | K::xbegin_4
            | K::brdisp_2
            | K::brdisp_4
            | K::sibmem
            | K::tmm_reg
            | K::tmm_rm
            | K::tmm_vvvv
            | K::kp1_reg
            | K::xmmp3_vvvv
            | K::zmmp3_vvvv
            | K::es
            | K::cs
            | K::ss
            | K::ds
            | K::fs
            | K::gs
            | K::r16_reg_mem
            | K::r32_reg_mem
            | K::r64_reg_mem
            | K::xmm_is5
            | K::ymm_is5
    )
}
