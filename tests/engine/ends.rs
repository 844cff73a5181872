//! The engine counts a thread to its last instruction, wherever and however it ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use rprof::instrument::{Counted, CountingEngine, PlacingSettings, Translator};
use rprof::tracee::launch::{Program, Streams, spawn_gated};

use crate::guests::{build, guest_told, nothing_runs, translated};

/// Displacement of the first word in `cut_short.c`.
const FIRST: u64 = 0x5e_ed00;

/// By thread: executions of the guest's instructions that add to its words.
fn executions(counted: &Counted, words: usize) -> BTreeMap<u32, Vec<u64>> {
    let mut sums = BTreeMap::new();
    for block in &counted.evidence.blocks {
        for instruction in &mut Decoder::new(64, &block.code, DecoderOptions::NONE) {
            let word = instruction.memory_displacement64().wrapping_sub(FIRST) / 8;
            if instruction.mnemonic() == Mnemonic::Inc && word < words as u64 {
                for &(thread, executions) in &block.executions {
                    sums.entry(thread).or_insert_with(|| vec![0; words])[word as usize] += executions;
                }
            }
        }
    }
    sums
}

#[test]
fn threads_that_are_cut_short_are_counted_to_the_last_instruction() {
    // Hot blocks are placed, and most of them have no counter in line, before the first thread ends.
    let (after, again) = (Duration::from_millis(2), Duration::from_millis(8));
    let placing = PlacingSettings { after, again, worth: 1, ..PlacingSettings::default() };
    cut_short(placing);
    cut_short(PlacingSettings { short_code_from: 0, ..placing });
}

fn cut_short(placing: PlacingSettings) {
    let dir = tempfile::tempdir().unwrap();
    let path = build(dir.path(), "cut_short.c", &["-pthread"]);
    let out = dir.path().join("out");
    let streams = Streams { stdout: Some(File::create(&out).unwrap().into()), ..Streams::default() };
    let program = Program { path: path.clone(), argv: vec![path.clone().into()] };
    let mut engine = Translator { placing, ..Translator::default() };
    let counted = engine.run(spawn_gated(&program, streams).unwrap(), None, None).unwrap();
    nothing_runs(&path);
    assert_eq!(counted.status, 0);
    let output = std::fs::read_to_string(out).unwrap();
    let mut lines = output.lines().map(|line| line.parse::<u64>().unwrap());
    let ends = lines.next().unwrap();
    let expected: Vec<u64> = lines.collect();
    assert!(expected.len() > 10 && expected.iter().all(|&n| n > 1000), "{expected:?}");
    let by_thread = executions(&counted, expected.len());
    let sum = |word: usize| by_thread.values().map(|words| words[word]).sum::<u64>();
    assert_eq!((0..expected.len()).map(sum).collect::<Vec<_>>(), expected, "after {ends} ends");
    assert!(by_thread.len() as u64 > ends / 2, "{ends} ends, {} threads", by_thread.len());
    for (thread, words) in by_thread {
        // Behind the first word either the second or the fifth follows, unless the thread ends there.
        assert!(words[0].wrapping_sub(words[1] + words[4]) <= 1, "thread {thread}: {words:?}");
    }
}

/// A core has the program's own registers, wherever the signal that left it came.
#[test]
fn a_core_has_the_registers_of_the_program() {
    for kind in ["0", "1", "2", "3", "3", "3", "3", "3", "3", "3", "3"] {
        let dir = tempfile::tempdir().unwrap();
        let program = build(dir.path(), "dumped.c", &["-no-pie"]);
        let (program, cores) = (program.to_str().unwrap(), dir.path().join("cores"));
        std::fs::create_dir(&cores).unwrap();
        let argv = [program, kind, cores.to_str().unwrap()];
        let native = std::process::Command::new(program).args(&argv[1..]).output().unwrap();
        let Some(registers) = take_core(&cores) else {
            let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
            println!("SKIPPED: kernel: registers in cores (there are none here; core_pattern is {})", pattern.trim());
            return;
        };
        check_core(&native.stdout, &registers, &format!("{kind}, natively"));
        let (counted, said) = translated(dir.path(), &argv);
        assert_eq!(counted.unwrap().status, native.status.into_raw(), "{kind}");
        check_core(said.output.as_bytes(), &take_core(&cores).expect("a core"), kind);
    }
}

/// Registers of the thread of a core in `cores`, in the order of `user_regs_struct`; removes the core.
fn take_core(cores: &Path) -> Option<[u64; 27]> {
    const NT_PRSTATUS: u32 = 1;
    const REGISTERS: usize = 112;
    let path = std::fs::read_dir(cores).unwrap().next()?.unwrap().path();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let elf = goblin::elf::Elf::parse(&bytes).unwrap();
    // The thread that the signal ended comes first.
    let note = elf.iter_note_headers(&bytes)?.flatten().find(|n| n.n_type == NT_PRSTATUS)?;
    let words = note.desc[REGISTERS..].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    words.take(27).collect::<Vec<_>>().try_into().ok()
}

/// Compares the registers with the output of `dumped.c` and with the values that it keeps in them.
fn check_core(output: &[u8], registers: &[u64; 27], what: &str) {
    let [r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, _, rip, _, _, rsp, ..] = *registers;
    let kept = [rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15];
    let places: Vec<u64> =
        std::str::from_utf8(output).unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [from, to, stack, leaf, leaf_end] = places[..] else { panic!("{what}: {places:?}") };
    assert!((from..to).contains(&rip), "{what}: the program counter is {rip:#x}, not in {from:#x}..{to:#x}");
    let pushed = if (leaf..leaf_end).contains(&rip) { 8 } else { 0 };
    assert_eq!(rsp, stack - pushed, "{what}: the stack pointer, at {rip:#x}");
    assert_eq!(kept, std::array::from_fn(|i| 0x2001 + i as u64), "{what}: registers, at {rip:#x}");
}

#[test]
fn faults_that_end_a_process_are_told_with_their_place() {
    let evidence = guest_told("crashes.c", &["-no-pie"], &["crashed"]).evidence;
    let told: Vec<&str> = evidence.warnings.iter().filter(|w| w.code == "crashed").map(|w| w.text.as_str()).collect();
    let of = |words: &str| told.iter().filter(|t| t.contains(words)).count();
    assert_eq!(told.len(), 3, "one was sent its signal: {told:?}");
    assert_eq!(of("(crashes) was ended by SIGSEGV at crashes+0x"), 1, "{told:?}");
    assert_eq!(of("on an access to 0x1008"), 1, "{told:?}");
    assert_eq!(of("was ended by SIGILL at crashes+0x"), 1, "{told:?}");
    assert_eq!(of("was ended by SIGSEGV at 0x2000, on an access to 0x2000"), 1, "{told:?}");
    assert_eq!(of("rprof's own"), 0, "{told:?}");
}
