//! Every mechanism of Linux and of the processor that a translator can get wrong, with a guest program of its own
//! (`fixtures/guests/hosted/`; each says what it does): output and exit status as natively, and nothing left running.

#[path = "common/guests.rs"]
#[allow(dead_code)]
mod guests;

use std::process::Command;
use std::time::{Duration, Instant};

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use rprof::instrument::Counted;

use guests::{build, guest, guest_told, nothing_runs, same_told, translated};

/// Tests from rows `NAME [FLAGS]`; `=> CODE`: what the engine says of it.
macro_rules! mechanisms {
    ($($name:ident $flags:tt $(=> $code:literal)?,)*) => {
        $(#[test] fn $name() { guest_told(concat!(stringify!($name), ".c"), &$flags, &[$($code)?]); })*
    };
}
mechanisms! {
    address_space [],
    attributes [],
    cancelled ["-pthread"],
    clones [],
    contexts [],
    core [] => "crashed",
    crowd ["-pthread"] => "threads-together",
    dispositions [],
    dual [] => "native-code",
    edges ["-no-pie"],
    fair [],
    faults [] => "crashed",
    frames [] => "crashed",
    interrupted [],
    locked ["-pthread", "-lm"],
    overflow ["-lm"] => "native-code",
    partly [],
    per_cpu ["-pthread"],
    registers [],
    relatives [],
    reuse [],
    rewritten [] => "native-code",
    sandbox ["-lm"],
    segments ["-pthread"],
    signals [],
    state [],
    stopped [],
    storm ["-pthread"],
    trampolines [] => "native-code",
}

#[test]
fn kernel_pages() {
    // The page of old system calls cannot be read; that of new ones is translated.
    let old = std::fs::read_to_string("/proc/self/maps").unwrap().contains("[vsyscall]");
    guest_told("kernel_pages.c", &[], if old { &["native-code"] } else { &[] });
}

#[test]
fn what_has_no_room_beside_a_small_limit_runs_on_natively() {
    let evidence = guest_told("address_space.c", &["-DFILTERED"], &["child-not-counted"]).evidence;
    let told = evidence.warnings.iter().find(|w| w.code == "child-not-counted").map(|w| w.text.clone());
    assert!(told.as_ref().is_some_and(|m| m.contains("ulimit -v")), "{:?}", evidence.warnings);
}

/// Sanitizers reserve most of the address space, and end a program in which something else is mapped there.
#[test]
fn shadow_memories_of_sanitizers_are_left_alone() {
    for sanitizer in ["-fsanitize=thread", "-fsanitize=undefined"] {
        guest("threads.c", &["-pthread", sanitizer]);
    }
}

#[test]
fn relatives_that_need_more_room_for_code_than_they_share() {
    let evidence = guest("outgrown.c", &[]).evidence;
    // 128 instructions each; what was executed before the ways parted counts as well.
    let of_functions = |code: &[u8]| code.starts_with(&[0x0f, 0x1f, 0x84]) && code.ends_with(&[0xc3]);
    let blocks = evidence.blocks.iter().filter(|b| of_functions(&b.code));
    let executions: u64 = blocks.flat_map(|b| &b.executions).map(|(_, times)| times).sum();
    assert_eq!(executions, 4 * 32768);
}

#[test]
fn threads_without_end_are_counted_without_being_told_apart() {
    let evidence = guest_told("many.c", &["-pthread"], &["threads-together"]).evidence;
    // The long nop of `once`, and nothing else, has this displacement.
    let of_once = |code: &[u8]| code.windows(4).any(|w| w == [0x57, 0x13, 0, 0]);
    let executions: Vec<(u32, u64)> =
        evidence.blocks.iter().filter(|b| of_once(&b.code)).flat_map(|b| b.executions.clone()).collect();
    assert_eq!(executions.iter().map(|(_, times)| times).sum::<u64>(), 2000);
    assert!((1024..1500).contains(&executions.len()), "{} threads told apart", executions.len());
    assert_eq!(evidence.threads.len(), 2001);
}

#[test]
fn a_task_that_no_tracer_may_follow_traces_its_program() {
    for kind in [&[][..], &["-DCLONE3"], &["-DFORKED"]] {
        let counted = guest_told("untraced.c", &[&["-pthread"], kind].concat(), &["released"]);
        assert!(was_let_go(&counted), "{kind:?}: {:?}", counted.evidence.warnings);
        assert_eq!(complements(&counted), 1000, "{kind:?}: what came before is counted");
    }
}

#[test]
fn a_sanitizer_looks_for_leaks_at_exit() {
    let dir = tempfile::tempdir().unwrap();
    for sanitizer in ["-fsanitize=leak", "-fsanitize=address"] {
        std::fs::write(dir.path().join("any.c"), "int main(void) { return 0; }\n").unwrap();
        let has = Command::new("cc").args(["any.c", sanitizer]).current_dir(dir.path()).output().unwrap();
        if !has.status.success() {
            println!("SKIPPED: a_sanitizer_looks_for_leaks_at_exit: cc has no {sanitizer} here");
            continue;
        }
        let program = build(dir.path(), "leaks.c", &["-pthread", sanitizer]);
        // Its report has the process's id and addresses in it.
        let options = format!("log_path={}", dir.path().join("leaks").display());
        let [leak, address] = ["LSAN", "ASAN"].map(|who| format!("{who}_OPTIONS={options}"));
        for arguments in [&[][..], &["leak"]] {
            let argv = [&["env", &leak, &address, program.to_str().unwrap()], arguments].concat();
            let counted = same_told(&argv, &["released"]);
            assert!(was_let_go(&counted), "{sanitizer}: {:?}", counted.evidence.warnings);
            nothing_runs(&program);
        }
    }
}

/// Whether it was let go because of a task that cannot be traced.
fn was_let_go(counted: &Counted) -> bool {
    counted.evidence.warnings.iter().any(|w| w.code == "released" && w.text.contains("CLONE_UNTRACED"))
}

/// Executions of `cmc`.
fn complements(counted: &Counted) -> u64 {
    let inside = |code: &[u8]| {
        Decoder::new(64, code, DecoderOptions::NONE).iter().filter(|i| i.mnemonic() == Mnemonic::Cmc).count() as u64
    };
    let blocks = counted.evidence.blocks.iter();
    blocks.map(|b| inside(&b.code) * b.executions.iter().map(|e| e.1).sum::<u64>()).sum()
}

/// It would not hold the addresses that translated calls return to.
#[test]
fn a_shadow_stack_is_said_to_be_unsupported() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "shadow_stack.c", &[]);
    let (counted, said) = translated(dir.path(), &[program.to_str().unwrap()]);
    assert_eq!(counted.unwrap().status, 0);
    assert_eq!(said.output, format!("{}\n", -libc::EOPNOTSUPP));
}

#[test]
fn a_descendant_outlives_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "outlives.c", &["-pthread"]);
    let result = dir.path().join("result");
    let since = Instant::now();
    let (counted, said) = translated(dir.path(), &[program.to_str().unwrap(), result.to_str().unwrap()]);
    assert_eq!((counted.unwrap().status, said.output.as_str(), said.errors.as_str()), (0, "gone\n", ""));
    while !std::fs::read_to_string(&result).is_ok_and(|text| text.ends_with('\n')) {
        assert!(since.elapsed() < Duration::from_secs(60), "the descendant wrote nothing");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(std::fs::read_to_string(result).unwrap().starts_with("total 3000000 sqrt"));
    nothing_runs(&program);
}
