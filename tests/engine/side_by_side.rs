//! Several processes of a program are translated side by side, not one behind the other.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use rprof::instrument::{Counted, CountingEngine, Translator};
use rprof::tracee::affinity::CpuPin;
use rprof::tracee::launch::{Program, Streams, spawn_gated};

use crate::guests::{build, nothing_runs};

/// Functions that each of the two processes executes; see the guest.
const FUNCTIONS: u64 = 4096;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();
static HELD_UP: AtomicU32 = AtomicU32::new(0);
static THE_OTHER_WENT_ON: AtomicBool = AtomicBool::new(false);

fn exists(name: &str) -> bool {
    FOLDER.get().is_some_and(|folder| folder.join(name).exists())
}

/// Holds up the first worker that takes one of the two processes, until the other process has executed all its functions.
fn hold_up() {
    if !(exists("ready-0") && exists("ready-1")) || HELD_UP.fetch_add(1, Ordering::SeqCst) > 0 {
        return;
    }
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(60) {
        if exists("done-0") || exists("done-1") {
            THE_OTHER_WENT_ON.store(true, Ordering::SeqCst);
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Executions of `bswap` in the program itself.
fn swaps(counted: &Counted) -> u64 {
    let modules = &counted.evidence.modules;
    let of_program = counted.evidence.blocks.iter().filter(|b| modules[b.at.module as usize].path.ends_with("rivals"));
    let in_block = |code| {
        let decoder = Decoder::new(64, code, DecoderOptions::NONE);
        decoder.into_iter().filter(|i| i.mnemonic() == Mnemonic::Bswap).count() as u64
    };
    of_program.map(|b| in_block(&b.code) * b.executions.iter().map(|e| e.1).sum::<u64>()).sum()
}

#[test]
fn one_process_goes_on_while_the_translation_of_another_is_held_up() {
    if CpuPin::new().cpus() < 2 {
        return println!("SKIPPED: cpus: on one CPU nothing is translated side by side");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = build(folder.path(), "rivals.c", &[]);
    FOLDER.set(folder.path().to_owned()).unwrap();
    let program = Program { path: path.clone(), argv: vec![path.clone().into(), folder.path().into()] };
    let mut translator = Translator { before_handoff: Some(hold_up), ..Translator::default() };
    let counted = translator.run(spawn_gated(&program, Streams::default()).unwrap(), None, None).unwrap();
    assert_eq!(counted.status, 0);
    nothing_runs(&path);
    assert!(HELD_UP.load(Ordering::SeqCst) > 0, "the two were never translated side by side");
    assert!(THE_OTHER_WENT_ON.load(Ordering::SeqCst), "nobody served the other process meanwhile");
    assert_eq!(swaps(&counted), 2 * FUNCTIONS);
}
