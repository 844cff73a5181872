//! Whether the addresses of a loop's accesses are known before the accesses are made.
//!
//! ```text
//! slice(i) = all operations that the address of i depends on, in this iteration and earlier ones
//! i ∈ slice(i), or a load in slice(i) in its own, or the slice chooses      chased
//! else a load in slice(i)                                                   indexed
//! else an operation in slice(i)                                             computed
//! ```
//!
//! A slice chooses if it holds a conditional move, or hands on or takes in a register that code off the path writes, too: each address
//! depends on the value that the access before brought (a binary search, a descent in a tree).

use std::collections::BTreeSet;

use iced_x86::{ConditionCode, FlowControl, Instruction, InstructionInfoFactory};

use super::graph::{Graph, Source};
use super::uses::{self, Place, Reader, Uses};
use crate::dependency::{AddressOrigin, ChainStep};

/// The origin of the address of each access of `body`, by instruction address. `off_path`: the loop's other instructions. Leaves out
/// accesses with the same address in all iterations, or with one from a callee.
pub fn address_origins(body: &[Instruction], off_path: &[Instruction]) -> Vec<(u64, AddressOrigin)> {
    if body.len() > super::LONGEST_BODY {
        return Vec::new();
    }
    let graph = Graph::new(body);
    let (loads, accesses) = memory_accesses(body);
    let chooses = choosing(&graph, body, off_path);
    let slices: Vec<BTreeSet<usize>> =
        (0..body.len()).map(|i| if accesses[i] { slice(&graph, i, loads[i]) } else { BTreeSet::new() }).collect();
    let chases = |i: usize| slices[i].contains(&i) && loads[i];
    let origin = |i: usize| {
        let slice = &slices[i];
        if chases(i) || slice.iter().any(|j| chooses[*j] || loads[*j] && chases(*j)) {
            return AddressOrigin::Chased;
        }
        match slice.iter().any(|j| loads[*j]) {
            true => AddressOrigin::Indexed,
            false => AddressOrigin::Computed,
        }
    };
    let varying = (0..body.len()).filter(|i| !slices[*i].is_empty());
    varying.map(|i| (body[i].ip(), origin(i))).collect()
}

/// The operations that the address of `at` depends on; of a store, which waits for nothing, all that it depends on.
fn slice(graph: &Graph, at: usize, is_load: bool) -> BTreeSet<usize> {
    let made_by = |from: Source| match from {
        Source::Operation(from) => from,
        Source::Carried(index) => graph.carried[index].made_by,
    };
    let inputs = graph.operations[at].inputs.iter();
    let of_address = inputs.filter(|input| !is_load || input.via == Some(ChainStep::Load));
    let mut open: Vec<usize> = of_address.map(|input| made_by(input.from)).collect();
    let mut found = BTreeSet::new();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(graph.operations[next].inputs.iter().map(|input| made_by(input.from)));
        }
    }
    found
}

/// (which instructions read memory, which access it).
fn memory_accesses(body: &[Instruction]) -> (Vec<bool>, Vec<bool>) {
    let mut factory = InstructionInfoFactory::new();
    let of = |instruction: &Instruction| {
        let memory: Vec<_> = factory.info(instruction).used_memory().iter().map(|m| m.access()).collect();
        let stack_only = instruction.is_stack_instruction();
        let reads = memory.iter().any(|access| uses::is_read(*access));
        (
            reads && !stack_only,
            memory.iter().any(|access| uses::is_read(*access) || uses::is_write(*access)) && !stack_only,
        )
    };
    body.iter().map(of).unzip()
}

/// Which instructions of `body` make a choice that data decide, or take one in.
fn choosing(graph: &Graph, body: &[Instruction], off_path: &[Instruction]) -> Vec<bool> {
    let mut reader = Reader::new();
    let elsewhere: BTreeSet<Place> = off_path.iter().flat_map(|i| reader.read(i).writes).collect();
    let mut reader = Reader::new();
    let all: Vec<Uses> = body.iter().map(|i| reader.read(i)).collect();
    let on_path: BTreeSet<Place> = all.iter().flat_map(|uses| &uses.writes).copied().collect();
    let differs = |place: &Place| *place != Place::Carry && elsewhere.contains(place);
    let chooses = |(at, uses): (usize, &Uses)| {
        let conditional =
            body[at].condition_code() != ConditionCode::None && body[at].flow_control() == FlowControl::Next;
        let hands_on = graph.carried.iter().any(|carried| carried.made_by == at);
        let reads = || uses.data.iter().chain(&uses.address);
        conditional
            || hands_on && uses.writes.iter().any(differs)
            || reads().any(|place| differs(place) && !on_path.contains(place))
    };
    all.iter().enumerate().map(chooses).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn decoded(bytes: &[u8]) -> Vec<Instruction> {
        let code: Vec<Instruction> = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).iter().collect();
        assert!(code.iter().all(|i| !i.is_invalid()));
        code
    }

    fn origins(bytes: &[u8], off_path: &[u8]) -> Vec<AddressOrigin> {
        address_origins(&decoded(bytes), &decoded(off_path)).into_iter().map(|(_, origin)| origin).collect()
    }

    #[test]
    fn an_index_list_is_read_ahead_of_what_it_points_to() {
        // movsxd rdx, [rdi + rax*4]; addsd xmm0, [rsi + rdx*8]; add rax, 1; cmp rax, rcx; jne
        let body = [
            0x48, 0x63, 0x14, 0x87, 0xf2, 0x0f, 0x58, 0x04, 0xd6, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xc8, 0x75, 0xee,
        ];
        assert_eq!(origins(&body, &[]), [AddressOrigin::Computed, AddressOrigin::Indexed]);
    }

    #[test]
    fn a_list_is_chased_and_so_is_all_that_hangs_on_it() {
        // add rax, [rdi + 8]; mov rdi, [rdi]; test rdi, rdi; jne
        let body = [0x48, 0x03, 0x47, 0x08, 0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf4];
        assert_eq!(origins(&body, &[]), [AddressOrigin::Chased; 2]);
    }

    #[test]
    fn random_numbers_are_computed() {
        // imul rax, rax, 5; add rax, 3; mov rdx, rax; shr rdx, 40; add ecx, [rdi + rdx*4]; jmp
        let body = [
            0x48, 0x6b, 0xc0, 0x05, 0x48, 0x83, 0xc0, 0x03, 0x48, 0x89, 0xc2, 0x48, 0xc1, 0xea, 0x28, 0x03, 0x0c, 0x97,
            0xeb, 0xec,
        ];
        assert_eq!(origins(&body, &[]), [AddressOrigin::Computed]);
    }

    #[test]
    fn a_search_chases_as_each_address_needs_the_comparison_before() {
        // lea rdx, [rax + rcx]; shr rdx, 1; cmp esi, [rdi + rdx*4]; jb …; lea rax, [rdx + 1]; jmp …      off the path: mov rcx, rdx
        let body = [
            0x48, 0x8d, 0x14, 0x08, 0x48, 0xd1, 0xea, 0x3b, 0x34, 0x97, 0x72, 0x06, 0x48, 0x8d, 0x42, 0x01, 0xeb, 0xee,
        ];
        assert_eq!(
            origins(&body, &[0x48, 0x89, 0xd0]),
            [AddressOrigin::Chased],
            "mov rax, rdx writes what the path does"
        );
        // cmp esi, [rdi + rax*4]; cmovb rax, rdx
        assert_eq!(origins(&[0x3b, 0x34, 0x87, 0x48, 0x0f, 0x42, 0xc2], &[]), [AddressOrigin::Chased]);
    }

    #[test]
    fn addresses_that_stay_are_left_out() {
        // addsd xmm0, [rdi]
        assert_eq!(origins(&[0xf2, 0x0f, 0x58, 0x07], &[]), []);
    }
}
