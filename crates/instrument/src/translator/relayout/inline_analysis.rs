//! Finds callees that rprof can inline: their hot blocks make no call and write no memory but their own frame, so that their
//! returns certainly go back behind the call.

use std::collections::VecDeque;

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::translator::code_cache::hash::AddressMap;
use crate::translator::code_cache::predicted_targets::PredictedTargets;
use crate::translator::relayout::pettis_hansen::{HotBlock, Placed, chains, successors};
use crate::translator::translate::text_reader::Source;
use crate::x86_64::decode::{Decoded, Terminator};
use rprof_tracee::address::Address;

/// Most blocks inlined for one call.
const BLOCKS: usize = 12;
/// At most one call in this many may leave the inlined body.
const RARE: u64 = 32;

/// The hot blocks of a callee.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// The chain from its entry on.
    pub(crate) main: Vec<Placed>,
    /// Its other chains.
    pub(crate) apart: Vec<Vec<Placed>>,
}

/// The callee at `start` of a call that returns to `next`, if it is such a leaf and has at most `most` bytes of `hot` blocks.
/// `usual` holds the targets of its indirect jumps.
pub(crate) fn leaf(
    source: &mut Source<'_>,
    factory: &mut InstructionInfoFactory,
    (hot, usual): (&AddressMap<u64, HotBlock>, &PredictedTargets),
    (start, next): (Address, Address),
    most: usize,
) -> Option<Leaf> {
    let mut blocks: Vec<HotBlock> = Vec::new();
    let mut depths = AddressMap::default();
    let (mut bytes, mut returned) = (0, 0);
    let mut open = VecDeque::from([(start, 0)]);
    // Jump targets that may be in the body, also those that the chains do not fall through into.
    let mut leads_to: Vec<(Address, i64)> = Vec::new();
    while let Some((at, depth)) = open.pop_front() {
        if let Some(&before) = depths.get(&at.get()) {
            if before != depth {
                return None;
            }
            continue;
        }
        let (hot_block, block) = (hot.get(&at.get())?, source.block(at)?);
        bytes += block.code.len();
        if bytes > most || blocks.len() == BLOCKS {
            return None;
        }
        let behind = depth_behind(&block, depth, factory)?;
        depths.insert(at.get(), depth);
        let jumps = match block.end {
            Terminator::JumpIndirect => [Some(usual.target(at)?), None],
            end => successors(end, block.next()),
        };
        leads_to.extend(jumps.into_iter().flatten().map(|to| (to, behind)));
        blocks.push(*hot_block);
        returned += if block.end == Terminator::Return(0) { hot_block.count } else { 0 };
        let next = hot_block.successors.iter().flatten().filter(|to| hot.contains_key(&to.get()));
        open.extend(next.map(|&to| (to, behind)));
    }
    let agrees = |(to, depth): &(Address, i64)| depths.get(&to.get()).is_none_or(|before| before == depth);
    // A callee that jumps behind the call has not returned.
    let jumps_behind = depths.contains_key(&next.get()) || leads_to.iter().any(|(to, _)| *to == next);
    if jumps_behind || !leads_to.iter().all(agrees) {
        return None;
    }
    // A way out of the body costs a call, and the return goes through a landing.
    let entered = blocks.first()?.count;
    if returned < entered - entered / RARE {
        return None;
    }
    let mut chains = chains(&blocks);
    let first = chains.iter().position(|c| c.first().is_some_and(|p| p.at == start))?;
    let main = chains.remove(first);
    Some(Leaf { main, apart: chains })
}

/// The number of bytes that the stack has grown since the call, at the end of `block`; at its start it is `depth`. `None` if the
/// block does something that a leaf must not do.
fn depth_behind(block: &Decoded, mut depth: i64, factory: &mut InstructionInfoFactory) -> Option<i64> {
    let last = match block.end {
        Terminator::Next => block.steps.len(),
        Terminator::Jump(_) | Terminator::Branch(..) | Terminator::JumpIndirect | Terminator::Return(0) => {
            block.steps.len() - 1
        }
        _ => return None,
    };
    for step in &block.steps[..last] {
        depth = depth_after(&step.instruction, depth, factory).filter(|depth| *depth >= 0)?;
    }
    (depth == 0 || block.end != Terminator::Return(0)).then_some(depth)
}

/// The same behind an instruction.
fn depth_after(instruction: &Instruction, depth: i64, factory: &mut InstructionInfoFactory) -> Option<i64> {
    let moves = i64::from(instruction.stack_pointer_increment());
    match instruction.mnemonic() {
        Mnemonic::Push if moves == -8 && instruction.op0_kind() != OpKind::Memory => return Some(depth + 8),
        Mnemonic::Pop if moves == 8 && instruction.op0_kind() == OpKind::Register => {
            return (instruction.op0_register() != Register::RSP).then_some(depth - 8);
        }
        Mnemonic::Add | Mnemonic::Sub if instruction.op0_register() == Register::RSP => {
            let by = matches!(instruction.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64)
                .then(|| instruction.immediate(1) as i64)?;
            return Some(if instruction.mnemonic() == Mnemonic::Sub { depth + by } else { depth - by });
        }
        _ => {}
    }
    let info = factory.info(instruction);
    let writes = |access: OpAccess| {
        !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
    };
    let moves_stack =
        info.used_registers().iter().any(|r| r.register().full_register() == Register::RSP && writes(r.access()));
    if moves != 0 || moves_stack {
        return None;
    }
    let harmless = info.used_memory().iter().all(|m| {
        let elsewhere = matches!(m.segment(), Register::FS | Register::GS);
        let on_stack = m.base() == Register::RSP && m.index() == Register::None && !elsewhere;
        let (from, bytes) = (m.displacement() as i64, m.memory_size().size() as i64);
        let in_frame = on_stack && from >= 0 && bytes > 0 && from + bytes <= depth;
        // Data below the stack pointer does not survive a way out.
        let below = m.base() == Register::RSP && from < 0;
        if writes(m.access()) { in_frame } else { !below }
    });
    harmless.then_some(depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86_64::decode::decode;

    fn depth(bytes: &[u8], before: i64) -> Option<i64> {
        let block = decode(Address::new(0x1000), bytes).unwrap();
        depth_behind(&block, before, &mut InstructionInfoFactory::new())
    }

    #[test]
    fn a_leaf_pushes_and_pops_and_comes_back() {
        assert_eq!(depth(&[0xc3], 0), Some(0), "ret");
        assert_eq!(depth(&[0x53, 0x55, 0x5d, 0x5b, 0xc3], 0), Some(0), "push rbx; push rbp; pop rbp; pop rbx; ret");
        assert_eq!(depth(&[0x53, 0xeb, 0], 8), Some(16), "push rbx; jmp");
        assert_eq!(depth(&[0x53, 0xc3], 0), None, "push rbx; ret");
        assert_eq!(depth(&[0xc2, 8, 0], 0), None, "ret 8");
        assert_eq!(depth(&[0x5b, 0x53, 0xc3], 0), None, "pop rbx: the return address");
        assert_eq!(depth(&[0x5c, 0xc3], 8), None, "pop rsp");
        assert_eq!(depth(&[0x48, 0x83, 0xec, 0x18, 0x48, 0x83, 0xc4, 0x18, 0xc3], 0), Some(0), "sub and add rsp, 18h");
        assert_eq!(depth(&[0x48, 0x29, 0xc4, 0xeb, 0], 0), None, "sub rsp, rax");
        assert_eq!(depth(&[0x48, 0x89, 0xdc, 0xc3], 0), None, "mov rsp, rbx");
        assert_eq!(depth(&[0x48, 0x87, 0xdc, 0xc3], 0), None, "xchg rsp, rbx");
        assert_eq!(depth(&[0xc9, 0xc3], 0), None, "leave");
        assert_eq!(depth(&[0x66, 0x53, 0xeb, 0], 0), None, "push bx");
        assert_eq!(depth(&[0x9c, 0xeb, 0], 0), None, "pushfq");
        assert_eq!(depth(&[0xff, 0xd0], 0), None, "call rax");
        assert_eq!(depth(&[0x0f, 0x05], 0), None, "syscall");
    }

    #[test]
    fn a_leaf_writes_its_frame_only() {
        assert_eq!(depth(&[0x48, 0x8b, 0x03, 0xc3], 0), Some(0), "mov rax, [rbx]");
        assert_eq!(depth(&[0x48, 0x89, 0x03, 0xc3], 0), None, "mov [rbx], rax");
        assert_eq!(depth(&[0x48, 0x01, 0x03, 0xc3], 0), None, "add [rbx], rax");
        assert_eq!(depth(&[0xf3, 0xa4, 0xc3], 0), None, "rep movsb");
        let store = |at: u8| [0x48, 0x89, 0x44, 0x24, at, 0xeb, 0]; // mov [rsp + at], rax; jmp
        assert_eq!(depth(&store(0x10), 0x18), Some(0x18));
        assert_eq!(depth(&store(0x11), 0x18), None, "a byte of it is the return address");
        assert_eq!(depth(&store(0xf8), 0x18), None, "below");
        assert_eq!(depth(&[0x48, 0x8b, 0x44, 0x24, 0xf8, 0xc3], 0), None, "mov rax, [rsp - 8]");
        assert_eq!(depth(&[0x48, 0x89, 0x44, 0x1c, 8, 0xeb, 0], 0x18), None, "mov [rsp + rbx + 8], rax");
        assert_eq!(depth(&[0x48, 0x8b, 0x04, 0x24, 0xc3], 0), Some(0), "mov rax, [rsp]: where it is called");
        assert_eq!(depth(&[0x62, 0xf1, 0x7c, 0x49, 0x11, 0x03, 0xc3], 0), None, "vmovups [rbx]{{k1}}, zmm0");
    }
}
