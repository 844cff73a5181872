//! Accesses with addresses and sizes known only at run time: translated code reports the same ones as the single-step engine, one
//! by one, and as many as arithmetic says.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rprof::instrument::{CountingEngine, SingleStep, Translator};
use rprof::isa::facts::AccessKind;
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, MemoryEvidence};
use rprof::tracee::launch::{Program, Streams, spawn_gated};

/// Address, bytes and kind of each access in order, by the instruction's offset in the file.
type ByInstruction = BTreeMap<u64, Vec<(u64, u32, AccessKind)>>;

/// Keeps all accesses.
#[derive(Default)]
struct Keeper {
    seen: Vec<Access>,
    kept: Arc<Mutex<ByInstruction>>,
}

impl AccessSink for Keeper {
    fn record(&mut self, _thread: u32, _process: u32, batch: &[Access]) {
        self.seen.extend_from_slice(batch);
    }

    fn finish(self: Box<Self>, sites: &[CodeRef]) -> MemoryEvidence {
        let mut kept = self.kept.lock().unwrap();
        for access in &self.seen {
            // The address of the stack is random.
            let address = if access.address < 1 << 32 { access.address } else { access.address & 15 };
            let of_site = kept.entry(sites[access.site as usize].offset).or_default();
            of_site.push((address, access.bytes, access.kind));
        }
        MemoryEvidence::default()
    }
}

fn accesses(engine: &mut dyn CountingEngine, path: &Path) -> ByInstruction {
    let program = Program { path: path.into(), argv: vec![path.into()] };
    let keeper = Keeper::default();
    let kept = keeper.kept.clone();
    let counted = engine.run(spawn_gated(&program, Streams::default()).unwrap(), Some(Box::new(keeper)), None).unwrap();
    assert!(libc::WIFEXITED(counted.status), "status {:#x}", counted.status);
    std::mem::take(&mut kept.lock().unwrap())
}

/// Rounds of the guest.
const ROUNDS: u64 = 60;

#[test]
fn what_only_run_time_tells_of_accesses_is_as_single_step_sees_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("accesses");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/guests/accesses.c");
    let flags = ["-O1", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-o"];
    assert!(Command::new("cc").args(flags).arg(&path).arg(source).status().unwrap().success());
    let expected = accesses(&mut SingleStep::new(), &path);
    let found = accesses(&mut Translator::new(), &path);
    for (at, expected) in &expected {
        let found = found.get(at).map_or(&[][..], Vec::as_slice);
        let wrong = (0..expected.len().max(found.len())).find(|&i| found.get(i) != expected.get(i));
        if let Some(i) = wrong {
            panic!("access {i} of {at:#x}: {:x?}, single-stepped {:x?}", found.get(i), expected.get(i));
        }
    }
    assert_eq!(found.len(), expected.len(), "instructions with accesses");

    let of_kind = |kind| found.values().flatten().filter(|access| access.2 == kind).count() as u64;
    // Four a round, and one more in each second.
    assert_eq!(of_kind(AccessKind::Prefetch), 4 * ROUNDS + ROUNDS / 2);
    let mut gathered = 0;
    for n in 0..ROUNDS {
        // The sign of each byte of the mask; the eight low bits.
        let signs = (0..4).filter(|byte| (n * 0x1d0b7) >> (8 * byte) & 0x80 != 0).count() as u64;
        gathered += if is_x86_feature_detected!("avx2") { 2 * signs } else { 0 };
        gathered +=
            if is_x86_feature_detected!("avx512f") { u64::from((n as u8).wrapping_mul(37).count_ones()) } else { 0 };
    }
    assert_eq!(of_kind(AccessKind::Gather), gathered, "active lanes of gathers");
}
