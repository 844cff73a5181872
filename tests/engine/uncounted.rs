//! The engine reports code that runs natively, with the reason and its share of the CPU time. It lets a program go that it would
//! slow down too much.

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use rprof::instrument::Counted;

use crate::guests::guest_told;

/// The guest with `own` calls of its own loop, then `made` calls of the loop made at run time, of `length` rounds each.
fn in_part(own: u64, made: u64, length: u64, more: &[&str], codes: &[&str]) -> Counted {
    let flags = [("OWN", own), ("MADE", made), ("LENGTH", length)].map(|(name, value)| format!("-D{name}={value}"));
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    guest_told("in_part.c", &flags, codes)
}

/// Executions of `cmc`, one a round.
fn rounds(counted: &Counted) -> u64 {
    let inside = |code: &[u8]| {
        Decoder::new(64, code, DecoderOptions::NONE).iter().filter(|i| i.mnemonic() == Mnemonic::Cmc).count() as u64
    };
    let blocks = counted.evidence.blocks.iter();
    blocks.map(|b| inside(&b.code) * b.executions.iter().map(|e| e.1).sum::<u64>()).sum()
}

/// Text of the warning `code`.
fn told<'c>(counted: &'c Counted, code: &str) -> &'c str {
    let warning = counted.evidence.warnings.iter().find(|w| w.code == code);
    warning.map_or("", |w| w.text.as_str())
}

/// Rounds that take tens of milliseconds: CPU time is known by the clock tick.
const LONG: u64 = 4_000_000;

/// Fails unless the share that is stated is `share` within 0.15: the loop takes the same time wherever it runs.
#[track_caller]
fn assert_share(counted: &Counted, share: f64) {
    let stated = counted.evidence.uncounted_share;
    assert!((stated - share).abs() < 0.15, "{stated} instead of {share}: {:?}", counted.evidence.warnings);
}

#[test]
fn the_share_of_code_made_at_run_time_is_what_it_took() {
    for (own, made) in [(6, 6), (9, 3), (3, 9)] {
        let counted = in_part(own, made, LONG, &[], &["native-code"]);
        assert_share(&counted, made as f64 / (own + made) as f64);
        assert_eq!(rounds(&counted), own * LONG);
        let transitions = format!("({made} transitions, ");
        assert!(told(&counted, "native-code").contains(&transitions), "{:?}", counted.evidence.warnings);
    }
}

#[test]
fn the_share_of_a_program_that_was_let_go_is_what_it_took_from_there_on() {
    for kind in ["-DUNTRACED", "-DUNTRACED=2"] {
        for (own, made) in [(6, 6), (9, 3), (3, 9)] {
            let counted = in_part(own, made, LONG, &[kind], &["released"]);
            assert_share(&counted, made as f64 / (own + made) as f64);
            assert_eq!(rounds(&counted), own * LONG, "{kind}");
            assert!(told(&counted, "released").contains("CLONE_UNTRACED"), "{:?}", counted.evidence.warnings);
        }
    }
}

#[test]
fn a_program_that_goes_to_code_made_at_run_time_all_the_time_is_let_go() {
    // A million faults would take minutes, the rounds themselves some milliseconds.
    let counted = in_part(1000, 1_000_000, 1, &[], &["native-code", "released"]);
    assert!(told(&counted, "released").contains("more than threefold"), "{:?}", counted.evidence.warnings);
    assert!(counted.evidence.wall_s < 20.0, "let go after {} s", counted.evidence.wall_s);
    assert!(counted.evidence.uncounted_share > 0.0);
    assert_eq!(rounds(&counted), 1000, "what came before is counted");
}

#[test]
fn a_program_whose_code_made_at_run_time_calls_back_all_the_time_is_let_go() {
    let counted = guest_told("ping_pong.c", &[], &["native-code", "released"]);
    assert!(told(&counted, "released").contains("more than threefold"), "{:?}", counted.evidence.warnings);
}

#[test]
fn a_program_whose_code_made_at_run_time_is_worth_the_way_is_not_let_go() {
    // Each call takes some hundred microseconds, many times as long as going there and back.
    let counted = in_part(3000, 3000, 24_000, &[], &["native-code"]);
    assert!(told(&counted, "native-code").contains("(3000 transitions, "), "{:?}", counted.evidence.warnings);
    assert_eq!(rounds(&counted), 3000 * 24_000);
}

#[test]
fn a_program_whose_system_calls_depend_on_their_addresses_is_let_go_before() {
    for (kind, reason) in [
        (&["-DDISPATCH"][..], "PR_SET_SYSCALL_USER_DISPATCH"),
        (&["-DFILTER"], "seccomp"),
        (&["-DTSYNC", "-pthread"], "seccomp"),
        (&["-DCHILD"], "seccomp"),
        (&["-DLISTENER", "-pthread"], "seccomp"),
    ] {
        let counted = guest_told("ruled.c", kind, &["released"]);
        assert!(told(&counted, "released").contains(reason), "{kind:?}: {:?}", counted.evidence.warnings);
        assert!(told(&counted, "released").contains("by their addresses"), "{:?}", counted.evidence.warnings);
    }
}

#[test]
fn a_program_that_forbids_memory_to_become_executable_is_let_go_before() {
    let counted = guest_told("hardened.c", &[], &["released"]);
    assert!(told(&counted, "released").contains("PR_SET_MDWE"), "{:?}", counted.evidence.warnings);
}

#[test]
fn a_program_whose_filter_forbids_what_rprof_needs_is_not_harmed() {
    let filters = guest_told("sandboxed.c", &[], &[]);
    assert_eq!(filters.evidence.uncounted_share, 0.0, "it may filter calls that nobody makes");
    let counted = guest_told("sandboxed.c", &["-DEXECUTE", "-DIN_CHILD=1"], &["child-not-counted"]);
    let text = told(&counted, "child-not-counted");
    assert!(text.contains("seccomp filter forbids memfd_create"), "{text}");
}
