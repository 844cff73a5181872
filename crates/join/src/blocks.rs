//! The counted pass's blocks, decoded and divided among functions.

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use super::code_map::{CodeMap, FunctionId};
use super::modules::{Pass, Place};
use rprof_profile::evidence::blocks::BlockCount;
use rprof_profile::evidence::counted::CountedEvidence;

/// A block with its instructions; their `ip` is the offset in the joint module.
#[derive(Debug)]
pub struct DecodedBlock<'e> {
    /// The evidence.
    pub count: &'e BlockCount,
    /// Its first instruction in the joint modules.
    pub place: Place,
    /// Its instructions in order.
    pub instructions: Vec<Instruction>,
    /// Executions of all threads.
    pub executions: u64,
}

/// Instructions `first..last` of a block: the part of it that lies in one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Index into [`ExecutedBlocks::blocks`].
    pub block: u32,
    /// First instruction.
    pub first: u32,
    /// Index after the last instruction.
    pub last: u32,
}

/// The executed blocks.
#[derive(Debug, Default)]
pub struct ExecutedBlocks<'e> {
    /// All blocks that were executed at least once.
    pub blocks: Vec<DecodedBlock<'e>>,
    /// Parts of blocks by function.
    pub spans: HashMap<FunctionId, Vec<Span>>,
    /// Bytes that did not decode, in executed blocks: their counts are missing.
    pub undecoded: u64,
}

impl<'e> ExecutedBlocks<'e> {
    /// Decodes the blocks and divides them. A block that runs from one function into the next is split.
    pub fn new(counted: &'e CountedEvidence, code: &mut CodeMap) -> Self {
        let mut executed = ExecutedBlocks::default();
        let mut targets = Vec::new();
        for count in &counted.blocks {
            let executions = count.executions.iter().map(|(_, n)| n).sum();
            // A `rep` that was interrupted each time has a sum, and no execution of its block.
            let has_run = executions > 0 || count.dynamic.iter().any(|d| d.sum > 0);
            let (Some(place), true) = (code.place(Pass::Counted, count.at), has_run) else { continue };
            let (instructions, undecoded) = decode(&count.code, place.offset);
            executed.undecoded += undecoded;
            let calls = instructions.iter().filter(|i| i.flow_control() == FlowControl::Call);
            targets.extend(calls.map(|i| Place { offset: i.near_branch_target(), ..place }));
            executed.blocks.push(DecodedBlock { count, place, instructions, executions });
        }
        code.call_targets(&mut targets);
        executed.divide(code);
        executed
    }

    /// The spans of `function`.
    pub fn of(&self, function: FunctionId) -> &[Span] {
        self.spans.get(&function).map_or(&[], Vec::as_slice)
    }

    /// The instructions of `span`.
    pub fn instructions(&self, span: Span) -> &[Instruction] {
        &self.blocks[span.block as usize].instructions[span.first as usize..span.last as usize]
    }

    /// Offset and code bytes of `span`.
    pub fn bytes(&self, span: Span) -> (u64, &'e [u8]) {
        let block = &self.blocks[span.block as usize];
        let instructions = self.instructions(span);
        let (Some(first), Some(last)) = (instructions.first(), instructions.last()) else { return (0, &[]) };
        let from = (first.ip() - block.place.offset) as usize;
        let to = (last.next_ip() - block.place.offset) as usize;
        (first.ip(), &block.count.code[from..to])
    }

    fn divide(&mut self, code: &mut CodeMap) {
        for (index, block) in self.blocks.iter().enumerate() {
            let mut first = 0;
            while first < block.instructions.len() {
                let start = block.instructions[first].ip();
                let (end, function) = code.part(Place { offset: start, ..block.place });
                let inside = block.instructions[first..].iter().take_while(|i| i.ip() < end && i.ip() >= start).count();
                let last = first + inside.max(1);
                let span = Span { block: index as u32, first: first as u32, last: last as u32 };
                self.spans.entry(function).or_default().push(span);
                first = last;
            }
        }
    }
}

/// Decodes `bytes` at `offset`; also returns the number of bytes after the first that is no instruction.
fn decode(bytes: &[u8], offset: u64) -> (Vec<Instruction>, u64) {
    let mut decoder = Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE);
    let mut instructions = Vec::with_capacity(bytes.len() / 4 + 1);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return (instructions, bytes.len() as u64 - (instruction.ip().wrapping_sub(offset)));
        }
        instructions.push(instruction);
    }
    (instructions, 0)
}
