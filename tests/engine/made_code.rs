//! Code outside of files that are never written: what is written once is counted, what changes all the time is reported.

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use rprof::instrument::Counted;

use crate::guests::guest_told;

/// Executions of this instruction, wherever it is.
fn executed(counted: &Counted, mnemonic: Mnemonic) -> u64 {
    let inside = |code: &[u8]| {
        Decoder::new(64, code, DecoderOptions::NONE).iter().filter(|i| i.mnemonic() == mnemonic).count() as u64
    };
    let blocks = counted.evidence.blocks.iter();
    blocks.map(|b| inside(&b.code) * b.executions.iter().map(|e| e.1).sum::<u64>()).sum()
}

/// Text of the warnings about native code.
fn told(counted: &Counted) -> String {
    let warnings = counted.evidence.warnings.iter().filter(|w| w.code == "native-code");
    warnings.map(|w| format!("{}; {}\n", w.text, w.hint)).collect()
}

#[test]
fn code_that_was_moved_to_anonymous_memory() {
    let counted = guest_told("remapped.c", &[], &[]);
    assert_eq!(executed(&counted, Mnemonic::Mulsd), 1000 + 2000 + 4000 + 8000);
}

#[test]
fn a_program_that_is_executed_from_memory() {
    let counted = guest_told("from_memory.c", &["-DROUNDS=123456"], &[]);
    assert_eq!(executed(&counted, Mnemonic::Cmc), 123_456);
}

#[test]
fn code_that_is_rewritten_now_and_then() {
    let counted = guest_told("toggles.c", &["-DTIMES=8"], &[]);
    assert_eq!(executed(&counted, Mnemonic::Cmc), 8);
}

#[test]
fn code_that_is_rewritten_all_the_time() {
    let counted = guest_told("toggles.c", &["-DTIMES=500"], &["native-code"]);
    assert_eq!(executed(&counted, Mnemonic::Cmc), 8);
    let told = told(&counted);
    assert!(told.contains("rewritten time after time was executed natively (492 transitions"), "{told}");
}

#[test]
fn code_that_may_be_written_through_proc() {
    let counted = guest_told("through_proc.c", &[], &["native-code"]);
    assert!(told(&counted).contains("/proc/PID/mem"), "{}", told(&counted));
}

#[test]
fn code_in_memory_that_is_shared() {
    let counted = guest_told("dual.c", &[], &["native-code"]);
    assert!(told(&counted).contains("written at another address") && !told(&counted).contains("compiler"));
}

#[test]
fn a_program_in_writable_text_that_unpacks_another() {
    let counted = guest_told("unpacks.c", &["-nostdlib", "-static", "-Wl,-N", "-DMADE=5000"], &["native-code"]);
    assert_eq!(executed(&counted, Mnemonic::Cmc), 2 * 5000, "the child, too");
    let told = told(&counted);
    assert!(told.contains("writable and executable (RWX)") && told.contains("-N"), "{told}");
}

#[test]
fn nested_functions() {
    let counted = guest_told("nested_functions.c", &["-pthread", "-fno-inline"], &[]);
    let calls = 3 * 7 * 20_000 + 4 * 1000 + 9 * 100_000;
    // Each multiplies, and so does its caller.
    assert_eq!(executed(&counted, Mnemonic::Mulsd), 2 * calls);
    assert!(counted.evidence.wall_s < 20.0, "{} s", counted.evidence.wall_s);
}
