//! The timed pass's samples, each with its function, its thread's activity and the other threads.

use std::collections::{BTreeMap, HashMap};

use super::attributed::{Activity, AttributedSample, Entry, NONE, Peers};
use super::code_map::{CodeMap, FunctionId};
use super::lookers::Lookers;
use super::loops::LoopNest;
use super::modules::{Pass, Place};
use super::timeline;
use super::waiting::{self, Wait};
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::timed::{OnCpu, TimedEvidence};
use rprof_profile::mpi_name;

/// All samples on a CPU.
#[derive(Debug, Default)]
pub struct Sampled<'e> {
    /// In time order.
    pub samples: Vec<AttributedSample>,
    /// The distinct call stacks, leaf first; profiles have far fewer of them than samples.
    pub stacks: Vec<&'e [CodeRef]>,
    /// The places that called the leaf's function, and that one's, and so on, up to [`waiting::FRAMES`]; for each of `stacks`.
    callers: Vec<Vec<(FunctionId, Place)>>,
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
        let mut entries: HashMap<u32, Entry> = HashMap::new();
        let mut named_waits = Vec::new();
        for sample in timed.samples.iter().filter(|s| !s.off_cpu) {
            let stack = *known.entry(&sample.stack).or_insert_with(|| {
                sampled.stacks.push(&sample.stack);
                named_waits.push(named_wait(&sample.stack, code));
                sampled.stacks.len() as u32 - 1
            });
            let place = sample.stack.first().and_then(|leaf| code.place(Pass::Timed, *leaf));
            let function = match place {
                Some(place) => code.function(place),
                None => code.stand_in(if sample.kernel { "[kernel]" } else { "[unknown]" }),
            };
            let activity = if sample.kernel {
                Activity::Kernel(*entries.entry(stack).or_insert_with(|| entry(&sample.stack, code)))
            } else {
                named_waits[stack as usize].map_or(Activity::Work, Activity::Waiting)
            };
            sampled.samples.push(AttributedSample {
                t_s: sample.t_s,
                weight_s: sample.weight_s,
                thread: sample.thread,
                cpu: sample.cpu,
                path: sample.path,
                stack,
                function,
                place,
                innermost: NONE,
                activity,
                peers: Peers::ALONE,
            });
        }
        sampled.samples.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        let mut callers = |stack: &&[CodeRef]| {
            let places = stack.iter().skip(1).take(waiting::FRAMES).map_while(|call| code.place(Pass::Timed, *call));
            places.collect::<Vec<_>>().into_iter().map(|place| (code.function(place), place)).collect()
        };
        sampled.callers = sampled.stacks.iter().map(&mut callers).collect();
        sampled
    }

    /// CPU seconds by function, waiting and kernel included.
    pub fn seconds_by_function(&self) -> HashMap<FunctionId, f64> {
        let mut seconds = HashMap::new();
        for sample in &self.samples {
            *seconds.entry(sample.function).or_default() += sample.weight_s;
        }
        seconds
    }

    /// Offsets of the samples in each function, those in the kernel left out.
    pub fn offsets_by_function(&self) -> HashMap<FunctionId, Vec<u64>> {
        let mut offsets: HashMap<FunctionId, Vec<u64>> = HashMap::new();
        for sample in self.samples.iter().filter(|s| !matches!(s.activity, Activity::Kernel(_))) {
            if let Some(place) = sample.place {
                offsets.entry(sample.function).or_default().push(place.offset);
            }
        }
        offsets
    }

    /// Finds the loop of every sample, whether it waits there, and the peers of every sample.
    pub fn find_loops_and_peers(
        &mut self,
        nests: &HashMap<FunctionId, LoopNest>,
        loops: &LoopNumbers,
        on_cpu: &[OnCpu],
        code: &mut CodeMap,
    ) {
        let mut lookers = Lookers::default();
        let mut samples = std::mem::take(&mut self.samples);
        for sample in &mut samples {
            let Some((nest, place)) = nests.get(&sample.function).zip(sample.place) else { continue };
            sample.innermost = nest.loop_at(place.offset).map_or(NONE, |l| loops.number(sample.function, l));
            let mut is_called = || {
                let mut looks = |function| lookers.looks(function, code);
                looks(sample.function) && self.is_called_by_a_wait(sample.stack, nests, looks)
            };
            if sample.works() && (nest.waits_at(place.offset) || is_called()) {
                sample.activity = Activity::Waiting(Wait::Barrier);
            }
        }
        timeline::find_peers(&mut samples, on_cpu);
        self.samples = samples;
    }

    /// Whether the leaf's function was called by a loop that waits, perhaps by way of others that only look something up: `looks`.
    fn is_called_by_a_wait(
        &self,
        stack: u32,
        nests: &HashMap<FunctionId, LoopNest>,
        mut looks: impl FnMut(FunctionId) -> bool,
    ) -> bool {
        for &(function, place) in &self.callers[stack as usize] {
            if nests.get(&function).is_some_and(|nest| nest.waits_at(place.offset)) {
                return true;
            }
            if !looks(function) {
                return false;
            }
        }
        false
    }

    /// CPU seconds in calls of MPI, kernel included, by the place of the call.
    pub fn in_mpi(&self, code: &mut CodeMap) -> BTreeMap<Place, InMpi> {
        let calls: Vec<Option<(Place, String)>> = self.stacks.iter().map(|stack| outermost_call(stack, code)).collect();
        let mut sums: BTreeMap<Place, InMpi> = BTreeMap::new();
        for sample in &self.samples {
            let Some((place, call)) = &calls[sample.stack as usize] else { continue };
            let sum = sums.entry(*place).or_insert_with(|| InMpi { call: call.clone(), ..InMpi::default() });
            (sum.seconds, sum.samples) = (sum.seconds + sample.weight_s, sum.samples + 1);
        }
        sums
    }

    /// CPU seconds at work in a function and all that it called; recursion counts once.
    pub fn inclusive(&self, code: &mut CodeMap) -> HashMap<FunctionId, f64> {
        let mut by_stack = vec![0.0; self.stacks.len()];
        for sample in self.samples.iter().filter(|s| s.works()) {
            by_stack[sample.stack as usize] += sample.weight_s;
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

/// CPU seconds in the calls of one site.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InMpi {
    /// The function of MPI.
    pub call: String,
    /// Seconds.
    pub seconds: f64,
    /// Samples.
    pub samples: u32,
}

/// The outermost call of MPI on `stack`, which is the program's own: its place, and the function. `None`: there is none, or its caller
/// is not known.
fn outermost_call(stack: &[CodeRef], code: &mut CodeMap) -> Option<(Place, String)> {
    let places: Vec<Option<Place>> = stack.iter().map(|call| code.place(Pass::Timed, *call)).collect();
    (1..places.len()).rev().find_map(|caller| {
        let function = code.function(places[caller - 1]?);
        let call = mpi_name::of_symbol(&code.known(function).name)?;
        Some((places[caller]?, call))
    })
}

/// How the thread entered the kernel at the leaf of `stack`: a `syscall` (0f 05) continues after itself, a fault at itself.
fn entry(stack: &[CodeRef], code: &mut CodeMap) -> Entry {
    let leaf = stack.first().and_then(|leaf| code.place(Pass::Timed, *leaf));
    let before = leaf.and_then(|at| Some((Place { offset: at.offset.checked_sub(2)?, ..at }, at.offset)));
    let bytes = before.and_then(|(from, end)| code.code(from, end));
    if bytes.as_deref() == Some(&[0x0f, 0x05]) { Entry::SystemCall } else { Entry::Fault }
}

/// The reason for waiting: a call of MPI anywhere on the stack, a thread that MPI's library began, or else the frames next to the leaf, of
/// which the outermost is the most reliable.
fn named_wait(stack: &[CodeRef], code: &mut CodeMap) -> Option<Wait> {
    let places = stack.iter().filter_map(|call| code.place(Pass::Timed, *call)).collect::<Vec<_>>();
    let functions: Vec<FunctionId> = places.into_iter().map(|place| code.function(place)).collect();
    let in_mpi = functions.iter().any(|f| mpi_name::of_symbol(&code.known(*f).name).is_some());
    let mut modules = functions.iter().rev().map(|f| &*code.known(*f).module);
    let began = modules.find(|module| !begins_threads(module));
    if in_mpi || began.is_some_and(mpi_name::is_library) {
        return Some(Wait::Ranks);
    }
    functions.iter().take(waiting::FRAMES).rev().find_map(|f| waiting::by_name(&code.known(*f).name))
}

/// Whether `module` is the C library: every thread begins in its code.
fn begins_threads(module: &str) -> bool {
    ["libc.so", "libc-", "libpthread"].iter().any(|name| module.starts_with(name))
}

/// How often the samples of one thread entered each function and each loop (work only): (by function, by loop).
pub fn runs(samples: &[AttributedSample], functions: usize, loops: usize) -> (Vec<u64>, Vec<u64>) {
    let mut by_function = vec![0; functions];
    let mut by_loop = vec![0; loops];
    let mut previous: HashMap<u32, (u32, u32)> = HashMap::new();
    for sample in samples {
        let now = if sample.works() { (sample.function, sample.innermost) } else { (NONE, NONE) };
        let before = previous.insert(sample.thread, now).unwrap_or((NONE, NONE));
        if now.0 != before.0 && now.0 != NONE {
            by_function[now.0 as usize] += 1;
        }
        if now.1 != before.1 && now.1 != NONE {
            by_loop[now.1 as usize] += 1;
        }
    }
    (by_function, by_loop)
}
