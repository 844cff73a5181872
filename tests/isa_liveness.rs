//! Flags and registers needed at each point of a block.

#[path = "common/assemble.rs"]
mod assemble;

use assemble::instructions;
use iced_x86::{Register, RflagsBits};
use rprof::isa::x86_64::liveness::{ARITHMETIC_FLAGS, Live, live_points};

const NOTHING: Live = Live { flags: 0, general: 0 };

fn flags(source: &str, behind: Live) -> Vec<u32> {
    live_points(&instructions(source), behind).iter().map(|live| live.flags).collect()
}

#[test]
fn a_compare_makes_earlier_flags_dead() {
    let found = flags("1: mov rax, rbx; cmp rax, rcx; jne 1b", NOTHING);
    assert_eq!(found, [0, 0, RflagsBits::ZF, 0]);
    let found = flags("1: mov rax, rbx; cmp rax, rcx; jne 1b", Live::ALL);
    assert_eq!(found, [0, 0, ARITHMETIC_FLAGS, ARITHMETIC_FLAGS]);
}

#[test]
fn increments_keep_the_carry() {
    assert_eq!(flags("inc rax; adc rbx, 0", NOTHING), [RflagsBits::CF, RflagsBits::CF, 0]);
}

#[test]
fn a_shift_by_a_count_keeps_all() {
    assert_eq!(flags("shl rax, cl", Live::ALL)[0], ARITHMETIC_FLAGS);
    assert_eq!(flags("shl rax, 3", Live::ALL)[0] & RflagsBits::ZF, 0);
    assert_eq!(flags("repe cmpsb", Live::ALL)[0], ARITHMETIC_FLAGS);
}

#[test]
fn undefined_flags_stay_needed() {
    // imul leaves ZF undefined.
    assert_eq!(flags("imul rax, rbx", Live::ALL)[0] & RflagsBits::ZF, RflagsBits::ZF);
}

#[test]
fn registers_die_where_they_are_overwritten() {
    let found = live_points(&instructions("lea rax, [rbx+8]; mov ecx, [rax]; mov dl, 1"), NOTHING);
    assert!(found[0].is_dead(Register::RAX) && found[0].is_dead(Register::RCX));
    assert!(!found[0].is_dead(Register::RBX) && !found[1].is_dead(Register::RAX));
    assert!(!found[0].is_dead(Register::RDX), "a byte register is written, the rest of rdx lives on");
    let called = live_points(&instructions("mov rax, 1; call 1f; 1:"), NOTHING);
    assert!(called[0].is_dead(Register::RAX) && !called[0].is_dead(Register::R15));
}
