//! Which loads read a value that a store of the same body wrote, in this iteration or an earlier one.

use iced_x86::{Instruction, InstructionInfo, Register};

use super::affine::{Affine, Registers};
use super::uses::{is_read, is_write};

/// A memory operand with its address as a sum.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    /// Instruction index.
    pub at: usize,
    address: Affine,
    segment: Register,
    bytes: i64,
}

/// Loads and stores of a body.
#[derive(Debug, Default)]
pub(super) struct References {
    loads: Vec<Reference>,
    stores: Vec<Reference>,
}

/// Iterations over which a store is matched with a later load.
const FARTHEST: i64 = 16;

impl References {
    /// Adds the references of the instruction numbered `at`, before `registers` follows it.
    pub(super) fn add(&mut self, at: usize, instruction: &Instruction, info: &InstructionInfo, registers: &Registers) {
        if instruction.is_string_instruction() {
            return;
        }
        for memory in info.used_memory() {
            let operand = iced_x86::MemoryOperand::new(
                memory.base(),
                memory.index(),
                memory.scale(),
                memory.displacement() as i64,
                8,
                false,
                Register::None,
            );
            let Some(address) = registers.address(&operand) else { continue };
            let segment =
                if matches!(memory.segment(), Register::FS | Register::GS) { memory.segment() } else { Register::None };
            let reference = Reference { at, address, segment, bytes: memory.memory_size().size() as i64 };
            if reference.bytes == 0 {
                continue;
            }
            if is_read(memory.access()) {
                self.loads.push(reference.clone());
            }
            if is_write(memory.access()) {
                self.stores.push(reference);
            }
        }
    }

    /// Stores with an address that is known to change from iteration to iteration.
    pub(super) fn moving_stores(&self, steps: &[Option<i64>]) -> Vec<usize> {
        let moves = |store: &&Reference| store.address.growth(steps).is_some_and(|growth| growth != 0);
        self.stores.iter().filter(moves).map(|store| store.at).collect()
    }

    /// (load instruction, store instruction, distance in iterations) for every load that a store feeds. `steps`: change of each
    /// general-purpose register in an iteration.
    pub(super) fn forwarded(&self, steps: &[Option<i64>]) -> Vec<(usize, usize, u32)> {
        self.loads
            .iter()
            .filter_map(|load| self.source(load, steps).map(|(store, distance)| (load.at, store, distance)))
            .collect()
    }

    /// The most recent store that wrote all that `load` reads.
    fn source(&self, load: &Reference, steps: &[Option<i64>]) -> Option<(usize, u32)> {
        let matching = |store: &&Reference| store.segment == load.segment && store.address.terms == load.address.terms;
        let offset = |store: &Reference| load.address.constant.wrapping_sub(store.address.constant);
        let within = |store: &Reference, offset: i64| offset >= 0 && offset + load.bytes <= store.bytes;
        let candidates: Vec<&Reference> = self.stores.iter().filter(matching).collect();
        let now = candidates.iter().rev().find(|store| store.at < load.at && within(store, offset(store)));
        if let Some(store) = now {
            return Some((store.at, 0));
        }
        let growth = load.address.growth(steps)?;
        (1..=FARTHEST).find_map(|distance| {
            let moved = growth.checked_mul(distance)?;
            let store = candidates.iter().rev().find(|store| within(store, offset(store).wrapping_add(moved)))?;
            Some((store.at, distance as u32))
        })
    }
}
