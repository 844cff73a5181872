//! The loops around an instruction, read from the code behind it: branches back to before it.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;

/// Bytes behind an instruction that are looked at.
const AHEAD: usize = 4096;
/// The longest loop.
const LONGEST: u64 = 4096;
/// The most loops around an instruction.
const MOST: usize = 6;

/// A loop: its code from the first instruction to behind the branch back to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoopCode {
    /// Its first instruction.
    pub header: u64,
    /// Behind its last instruction.
    pub end: u64,
}

impl LoopCode {
    /// Its addresses.
    pub fn range(&self) -> Range<u64> {
        self.header..self.end
    }
}

/// The loops around the instruction at `at`, the innermost first.
pub fn around(memory: &Memory, at: Address) -> Vec<LoopCode> {
    let mut bytes = vec![0; AHEAD];
    let Ok(read) = memory.read_some(at, &mut bytes) else { return Vec::new() };
    bytes.truncate(read);
    let mut found: Vec<LoopCode> = Vec::new();
    for instruction in Decoder::with_ip(64, &bytes, at.get(), DecoderOptions::NONE).iter() {
        if instruction.is_invalid() {
            break;
        }
        let branches =
            matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
        let target = instruction.near_branch_target();
        if !branches || target > at.get() || target == 0 || instruction.next_ip() - target > LONGEST {
            continue;
        }
        match found.iter_mut().find(|known| known.header == target) {
            Some(known) => known.end = instruction.next_ip(),
            None => found.push(LoopCode { header: target, end: instruction.next_ip() }),
        }
    }
    found.sort_unstable_by_key(|l| (l.end - l.header, l.header));
    found.truncate(MOST);
    found
}

/// The instructions of a loop; `None` where its code cannot be read or decoded.
pub fn instructions(memory: &Memory, code: &LoopCode) -> Option<Vec<Instruction>> {
    let mut bytes = vec![0; (code.end - code.header) as usize];
    memory.read(Address::new(code.header), &mut bytes).ok()?;
    let mut decoder = Decoder::with_ip(64, &bytes, code.header, DecoderOptions::NONE);
    let all: Vec<Instruction> = decoder.iter().collect();
    let is_whole = all.last().is_some_and(|last| last.next_ip() == code.end);
    (is_whole && all.iter().all(|i| !i.is_invalid())).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::Pid;

    #[test]
    fn loops_end_in_a_branch_back() {
        // 0: nop; 1: nop; 2: dec ecx; 4: jnz 1; 6: dec edx; 8: jnz 0; 10: ret
        let code: [u8; 11] = [0x90, 0x90, 0xff, 0xc9, 0x75, 0xfb, 0xff, 0xca, 0x75, 0xf6, 0xc3];
        let at = code.as_ptr() as u64;
        let memory = Memory::open(Pid::this()).unwrap();
        let found = around(&memory, Address::new(at + 2));
        assert_eq!(found[..2], [LoopCode { header: at + 1, end: at + 6 }, LoopCode { header: at, end: at + 10 }]);
        assert_eq!(instructions(&memory, &found[0]).unwrap().len(), 3);
        let outer = around(&memory, Address::new(at + 6));
        assert_eq!(outer[0], LoopCode { header: at, end: at + 10 });
    }
}
