//! The loops of a function: control flow from its code, the innermost loop of every address, waiting loops marked.

use std::collections::HashSet;

use iced_x86::{FlowControl, Instruction};

use super::blocks::{ExecutedBlocks, Span};
use super::code_map::{CodeMap, FunctionId};
use super::lookers::Lookers;
use super::modules::Place;
use super::static_code::{LARGEST, static_code};
use super::waiting;
use rprof_isa::control_flow;
use rprof_isa::x86_64::CodeGraph;

/// Samples in a loop below which they do not show its usual way.
const FEWEST_SAMPLES: usize = 20;

/// The usual way may leave out blocks with one part in this many of a loop's samples.
const LEFT_OUT: usize = 20;

/// A function's control flow.
#[derive(Debug, Default)]
pub struct LoopNest {
    /// Its instructions and basic blocks.
    pub graph: CodeGraph,
    /// Its natural loops, outer before inner.
    pub loops: Vec<NaturalLoop>,
    /// Innermost loop of each block.
    innermost: Vec<Option<u32>>,
}

/// A natural loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NaturalLoop {
    /// Offset of its header.
    pub header: u64,
    /// Indices of its blocks in reverse postorder, inner loops included.
    pub blocks: Vec<usize>,
    /// Blocks that jump back to the header.
    pub latches: Vec<usize>,
    /// The next outer loop.
    pub parent: Option<usize>,
    /// It holds no other loop.
    pub is_innermost: bool,
    /// It spins: waiting, not work.
    pub waits: bool,
}

impl LoopNest {
    /// Analyses `function`: the executed code or, if none was counted, all its code in the file, where the offsets of its `samples` show
    /// the usual way.
    pub fn of(function: FunctionId, code: &mut CodeMap, executed: Option<&ExecutedBlocks>, samples: &[u64]) -> Self {
        let entry = code.known(function).place.map_or(0, |p| p.offset);
        match executed.map(|e| (e, e.of(function))) {
            Some((executed, spans)) if !spans.is_empty() => {
                let runs: Vec<(u64, &[u8])> = spans.iter().map(|span| executed.bytes(*span)).collect();
                if runs.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>() > LARGEST {
                    return LoopNest::default();
                }
                let executions = |at: u64| {
                    let at_it = |span: &&Span| executed.instructions(**span).iter().any(|i| i.ip() == at);
                    spans.iter().filter(at_it).map(|span| executed.blocks[span.block as usize].executions).sum()
                };
                let mut nest = Self::new(CodeGraph::new(runs), entry);
                nest.mark_polls_with_calls(function, code);
                if !code.is_alone {
                    nest.mark_spins(|graph, own| busiest(graph, own, executions));
                }
                let yields = nest.yielding_calls(function, code);
                nest.mark_spins_with_calls(|graph, l, own| most_rounds(graph, l, own, executions), &yields);
                nest
            }
            _ => {
                let runs = static_code(function, code);
                let graph = CodeGraph::new(runs.iter().map(|(start, bytes)| (*start, bytes.as_slice())));
                let mut nest = Self::new(graph, entry);
                nest.mark_polls_with_calls(function, code);
                if !code.is_alone {
                    nest.mark_spins(|graph, own| most_time(graph, own, samples));
                }
                let yields = nest.yielding_calls(function, code);
                nest.mark_spins_with_calls(|graph, _, own| most_time(graph, own, samples), &yields);
                nest
            }
        }
    }

    /// Finds the loops of `graph`; `entry` is the start of the function.
    pub fn new(graph: CodeGraph, entry: u64) -> Self {
        let found = control_flow::loops(&graph.blocks, entry);
        let mut innermost = vec![None; graph.blocks.len()];
        for (i, l) in found.iter().enumerate() {
            l.blocks.iter().for_each(|b| innermost[*b] = Some(i as u32));
        }
        let instructions = |blocks: &[usize]| -> Vec<&Instruction> {
            blocks.iter().flat_map(|b| graph.block_instructions(*b)).collect()
        };
        let loops = found
            .iter()
            .enumerate()
            .map(|(i, l)| NaturalLoop {
                header: graph.blocks[l.header].start,
                blocks: l.blocks.clone(),
                latches: l.latches.clone(),
                parent: l.parent,
                is_innermost: !found.iter().any(|other| other.parent == Some(i)),
                waits: waiting::spins(instructions(&l.blocks).into_iter()),
            })
            .collect();
        let mut nest = LoopNest { graph, loops, innermost };
        nest.mark_polls_with_delays();
        nest
    }

    /// The last jump back of a loop.
    pub fn latch(&self, l: &NaturalLoop) -> Option<u64> {
        let ends = l.latches.iter().filter_map(|block| self.graph.block_instructions(*block).last());
        ends.map(Instruction::ip).max()
    }

    /// Marks the loops that only poll on their usual way, and wait for another thread there: over those of a loop's own blocks, without inner loops, that `usual` keeps.
    fn mark_spins(&mut self, usual: impl Fn(&CodeGraph, &[usize]) -> Vec<usize>) {
        for i in 0..self.loops.len() {
            if !self.loops[i].waits {
                let usual = usual(&self.graph, &self.own_blocks(i));
                self.loops[i].waits = waiting::spins(usual.iter().flat_map(|b| self.graph.block_instructions(*b)));
            }
        }
    }

    /// The blocks of a loop that are in no inner one.
    fn own_blocks(&self, l: usize) -> Vec<usize> {
        self.loops[l].blocks.iter().copied().filter(|b| self.innermost[*b] == Some(l as u32)).collect()
    }

    /// Marks loops that only poll, but for loops in them that only let time pass; and these.
    fn mark_polls_with_delays(&mut self) {
        let mut inner: Vec<Vec<usize>> = vec![Vec::new(); self.loops.len()];
        for (i, l) in self.loops.iter().enumerate() {
            l.parent.into_iter().for_each(|parent| inner[parent].push(i));
        }
        for (i, inner) in inner.into_iter().enumerate().filter(|(_, inner)| !inner.is_empty()) {
            let of = |blocks: Vec<usize>| blocks.into_iter().flat_map(|b| self.graph.block_instructions(b));
            let delays = |l: &usize| self.loops[*l].is_innermost && waiting::only_counts(of(self.own_blocks(*l)));
            if inner.iter().all(delays) && waiting::spins(of(self.own_blocks(i))) {
                inner.into_iter().chain([i]).for_each(|l| self.loops[l].waits = true);
            }
        }
    }

    /// Marks loops of `function` that only poll, also by functions that only look something up.
    fn mark_polls_with_calls(&mut self, function: FunctionId, code: &mut CodeMap) {
        let Some(module) = code.known(function).place.map(|p| p.module) else { return };
        let mut lookers = Lookers::default();
        for l in self.loops.iter_mut().filter(|l| !l.waits) {
            let of_loop = || l.blocks.iter().flat_map(|b| self.graph.block_instructions(*b));
            // Most loops: called functions are not examined.
            if !waiting::polls_with_calls(of_loop(), |_| true) {
                continue;
            }
            let looking = of_loop().filter(|i| lookers.is_call(i, module, code)).map(Instruction::ip);
            let looking: HashSet<u64> = looking.collect();
            l.waits = waiting::polls_with_calls(of_loop(), |i| looking.contains(&i.ip()));
        }
    }

    /// The calls in loops of `function` that give the CPU away.
    fn yielding_calls(&self, function: FunctionId, code: &mut CodeMap) -> HashSet<u64> {
        let Some(module) = code.known(function).place.map(|p| p.module) else { return HashSet::new() };
        let mut yields = |i: &Instruction| {
            let place =
                (i.flow_control() == FlowControl::Call).then(|| Place { module, offset: i.near_branch_target() });
            place.is_some_and(|place| {
                let called = code.function(place);
                waiting::yields(&code.known(called).name)
            })
        };
        let calls = self.loops.iter().flat_map(|l| &l.blocks).flat_map(|b| self.graph.block_instructions(*b));
        calls.filter(|i| yields(i)).map(Instruction::ip).collect()
    }

    /// Marks the loops that spin on their usual way: over those of a loop's own blocks, without inner loops, that `usual` keeps.
    /// `yields`: the calls that give the CPU away.
    fn mark_spins_with_calls(
        &mut self,
        usual: impl Fn(&CodeGraph, &NaturalLoop, &[usize]) -> Vec<usize>,
        yields: &HashSet<u64>,
    ) {
        for i in 0..self.loops.len() {
            if self.loops[i].waits {
                continue;
            }
            let own = self.own_blocks(i);
            let gives_way = |i: &Instruction| waiting::pauses(i) || yields.contains(&i.ip());
            let pauses = |b: &&usize| self.graph.block_instructions(**b).iter().any(gives_way);
            if !own.iter().any(|b| pauses(&b)) {
                continue; // most loops
            }
            let usual = usual(&self.graph, &self.loops[i], &own);
            let usual_way = usual.iter().flat_map(|b| self.graph.block_instructions(*b));
            let waits = waiting::spins_with_calls(usual_way, |i| yields.contains(&i.ip()));
            self.loops[i].waits = waits;
        }
    }

    /// The innermost loop that holds `offset`.
    pub fn loop_at(&self, offset: u64) -> Option<u32> {
        let index = self.graph.blocks.partition_point(|b| b.start <= offset).checked_sub(1)?;
        (offset < self.graph.blocks[index].end).then_some(())?;
        self.innermost[index]
    }

    /// Whether the code at `offset` spins.
    pub fn waits_at(&self, offset: u64) -> bool {
        self.loop_at(offset).is_some_and(|l| self.loops[l as usize].waits)
    }
}

/// Those of a loop's blocks `own` that most of its rounds execute.
fn most_rounds(graph: &CodeGraph, l: &NaturalLoop, own: &[usize], executions: impl Fn(u64) -> u64) -> Vec<usize> {
    let rounds = executions(l.header);
    own.iter().copied().filter(|b| 2 * executions(graph.blocks[*b].start) > rounds).collect()
}

/// Those of a loop's blocks `own` that are executed at least half as often as any of them. A spin loop that control enters at two places is
/// no natural loop: its blocks are executed more often than the header of the loop around it.
fn busiest(graph: &CodeGraph, own: &[usize], executions: impl Fn(u64) -> u64) -> Vec<usize> {
    let times = |b: &usize| executions(graph.blocks[*b].start);
    let most = own.iter().map(times).max().unwrap_or(0);
    own.iter().copied().filter(|b| 2 * times(b) > most).collect()
}

/// Those of a loop's blocks `own` that it spends nearly all its time in, by the places of `samples`; none if these are too few to
/// say.
fn most_time(graph: &CodeGraph, own: &[usize], samples: &[u64]) -> Vec<usize> {
    let inside =
        |b: usize| samples.iter().filter(|at| (graph.blocks[b].start..graph.blocks[b].end).contains(at)).count();
    let mut blocks: Vec<(usize, usize)> = own.iter().map(|b| (inside(*b), *b)).collect();
    blocks.sort_unstable();
    let all: usize = blocks.iter().map(|(samples, _)| samples).sum();
    if all < FEWEST_SAMPLES {
        return Vec::new();
    }
    let mut left_out = 0;
    let kept = blocks.into_iter().skip_while(|(samples, _)| {
        left_out += samples;
        LEFT_OUT * left_out <= all
    });
    let mut kept: Vec<usize> = kept.map(|(_, b)| b).collect();
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::super::static_code::without_padding;
    use super::*;

    #[test]
    fn padding_is_no_way_into_a_loop() {
        // 0: jmp 8; 2: nopl (6 bytes); 8: jmp f; a: nopl (5 bytes, at a, behind a jump); f: pause; 11: dec eax; 13: jne f; 15: ret
        let bytes = [
            0xeb, 0x06, 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xeb, 0x05, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xf3, 0x90, 0xff,
            0xc8, 0x75, 0xfa, 0xc3,
        ];
        let runs = without_padding(0x1000, &bytes);
        let starts: Vec<u64> = runs.iter().map(|(at, _)| *at).collect();
        assert_eq!(starts, [0x1000, 0x1008, 0x100f]);
        let graph = CodeGraph::new(runs.iter().map(|(at, run)| (*at, run.as_slice())));
        let nest = LoopNest::new(graph, 0x1000);
        assert!(nest.waits_at(0x1011) && !nest.waits_at(0x1015));
    }

    #[test]
    fn a_spin_loop_with_two_entries_is_no_natural_loop() {
        // 0: rdtsc; 2: mov ecx,eax; 4: mov rax,[rdi]; 7: test rax,rax; a: je 14 (the second entry)
        // c: mov rax,[rdi]; f: cmp rax,2; 13: nop; 14: rdtsc; 16: sub eax,ecx; 18: cmp eax,esi; 1a: jbe c; 1c: dec [rdx]; 1e: jne 0; 20: ret
        let bytes = [
            0x0f, 0x31, 0x89, 0xc1, 0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x74, 0x08, 0x48, 0x8b, 0x07, 0x48, 0x83, 0xf8,
            0x02, 0x90, 0x0f, 0x31, 0x29, 0xc8, 0x39, 0xf0, 0x76, 0xf0, 0xff, 0x0a, 0x75, 0xe0, 0xc3,
        ];
        let waits = |often: u64| {
            let mut nest = LoopNest::new(CodeGraph::new([(0x1000, &bytes[..])]), 0x1000);
            assert!(!nest.waits_at(0x1014));
            let executions = |at: u64| if (0x100c..0x101c).contains(&at) { often } else { 30 };
            nest.mark_spins(|graph, own| busiest(graph, own, executions));
            nest.waits_at(0x1014)
        };
        assert_eq!([waits(1000), waits(40)], [true, false]);
    }

    #[test]
    fn a_loop_that_polls_and_lets_time_pass_waits() {
        // 0: mov eax,50; 5: nop; 6: sub eax,1; 9: jne 5; b: cmp [rdi],esi; d: jl 0; f: ret
        let mut bytes = [0xb8, 50, 0, 0, 0, 0x90, 0x83, 0xe8, 0x01, 0x75, 0xfa, 0x39, 0x37, 0x7c, 0xf1, 0xc3];
        let waits = |bytes: &[u8]| {
            let nest = LoopNest::new(CodeGraph::new([(0x1000, bytes)]), 0x1000);
            [0x1006, 0x100b].map(|at| nest.waits_at(at))
        };
        assert_eq!(waits(&bytes), [true, true]);
        // add [rdi],esi instead of the comparison
        bytes[11] = 0x01;
        assert_eq!(waits(&bytes), [false, false]);
    }

    #[test]
    fn where_nothing_was_counted_samples_tell_the_usual_way() {
        // 0: pause; 2: cmp [rdi],eax; 4: jne b; 6: inc dword [rsi]; 8: nop; b: call 100; 10: test eax,eax, 33 times; 52: je 0; 54: ret
        let mut bytes =
            vec![0xf3, 0x90, 0x39, 0x07, 0x75, 0x05, 0xff, 0x06, 0x0f, 0x1f, 0x00, 0xe8, 0xf0, 0x00, 0x00, 0x00];
        bytes.extend([0x85, 0xc0].repeat(33));
        bytes.extend([0x74, 0xac, 0xc3]);
        let waits = |samples: &[u64]| {
            let samples: Vec<u64> = samples.iter().map(|at| 0x1000 + at).collect();
            let mut nest = LoopNest::new(CodeGraph::new([(0x1000, &bytes[..])]), 0x1000);
            nest.mark_spins_with_calls(|graph, _, own| most_time(graph, own, &samples), &HashSet::new());
            nest.waits_at(0x1002)
        };
        let spins = [vec![2; 60], vec![0x10; 60]].concat();
        assert!(waits(&spins));
        assert!(!waits(&spins[51..70]), "too few");
        assert!(waits(&[&spins[..], &[6; 6]].concat()), "what is rare is not the usual way");
        assert!(!waits(&[&spins[..], &[6; 20]].concat()), "it stores");
        assert!(!waits(&[0x10; 100]), "the pause is not on its usual way");
    }
}
