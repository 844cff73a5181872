//! A loop of a copy written anew at another address, with changed instructions.
//!
//! ```text
//!  before   header: A B C jcc header          after   header: jmp new …     new: A' B' C' jcc new; jmp behind
//! ```
//!
//! Branches into the loop still come to its header, and from there to the new code; branches out of it lead to the old code.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, FlowControl, Instruction, InstructionBlock, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};

use rprof_profile::trial::Change;

/// Bytes of `jmp rel32`.
const JUMP: u64 = 5;

/// A loop written anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// Its code, for its address.
    pub code: Vec<u8>,
    /// Old and new addresses of instructions.
    pub moved: Vec<(u64, u64)>,
    /// The jump to be written at the old header.
    pub jump: [u8; 5],
    /// Instructions that were changed or added.
    pub changed: usize,
}

/// Why a loop cannot be written anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRewritten {
    /// A branch leads to the place of the jump.
    Narrow,
    /// It cannot be encoded there.
    Encoding(String),
    /// The change changes nothing in it.
    Nothing,
}

impl std::fmt::Display for NotRewritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotRewritten::Narrow => f.write_str("a branch leads to the second instruction of the loop"),
            NotRewritten::Encoding(why) => write!(f, "its code cannot be moved: {why}"),
            NotRewritten::Nothing => f.write_str("it has no such instruction"),
        }
    }
}

/// Whether the change is one of instructions.
pub fn is_of_code(change: Change) -> bool {
    matches!(change, Change::ZeroedDestinations | Change::LoadsFromL1 | Change::NoDivisions)
}

/// Writes `instructions`, those of a whole loop, with `change` or as they are, for the address `to`. `data`: a line of zeroes near it.
///
/// # Errors
/// See [`NotRewritten`].
pub fn rewrite(
    instructions: &[Instruction],
    change: Option<Change>,
    to: u64,
    data: u64,
) -> Result<Rewritten, NotRewritten> {
    let header = instructions.first().map_or(0, Instruction::ip);
    let end = instructions.last().map_or(0, Instruction::next_ip);
    let leads_inside = |i: &Instruction| {
        let target = i.near_branch_target();
        is_branch(i) && target > header && target < header + JUMP
    };
    if end - header < JUMP || instructions.iter().any(leads_inside) {
        return Err(NotRewritten::Narrow);
    }
    let mut changed = 0;
    let mut written: Vec<Instruction> = Vec::new();
    // Where each old instruction begins in `written`.
    let mut begins: Vec<usize> = Vec::new();
    for instruction in instructions {
        begins.push(written.len());
        let mut new = change.map_or_else(|| vec![*instruction], |change| edit(instruction, change, data));
        changed += usize::from(new.len() != 1 || new[0] != *instruction);
        for (n, part) in new.iter_mut().enumerate() {
            // Branches to the instruction come to what was put before it.
            part.set_ip(if n == 0 { instruction.ip() } else { 0 });
        }
        written.extend(new);
    }
    if changed == 0 && change.is_some() {
        return Err(NotRewritten::Nothing);
    }
    let encoding = |e: iced_x86::IcedError| NotRewritten::Encoding(e.to_string());
    let mut behind = Instruction::with_branch(Code::Jmp_rel32_64, end).map_err(encoding)?;
    behind.set_ip(0);
    written.push(behind);
    let block = InstructionBlock::new(&written, to);
    let encoded =
        BlockEncoder::encode(64, block, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS).map_err(encoding)?;
    let place = |n: usize| encoded.new_instruction_offsets.get(n).copied().filter(|offset| *offset != u32::MAX);
    let moved =
        instructions.iter().zip(&begins).filter_map(|(i, n)| Some((i.ip(), to + u64::from(place(*n)?)))).collect();
    let distance = i32::try_from(to.wrapping_sub(header + JUMP) as i64)
        .map_err(|_| NotRewritten::Encoding("it is too far away".into()))?;
    let mut jump = [0xe9, 0, 0, 0, 0];
    jump[1..].copy_from_slice(&distance.to_le_bytes());
    Ok(Rewritten { code: encoded.code_buffer, moved, jump, changed })
}

fn is_branch(i: &Instruction) -> bool {
    matches!(i.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
}

/// The instructions in the place of one.
fn edit(instruction: &Instruction, change: Change, data: u64) -> Vec<Instruction> {
    match change {
        Change::ZeroedDestinations => match zeroing(instruction) {
            Some(zeroing) => vec![zeroing, *instruction],
            None => vec![*instruction],
        },
        Change::LoadsFromL1 => vec![loaded_from(instruction, data)],
        Change::NoDivisions => vec![multiplied(instruction)],
        _ => vec![*instruction],
    }
}

/// What clears the register that an instruction writes in part, or that it waits for without need.
fn zeroing(i: &Instruction) -> Option<Instruction> {
    let merges = matches!(
        i.code(),
        Code::Cvtsi2ss_xmm_rm32
            | Code::Cvtsi2ss_xmm_rm64
            | Code::Cvtsi2sd_xmm_rm32
            | Code::Cvtsi2sd_xmm_rm64
            | Code::Cvtss2sd_xmm_xmmm32
            | Code::Cvtsd2ss_xmm_xmmm64
            | Code::Sqrtss_xmm_xmmm32
            | Code::Sqrtsd_xmm_xmmm64
            | Code::Rcpss_xmm_xmmm32
            | Code::Rsqrtss_xmm_xmmm32
            | Code::Roundss_xmm_xmmm32_imm8
            | Code::Roundsd_xmm_xmmm64_imm8
    );
    let counts = matches!(i.mnemonic(), Mnemonic::Popcnt | Mnemonic::Lzcnt | Mnemonic::Tzcnt);
    let to = i.op0_register();
    let mut factory = InstructionInfoFactory::new();
    let reads_it = (1..i.op_count())
        .any(|n| i.op_kind(n) == OpKind::Register && i.op_register(n).full_register() == to.full_register())
        || factory
            .info(i)
            .used_memory()
            .iter()
            .any(|m| [m.base(), m.index()].iter().any(|r| r.full_register() == to.full_register()));
    if reads_it || to == Register::None {
        return None;
    }
    if merges {
        return Instruction::with2(Code::Xorps_xmm_xmmm128, to, to).ok();
    }
    // These write all flags themselves.
    let narrow = to.full_register32();
    counts.then(|| Instruction::with2(Code::Xor_rm32_r32, narrow, narrow).ok()).flatten()
}

/// A load, from the line at `data`; others as they are.
fn loaded_from(i: &Instruction, data: u64) -> Instruction {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(i);
    let only_loads = !info.used_memory().is_empty() && info.used_memory().iter().all(|m| m.access() == OpAccess::Read);
    let is_plain = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory)
        && i.segment_prefix() == Register::None
        && !matches!(i.memory_base(), Register::RSP | Register::RBP | Register::RIP)
        && !i.is_vsib()
        && i.mnemonic() != Mnemonic::Call
        && i.mnemonic() != Mnemonic::Jmp;
    if !only_loads || !is_plain {
        return *i;
    }
    let mut new = *i;
    new.set_memory_base(Register::RIP);
    new.set_memory_index(Register::None);
    new.set_memory_index_scale(1);
    new.set_memory_displ_size(8);
    new.set_memory_displacement64(data);
    new
}

/// A division as a multiplication; others as they are.
fn multiplied(i: &Instruction) -> Instruction {
    let code = match i.code() {
        Code::Divss_xmm_xmmm32 => Code::Mulss_xmm_xmmm32,
        Code::Divsd_xmm_xmmm64 => Code::Mulsd_xmm_xmmm64,
        Code::Divps_xmm_xmmm128 => Code::Mulps_xmm_xmmm128,
        Code::Divpd_xmm_xmmm128 => Code::Mulpd_xmm_xmmm128,
        Code::VEX_Vdivss_xmm_xmm_xmmm32 => Code::VEX_Vmulss_xmm_xmm_xmmm32,
        Code::VEX_Vdivsd_xmm_xmm_xmmm64 => Code::VEX_Vmulsd_xmm_xmm_xmmm64,
        Code::VEX_Vdivps_xmm_xmm_xmmm128 => Code::VEX_Vmulps_xmm_xmm_xmmm128,
        Code::VEX_Vdivpd_xmm_xmm_xmmm128 => Code::VEX_Vmulpd_xmm_xmm_xmmm128,
        Code::VEX_Vdivps_ymm_ymm_ymmm256 => Code::VEX_Vmulps_ymm_ymm_ymmm256,
        Code::VEX_Vdivpd_ymm_ymm_ymmm256 => Code::VEX_Vmulpd_ymm_ymm_ymmm256,
        Code::EVEX_Vdivss_xmm_k1z_xmm_xmmm32_er => Code::EVEX_Vmulss_xmm_k1z_xmm_xmmm32_er,
        Code::EVEX_Vdivsd_xmm_k1z_xmm_xmmm64_er => Code::EVEX_Vmulsd_xmm_k1z_xmm_xmmm64_er,
        Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er => Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
        Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er => Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er,
        _ => return *i,
    };
    let mut new = *i;
    new.set_code(code);
    new
}

/// The changes of code that change anything in a loop.
pub fn suggested(instructions: &[Instruction]) -> Vec<Change> {
    let changes = |change: Change| {
        let edited = |i: &Instruction| {
            let new = edit(i, change, i.ip());
            new.len() != 1 || new[0] != *i
        };
        instructions.iter().any(edited)
    };
    let all = [Change::ZeroedDestinations, Change::LoadsFromL1, Change::NoDivisions];
    all.into_iter().filter(|change| changes(*change)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    const AT: u64 = 0x40_1000;

    fn decoded(code: &[u8], at: u64) -> Vec<Instruction> {
        Decoder::with_ip(64, code, at, DecoderOptions::NONE).iter().collect()
    }

    /// `cvtsi2sd xmm0, ecx; addsd xmm1, xmm0; divsd xmm1, [rax]; dec ecx; jnz AT`
    fn looped() -> Vec<Instruction> {
        let code = [0xf2, 0x0f, 0x2a, 0xc1, 0xf2, 0x0f, 0x58, 0xc8, 0xf2, 0x0f, 0x5e, 0x08, 0xff, 0xc9, 0x75, 0xf0];
        decoded(&code, AT)
    }

    #[test]
    fn a_loop_is_written_anew_with_its_branches() {
        let to = AT + 0x1_0000;
        let new = rewrite(&looped(), None, to, to + 4096).unwrap();
        let code = decoded(&new.code, to);
        assert_eq!((new.changed, code.len()), (0, 6));
        assert_eq!(code[4].near_branch_target(), to, "back to the new header");
        assert_eq!(code[5].near_branch_target(), AT + 16, "out of it to the old code");
        assert_eq!(decoded(&new.jump, AT)[0].near_branch_target(), to);
        assert_eq!(new.moved[0], (AT, to));
    }

    #[test]
    fn each_change_changes_its_instructions() {
        let (to, data) = (AT + 0x1_0000, AT + 0x2_0000);
        let of = |change| decoded(&rewrite(&looped(), Some(change), to, data).unwrap().code, to);
        let zeroed = of(Change::ZeroedDestinations);
        assert_eq!(zeroed[0].mnemonic(), Mnemonic::Xorps);
        assert_eq!(zeroed[5].near_branch_target(), to, "the zeroing idiom is in the loop");
        let loads = of(Change::LoadsFromL1);
        assert_eq!(loads[2].memory_base(), Register::RIP);
        assert_eq!(loads[2].memory_displacement64(), data);
        assert_eq!(of(Change::NoDivisions)[2].mnemonic(), Mnemonic::Mulsd);
        let all = [Change::ZeroedDestinations, Change::LoadsFromL1, Change::NoDivisions];
        assert_eq!(suggested(&looped()), all);
    }

    #[test]
    fn a_loop_without_room_or_such_instructions_stays() {
        // dec ecx; jnz AT
        let short = decoded(&[0xff, 0xc9, 0x75, 0xfc], AT);
        assert_eq!(rewrite(&short, None, AT + 4096, 0), Err(NotRewritten::Narrow));
        // nop; nop; nop; dec ecx; jnz AT
        let plain = decoded(&[0x90, 0x90, 0x90, 0xff, 0xc9, 0x75, 0xf9], AT);
        assert_eq!(rewrite(&plain, Some(Change::NoDivisions), AT + 4096, 0), Err(NotRewritten::Nothing));
    }
}
