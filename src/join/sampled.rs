//! The timed pass's samples, each with its function and its thread's activity.

use std::collections::HashMap;

use super::code_map::{CodeMap, FunctionId};
use super::modules::{Pass, Place};
use super::shape::Shape;
use super::timeline::{Activity, Entry, Moment, NONE};
use super::waiting::{self, Wait};
use crate::profile::code::CodeRef;
use crate::profile::evidence::timed::{Sample, TimedEvidence};

/// A sample on a CPU with its leaf.
#[derive(Debug)]
pub struct Leaf<'e> {
    /// The evidence.
    pub sample: &'e Sample,
    /// Index into [`Sampled::stacks`].
    pub stack: u32,
    /// Function of the sampled instruction; a stand-in if the sample has no stack.
    pub function: FunctionId,
    /// The sampled instruction.
    pub place: Option<Place>,
}

/// All samples on a CPU.
#[derive(Debug, Default)]
pub struct Sampled<'e> {
    /// In time order.
    pub leaves: Vec<Leaf<'e>>,
    /// The distinct call stacks, leaf first; profiles have far fewer of them than samples.
    pub stacks: Vec<&'e [CodeRef]>,
    /// The reason for waiting that a frame next to the leaf implies by its name; for each of `stacks`.
    named_waits: Vec<Option<Wait>>,
    /// The place that called the leaf's function; for each of `stacks`.
    callers: Vec<Option<(FunctionId, Place)>>,
    /// How the thread entered the kernel; for each of `stacks` with a sample in the kernel.
    entries: Vec<Option<Entry>>,
}

/// Loops of the whole program: each function's loops follow one another from its base on.
#[derive(Debug, Default)]
pub struct LoopNumbers {
    bases: HashMap<FunctionId, u32>,
    next: u32,
}

impl LoopNumbers {
    /// Numbers the loops of `function`.
    pub fn add(&mut self, function: FunctionId, loops: usize) {
        self.bases.insert(function, self.next);
        self.next += loops as u32;
    }

    /// Program-wide number of loop `index` of `function`.
    pub fn number(&self, function: FunctionId, index: u32) -> u32 {
        self.bases.get(&function).map_or(NONE, |base| base + index)
    }

    /// How many loops there are.
    pub fn count(&self) -> usize {
        self.next as usize
    }
}

impl<'e> Sampled<'e> {
    /// Finds the function of every sample. Samples of blocked threads are left out: they took no CPU time.
    pub fn new(timed: &'e TimedEvidence, code: &mut CodeMap) -> Self {
        let mut sampled = Sampled::default();
        let mut known: HashMap<&[CodeRef], u32> = HashMap::new();
        for sample in timed.samples.iter().filter(|s| !s.off_cpu) {
            let stack = *known.entry(&sample.stack).or_insert_with(|| {
                sampled.stacks.push(&sample.stack);
                sampled.stacks.len() as u32 - 1
            });
            let place = sample.stack.first().and_then(|leaf| code.place(Pass::Timed, *leaf));
            let function = match place {
                Some(place) => code.function(place),
                None => code.stand_in(if sample.kernel { "[kernel]" } else { "[unknown]" }),
            };
            sampled.leaves.push(Leaf { sample, stack, function, place });
        }
        sampled.leaves.sort_by(|a, b| a.sample.t_s.total_cmp(&b.sample.t_s));
        let mut in_kernel = vec![false; sampled.stacks.len()];
        sampled.leaves.iter().filter(|l| l.sample.kernel).for_each(|l| in_kernel[l.stack as usize] = true);
        let entry = |(stack, kernel): (&&[CodeRef], &bool)| kernel.then(|| entry(stack, code));
        sampled.entries = sampled.stacks.iter().zip(&in_kernel).map(entry).collect();
        let caller = |stack: &&[CodeRef]| {
            let place = code.place(Pass::Timed, *stack.get(1)?)?;
            Some((code.function(place), place))
        };
        sampled.callers = sampled.stacks.iter().map(caller).collect();
        sampled.named_waits = sampled.stacks.iter().map(|stack| named_wait(stack, code)).collect();
        sampled
    }

    /// CPU seconds by function, waiting and kernel included.
    pub fn seconds_by_function(&self) -> HashMap<FunctionId, f64> {
        let mut seconds = HashMap::new();
        for leaf in &self.leaves {
            *seconds.entry(leaf.function).or_default() += leaf.sample.weight_s;
        }
        seconds
    }

    /// The activity of every sample's thread, in the order of [`leaves`](Self::leaves).
    pub fn moments(&self, shapes: &HashMap<FunctionId, Shape>, loops: &LoopNumbers) -> Vec<Moment> {
        let moment = |leaf: &Leaf| {
            let shape = shapes.get(&leaf.function).zip(leaf.place);
            let in_loop = shape.and_then(|(shape, place)| shape.loop_at(place.offset));
            let spins = shape.is_some_and(|(shape, place)| {
                let called = || shape.only_looks() && self.called_by_a_wait(leaf.stack, shapes);
                shape.waits_at(place.offset) || called()
            });
            let activity = match (leaf.sample.kernel, self.named_waits[leaf.stack as usize]) {
                (true, _) => Activity::Kernel(self.entries[leaf.stack as usize].unwrap_or(Entry::SystemCall)),
                (false, Some(wait)) => Activity::Waiting(wait),
                (false, None) if spins => Activity::Waiting(Wait::Barrier),
                (false, None) => Activity::Work,
            };
            Moment {
                t_s: leaf.sample.t_s,
                weight_s: leaf.sample.weight_s,
                thread: leaf.sample.thread,
                cpu: leaf.sample.cpu,
                function: leaf.function,
                innermost: in_loop.map_or(NONE, |l| loops.number(leaf.function, l)),
                activity,
            }
        };
        self.leaves.iter().map(moment).collect()
    }

    /// Whether the leaf's function was called by a loop that waits.
    fn called_by_a_wait(&self, stack: u32, shapes: &HashMap<FunctionId, Shape>) -> bool {
        let caller = self.callers[stack as usize];
        caller.is_some_and(|(function, place)| shapes.get(&function).is_some_and(|s| s.waits_at(place.offset)))
    }

    /// CPU seconds at work in a function and all that it called; recursion counts once.
    pub fn inclusive(&self, moments: &[Moment], code: &mut CodeMap) -> HashMap<FunctionId, f64> {
        let mut by_stack = vec![0.0; self.stacks.len()];
        for (leaf, moment) in self.leaves.iter().zip(moments).filter(|(_, m)| m.activity == Activity::Work) {
            by_stack[leaf.stack as usize] += moment.weight_s;
        }
        let mut seconds = HashMap::new();
        for (stack, weight_s) in self.stacks.iter().zip(by_stack).filter(|(_, w)| *w > 0.0) {
            let places = stack.iter().filter_map(|call| code.place(Pass::Timed, *call)).collect::<Vec<_>>();
            let mut functions: Vec<FunctionId> = places.into_iter().map(|place| code.function(place)).collect();
            functions.sort_unstable();
            functions.dedup();
            for function in functions {
                *seconds.entry(function).or_default() += weight_s;
            }
        }
        seconds
    }
}

/// How the thread entered the kernel at the leaf of `stack`: a `syscall` (0f 05) continues after itself, a fault at itself.
fn entry(stack: &[CodeRef], code: &mut CodeMap) -> Entry {
    let leaf = stack.first().and_then(|leaf| code.place(Pass::Timed, *leaf));
    let before = leaf.and_then(|at| Some((Place { offset: at.offset.checked_sub(2)?, ..at }, at.offset)));
    let bytes = before.and_then(|(from, end)| code.code(from, end));
    if bytes.as_deref() == Some(&[0x0f, 0x05]) { Entry::SystemCall } else { Entry::Fault }
}

/// The reason for waiting: a call of MPI anywhere on the stack, or else the frames next to the leaf, of which the outermost is the most
/// reliable.
fn named_wait(stack: &[CodeRef], code: &mut CodeMap) -> Option<Wait> {
    let places = stack.iter().filter_map(|call| code.place(Pass::Timed, *call)).collect::<Vec<_>>();
    let in_mpi = places.into_iter().any(|place| {
        let function = code.function(place);
        waiting::is_mpi(&code.known(function).name)
    });
    if in_mpi {
        return Some(Wait::Ranks);
    }
    let near = stack.iter().take(waiting::FRAMES).rev();
    let places = near.filter_map(|call| code.place(Pass::Timed, *call)).collect::<Vec<_>>();
    places.into_iter().find_map(|place| {
        let function = code.function(place);
        waiting::by_name(&code.known(function).name)
    })
}

/// How often the samples of one thread entered each function and each loop (work only): (by function, by loop).
pub fn runs(moments: &[Moment], functions: usize, loops: usize) -> (Vec<u64>, Vec<u64>) {
    let mut by_function = vec![0; functions];
    let mut by_loop = vec![0; loops];
    let mut previous: HashMap<u32, (u32, u32)> = HashMap::new();
    for moment in moments {
        let works = moment.activity == Activity::Work;
        let now = if works { (moment.function, moment.innermost) } else { (NONE, NONE) };
        let before = previous.insert(moment.thread, now).unwrap_or((NONE, NONE));
        if now.0 != before.0 && now.0 != NONE {
            by_function[now.0 as usize] += 1;
        }
        if now.1 != before.1 && now.1 != NONE {
            by_loop[now.1 as usize] += 1;
        }
    }
    (by_function, by_loop)
}
