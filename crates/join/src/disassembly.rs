//! Which loops are disassembled, and their instructions with executions and time.

use std::collections::{HashMap, HashSet};

use super::blocks::ExecutedBlocks;
use super::code_map::{CodeMap, FunctionId};
use super::loops::LoopNest;
use super::modules::Place;
use super::sampled::LoopNumbers;
use super::source_lines::AtInstruction;
use super::time::Elapsed;
use rprof_isa::x86_64::text::{Disassembler, called};
use rprof_profile::disassembly::{Disassembly, LoopInstruction, hottest};
use rprof_profile::names;

/// Loops of a program that are disassembled at most.
const LOOPS: usize = 40;
/// Instructions of a loop at most.
const INSTRUCTIONS: usize = 60;
/// Characters of a called function's name.
const NAME: usize = 40;

/// Why a loop of code that was made at run time has no disassembly.
pub const MADE_AT_RUN_TIME: &str =
    "its code was made at run time: no file has it, and its addresses differ from run to run";

/// The numbers of the loops with most own time; if no loop has a sample, of those with most executed instructions.
pub fn hot_loops(
    nests: &HashMap<FunctionId, LoopNest>,
    numbers: &LoopNumbers,
    elapsed: &[Elapsed],
    executed: Option<&ExecutedBlocks>,
) -> HashSet<u32> {
    let all = || nests.iter().flat_map(|(id, nest)| (0..nest.loops.len() as u32).map(move |i| (*id, nest, i)));
    let working = || all().filter(|(_, nest, i)| !nest.loops[*i as usize].waits);
    let time = |number: u32| elapsed.get(number as usize).map_or(0.0, |e| e.cpu_s);
    let mut loops: Vec<(f64, u32)> =
        working().map(|(id, _, i)| numbers.number(id, i)).map(|number| (time(number), number)).collect();
    if loops.iter().all(|(time, _)| *time == 0.0) {
        let counts: HashMap<FunctionId, Vec<u64>> =
            nests.iter().map(|(id, nest)| (*id, instructions(*id, nest, executed))).collect();
        loops = working().map(|(id, _, i)| (counts[&id][i as usize] as f64, numbers.number(id, i))).collect();
    }
    loops.retain(|(heat, _)| *heat > 0.0);
    loops.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    loops.into_iter().take(LOOPS).map(|(_, number)| number).collect()
}

/// ExecutedBlocks instructions of each loop of `function`, without those of its inner loops.
fn instructions(function: FunctionId, nest: &LoopNest, executed: Option<&ExecutedBlocks>) -> Vec<u64> {
    let mut counts = vec![0u64; nest.loops.len()];
    if nest.loops.is_empty() {
        return counts;
    }
    for (executed, span) in executed.iter().flat_map(|e| e.of(function).iter().map(move |span| (e, span))) {
        let executions = executed.blocks[span.block as usize].executions;
        for instruction in executed.instructions(*span) {
            if let Some(index) = nest.loop_at(instruction.ip()) {
                counts[index as usize] = counts[index as usize].saturating_add(executions);
            }
        }
    }
    counts
}

/// The own instructions of loop `index` in `module`. `figures`: of the function's instructions, by ascending offset.
pub fn of_loop(
    nest: &LoopNest,
    index: u32,
    module: u32,
    figures: &[(u64, AtInstruction)],
    code: &mut CodeMap,
) -> Disassembly {
    let blocks = nest.loops[index as usize].blocks.iter();
    let all = blocks.flat_map(|block| nest.graph.block_instructions(*block));
    let mut own: Vec<_> = all.filter(|i| nest.loop_at(i.ip()) == Some(index)).collect();
    own.sort_unstable_by_key(|i| i.ip());
    let at = |offset: u64| figures.binary_search_by_key(&offset, |(at, _)| *at).ok().map(|found| figures[found].1);
    let heat = |offset: u64| {
        at(offset).map_or((0.0, 0), |figures| (figures.cpu_s.unwrap_or(0.0), figures.instructions.unwrap_or(0)))
    };
    let shown = hottest(&own, INSTRUCTIONS, |i| heat(i.ip()));
    let left_out = (own.len() - shown.len()) as u32;
    let mut disassembler = Disassembler::default();
    let mut written = |i: &iced_x86::Instruction| {
        let figures = at(i.ip()).unwrap_or_default();
        let mut text = disassembler.text(i);
        if let Some(offset) = called(i)
            && let Some(name) = name(Place { module, offset }, code)
        {
            text += &format!(" <{name}>");
        }
        LoopInstruction {
            offset: i.ip(),
            length: i.len() as u8,
            text,
            executions: figures.instructions,
            cpu_s: figures.cpu_s,
        }
    };
    Disassembly { instructions: own[shown].iter().map(|i| written(i)).collect(), left_out }
}

fn name(place: Place, code: &mut CodeMap) -> Option<String> {
    let function = code.function(place);
    let known = code.known(function);
    known.named.then(|| names::shorten(&known.name, NAME))
}
