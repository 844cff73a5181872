//! Flag liveness: finds places with dead flags, for counters.

use iced_x86::{Instruction, OpKind, Register, RflagsBits};

use super::decode::Step;

/// The flags that `inc` changes.
pub const INC_FLAGS: u32 = RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::PF;

/// The flags that arithmetic and logic change.
pub const STATUS_FLAGS: u32 = INC_FLAGS | RflagsBits::CF;

/// The dead flags at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dead {
    /// None: one of those that `inc` changes may be live.
    None,
    /// Those that `inc` changes.
    AllButCarry,
    /// All that arithmetic changes.
    All,
}

impl Dead {
    /// The dead flags if `live` are live.
    pub fn where_needed(live: u32) -> Dead {
        match live {
            _ if live & STATUS_FLAGS == 0 => Dead::All,
            _ if live & INC_FLAGS == 0 => Dead::AllButCarry,
            _ => Dead::None,
        }
    }
}

/// Flags that an instruction certainly overwrites.
fn kills(instruction: &Instruction) -> u32 {
    let modified = instruction.rflags_modified();
    if modified & STATUS_FLAGS == 0 {
        return modified;
    }
    // `rep cmps` with RCX = 0 and shifts by 0 leave the flags alone.
    let repeated =
        instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
    if repeated || shifts_by_maybe_zero(instruction) { 0 } else { modified }
}

fn shifts_by_maybe_zero(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic as M;
    let shift = matches!(
        instruction.mnemonic(),
        M::Shl | M::Sal | M::Shr | M::Sar | M::Rol | M::Ror | M::Rcl | M::Rcr | M::Shld | M::Shrd
    );
    let last = instruction.op_count().saturating_sub(1);
    shift
        && match instruction.op_kind(last) {
            OpKind::Register => instruction.op_register(last) == Register::CL,
            OpKind::Immediate8 => instruction.immediate8() & 0x1f == 0,
            _ => true,
        }
}

/// Of the flags in `wanted`, those that are live before each step, given those live behind the last.
pub fn live_before(steps: &[Step], live_out: u32) -> Vec<u32> {
    let mut live = live_out;
    let mut before: Vec<u32> = steps
        .iter()
        .rev()
        .map(|step| {
            live = live & !kills(&step.instruction) | step.instruction.rflags_read();
            live
        })
        .collect();
    before.reverse();
    before
}

/// Of `live`, the flags that may be read before they are overwritten when control goes through `instructions`; the second figure
/// are those still undecided behind the last one. Takes no more instructions than it needs.
pub fn scan(instructions: impl IntoIterator<Item = Instruction>, live: u32) -> (u32, u32) {
    let (mut read, mut open) = (0, live);
    for instruction in instructions {
        read |= open & instruction.rflags_read();
        open &= !kills(&instruction) & !read;
        if open == 0 {
            break;
        }
    }
    (read, open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86_64::decode::decode;
    use rprof_tracee::address::Address;

    fn dead_before(bytes: &[u8]) -> Vec<Dead> {
        let block = decode(Address::new(0x1000), bytes).unwrap();
        live_before(&block.steps, STATUS_FLAGS).into_iter().map(Dead::where_needed).collect()
    }

    fn dead(bytes: &[u8]) -> Vec<bool> {
        dead_before(bytes).into_iter().map(|dead| dead != Dead::None).collect()
    }

    #[test]
    fn an_add_may_stand_where_the_carry_is_not_needed_either() {
        // inc eax leaves the carry alone; adc reads it; add overwrites it
        assert_eq!(dead_before(&[0xff, 0xc0, 0xc3]), [Dead::AllButCarry, Dead::None]);
        assert_eq!(dead_before(&[0x83, 0xd0, 0x01, 0x01, 0xd8, 0xc3]), [Dead::AllButCarry, Dead::All, Dead::None]);
    }

    #[test]
    fn a_counter_may_stand_before_what_overwrites_the_flags() {
        // mov eax, ebx; add eax, 1; ret
        assert_eq!(dead(&[0x89, 0xd8, 0x83, 0xc0, 0x01, 0xc3]), [true, true, false]);
        // shl eax, cl may leave them; adc reads them
        assert_eq!(dead(&[0xd3, 0xe0, 0xc3]), [false, false]);
        assert_eq!(dead(&[0x83, 0xd0, 0x01, 0xc3]), [true, false]); // adc reads only CF
        assert_eq!(dead(&[0x0f, 0x94, 0xc0, 0x01, 0xd8, 0xc3]), [false, true, false]); // sete; add
    }
}
