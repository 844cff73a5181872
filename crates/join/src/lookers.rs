//! Functions that only look something up, in memory or on the clock: a loop that calls nothing else, and goes on from nothing that its last
//! round found, waits.

use std::collections::HashMap;

use iced_x86::Instruction;

use super::code_map::{CodeMap, FunctionId};
use super::modules::Place;
use super::static_code::static_code;
use super::waiting;
use rprof_isa::x86_64::CodeGraph;

/// A function that looks something up calls others no deeper than this.
const DEEPEST: u32 = 2;

/// Which functions only look something up, as far as that was asked.
#[derive(Debug, Default)]
pub struct Lookers {
    known: HashMap<FunctionId, bool>,
}

impl Lookers {
    /// Whether `function` only looks something up.
    pub fn looks(&mut self, function: FunctionId, code: &mut CodeMap) -> bool {
        self.looks_within(function, code, DEEPEST)
    }

    /// Whether an instruction of the joint module `module` calls a function that only looks something up.
    pub fn is_call(&mut self, instruction: &Instruction, module: u32, code: &mut CodeMap) -> bool {
        self.is_call_within(instruction, module, code, DEEPEST)
    }

    fn is_call_within(&mut self, instruction: &Instruction, module: u32, code: &mut CodeMap, depth: u32) -> bool {
        if !instruction.is_call_near() && !instruction.is_jmp_short_or_near() {
            return false;
        }
        let called = code.function(Place { module, offset: instruction.near_branch_target() });
        self.looks_within(called, code, depth)
    }

    fn looks_within(&mut self, function: FunctionId, code: &mut CodeMap, depth: u32) -> bool {
        if let Some(known) = self.known.get(&function) {
            return *known;
        }
        let looks = waiting::reads_the_clock(&code.known(function).name)
            || depth > 0 && self.has_such_code(function, code, depth - 1);
        self.known.insert(function, looks);
        looks
    }

    fn has_such_code(&mut self, function: FunctionId, code: &mut CodeMap, depth: u32) -> bool {
        let Some(place) = code.known(function).place else { return false };
        let size: u64 = code.known(function).parts.iter().map(|(start, end)| end.saturating_sub(*start)).sum();
        if size > waiting::LARGEST_LOOKER {
            return false;
        }
        let runs = static_code(function, code);
        let graph = CodeGraph::new(runs.iter().map(|(start, bytes)| (*start, bytes.as_slice())));
        let is_inside = |at: u64| runs.iter().any(|(start, bytes)| (*start..*start + bytes.len() as u64).contains(&at));
        let leaves =
            |i: &&Instruction| i.is_call_near() || i.is_jmp_short_or_near() && !is_inside(i.near_branch_target());
        let calls: Vec<Instruction> = graph.instructions.iter().filter(leaves).copied().collect();
        calls.iter().all(|call| self.is_call_within(call, place.module, code, depth))
            && waiting::only_looks(&graph.instructions)
    }
}
