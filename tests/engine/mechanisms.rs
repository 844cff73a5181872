//! Every mechanism of Linux and of the processor that a translator can get wrong, with a guest program of its own
//! (`fixtures/guests/hosted/`; each describes itself): output and exit status as natively, and nothing left running.

use std::process::Command;
use std::time::{Duration, Instant};

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use rprof::instrument::{Counted, PlacingSettings, Translator};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, MemoryEvidence};

use crate::guests::{build, counted_by, guest, guest_told, nothing_runs, same, same_told, translated};

/// Tests from rows `NAME [FLAGS]`; `=> CODE`: the engine's warning.
macro_rules! mechanisms {
    ($($name:ident $flags:tt $(=> $code:literal)?,)*) => {
        $(#[test] fn $name() { guest_told(concat!(stringify!($name), ".c"), &$flags, &[$($code)?]); })*
    };
}
mechanisms! {
    address_space [],
    arrays ["-no-pie", "-fno-pie"],
    attached [] => "native-code",
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
    keys [] => "native-code",
    locked ["-pthread", "-lm"],
    many_maps ["-pthread"],
    own_maps ["-pthread"],
    overflow ["-lm"],
    partly [],
    per_cpu ["-pthread"],
    registers [],
    relatives [],
    replaced [],
    reuse [],
    rewritten [] => "native-code",
    sandbox ["-lm"],
    segments ["-pthread"],
    signals [],
    state [],
    stopped [],
    storm ["-pthread"],
    nested_functions ["-pthread"],
    remapped [],
    text_changes [],
    through_proc [] => "native-code",
    timer_jumps ["-pthread"],
    trampolines [],
    trap_handlers ["-pthread"],
}

#[test]
fn kernel_pages() {
    // The page of old system calls cannot be read; that of new ones is translated.
    let old = std::fs::read_to_string("/proc/self/maps").unwrap().contains("[vsyscall]");
    guest_told("kernel_pages.c", &[], if old { &["native-code"] } else { &[] });
}

/// Hot blocks are placed as soon as can be, and however little they were executed.
fn at_once() -> Translator {
    let (after, again) = (Duration::from_millis(2), Duration::from_millis(8));
    let placing = PlacingSettings { after, again, worth: 1, ..PlacingSettings::default() };
    Translator { placing, ..Translator::default() }
}

/// Its accesses are collected and forgotten.
struct Nowhere;

impl AccessSink for Nowhere {
    fn record(&mut self, _thread: u32, _process: u32, _batch: &[Access]) {}
    fn finish(self: Box<Self>, _sites: &[CodeRef]) -> MemoryEvidence {
        MemoryEvidence::default()
    }
}

/// A thread that executes code during a change executes the old or the new code, and after the change the new one. The engine
/// counts both to the last execution.
#[test]
fn code_is_changed_while_other_threads_execute_it() {
    executed_as_printed("changing.c", 60, &[0xb8]); // mov eax, value
}

/// Loops end when their text does, in the middle of a pass, too.
#[test]
fn loops_that_only_a_change_of_their_text_ends() {
    executed_as_printed("spinning.c", 5, &[0x48, 0x05]); // add rax, value
}

/// The guest prints lines with a value, and the executions of the instruction with this `opcode` and that immediate.
fn executed_as_printed(guest: &str, lines: usize, opcode: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = build(dir.path(), guest, &["-pthread"]);
    assert!(Command::new(&path).output().unwrap().status.success());
    let sinks: [Option<Box<dyn AccessSink>>; 3] = [None, None, Some(Box::new(Nowhere))];
    for (mut engine, sink) in [Translator::new(), at_once(), at_once()].into_iter().zip(sinks) {
        let (counted, said) = counted_by(&mut engine, sink, dir.path(), &[path.to_str().unwrap()]);
        let counted = counted.unwrap();
        nothing_runs(&path);
        assert_eq!(counted.status, 0, "see the guest for what the status says");
        assert!(counted.evidence.warnings.iter().all(|w| w.code != "native-code"), "{:?}", counted.evidence.warnings);
        let executed: Vec<(u32, u64)> = said
            .output
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(value, times)| (value.parse().unwrap(), times.parse().unwrap()))
            .collect();
        assert_eq!(executed.len(), lines);
        let times = |value: u32| {
            let instruction = [opcode, &value.to_le_bytes()].concat();
            // If the code behind it was changed, another block follows.
            executions_of(&counted, |code| code.windows(instruction.len()).filter(|w| *w == instruction).count() as u64)
        };
        let found: Vec<_> = executed.iter().map(|&(value, _)| (value, times(value))).collect();
        assert_eq!(found, executed, "(value, executions)");
    }
}

/// With blocks as they are first translated, with placed ones, and with those that collect accesses.
#[test]
fn a_handler_finds_every_register_as_the_interrupted_code_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = build(dir.path(), "snapshots.c", &[]);
    let argv = [path.to_str().unwrap()];
    same(&argv);
    let sinks: [Option<Box<dyn AccessSink>>; 2] = [None, Some(Box::new(Nowhere))];
    for sink in sinks {
        let collects = sink.is_some();
        let (counted, said) = counted_by(&mut at_once(), sink, dir.path(), &argv);
        let status = counted.unwrap().status >> 8;
        assert_eq!(status, 0, "accesses are collected: {collects}; see the guest for what the status says");
        assert!(said.output.ends_with("good\n"));
        nothing_runs(&path);
    }
}

/// To the library and to the program, in every thread, whatever they ask.
#[test]
fn there_is_no_rseq() {
    let dir = tempfile::tempdir().unwrap();
    let path = build(dir.path(), "per_cpu.c", &["-pthread"]);
    let (counted, said) = translated(dir.path(), &[path.to_str().unwrap(), "absent"]);
    assert_eq!(counted.unwrap().status, 0, "the library has it");
    let expected = "good 20000 refused 4\n".repeat(4) + "refused 4, in a child 4\n";
    assert_eq!(said.output, expected);
    nothing_runs(&path);
}

/// Room for code is found beyond the low 2 GiB.
#[test]
fn arrays_of_every_size_leave_room_for_code() {
    for size in ["-DMIB=300", "-DMIB=1400", "-DMIB=1650", "-DMIB=1950"] {
        guest("arrays.c", &["-no-pie", "-fno-pie", "-static", size]);
    }
    // So large that nothing else fits.
    guest("arrays.c", &["-no-pie", "-fno-pie", "-DMIB=2037"]);
    guest("arrays.c", &["-pie", "-fPIE"]);
}

#[test]
fn memory_that_a_program_expects_is_free() {
    for flags in [&["-no-pie", "-fno-pie"][..], &["-static"], &["-pie", "-fPIE"]] {
        guest("room.c", flags);
    }
}

#[test]
fn processes_that_share_their_memory_are_counted_together() {
    guest("shared_memory.c", &["-pthread"]);
}

#[test]
fn locking_all_memory_locks_the_programs_alone() {
    guest("locked_again.c", &[]);
}

#[test]
fn text_that_runs_out_within_an_instruction() {
    // A thread that is sent to the text again and again would be let go in the end.
    guest("runs_out.c", &[]);
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
    // 128 instructions each; those executed before the ways parted count as well.
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
            println!("SKIPPED: packages: a_sanitizer_looks_for_leaks_at_exit: cc has no {sanitizer} here");
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

/// Whether the engine let the program go because of a task that it cannot trace.
fn was_let_go(counted: &Counted) -> bool {
    counted.evidence.warnings.iter().any(|w| w.code == "released" && w.text.contains("CLONE_UNTRACED"))
}

/// Executions of `cmc`.
fn complements(counted: &Counted) -> u64 {
    let inside = |code: &[u8]| {
        Decoder::new(64, code, DecoderOptions::NONE).iter().filter(|i| i.mnemonic() == Mnemonic::Cmc).count() as u64
    };
    executions_of(counted, inside)
}

/// Executions of the instructions that `inside` counts in a block's code.
fn executions_of(counted: &Counted, inside: impl Fn(&[u8]) -> u64) -> u64 {
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
