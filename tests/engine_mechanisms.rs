//! Every mechanism of Linux and of the processor that a translator can get wrong, with a guest program of its own
//! (`fixtures/guests/hosted/`; each says what it does): output and exit status as natively, and nothing left running.

#[path = "common/guests.rs"]
#[allow(dead_code)]
mod guests;

use std::time::{Duration, Instant};

use guests::{build, guest, nothing_runs, translated};

macro_rules! mechanisms {
    ($($name:ident $flags:expr,)*) => {
        $(#[test] fn $name() { guest(concat!(stringify!($name), ".c"), &$flags); })*
    };
}
mechanisms! {
    attributes [],
    cancelled ["-pthread"],
    clones [],
    contexts [],
    core [],
    crowd ["-pthread"],
    dispositions [],
    dual [],
    edges ["-no-pie"],
    faults [],
    frames [],
    interrupted [],
    kernel_pages [],
    locked ["-pthread", "-lm"],
    overflow ["-lm"],
    partly [],
    per_cpu ["-pthread"],
    registers [],
    relatives [],
    reuse [],
    rewritten [],
    sandbox ["-lm"],
    segments ["-pthread"],
    signals [],
    state [],
    stopped [],
    storm ["-pthread"],
    trampolines [],
}

/// Sanitizers reserve most of the address space, and end a program in which something else is mapped there.
#[test]
fn shadow_memories_of_sanitizers_are_left_alone() {
    for sanitizer in ["-fsanitize=thread", "-fsanitize=undefined"] {
        guest("threads.c", &["-pthread", sanitizer]);
    }
}

#[test]
fn code_made_at_run_time_that_calls_back() {
    let evidence = guest("ping_pong.c", &[]).evidence;
    assert!(evidence.uncounted_share > 0.0);
    // Whether it was let go on the way depends on the host; either way it is said what was not counted.
    assert!(evidence.warnings.iter().any(|w| w.code == "native-code"), "{:?}", evidence.warnings);
}

#[test]
fn a_descendant_outlives_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "outlives.c", &["-pthread"]);
    let result = dir.path().join("result");
    let since = Instant::now();
    let (counted, output) = translated(dir.path(), &[program.to_str().unwrap(), result.to_str().unwrap()]);
    assert_eq!((counted.unwrap().status, output.as_slice()), (0, b"gone\n".as_slice()));
    while !std::fs::read_to_string(&result).is_ok_and(|text| text.ends_with('\n')) {
        assert!(since.elapsed() < Duration::from_secs(60), "the descendant wrote nothing");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(std::fs::read_to_string(result).unwrap().starts_with("total 3000000 sqrt"));
    nothing_runs(&program);
}
