//! Assembles the facts of every function and its nest of loops from the evidence of all passes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::account::{self, FunctionReplay};
use super::attributed::{AttributedSample, NONE};
use super::blocks::ExecutedBlocks;
use super::certified;
use super::chains::{Chains, chains};
use super::clocks::Clocks;
use super::code_map::{CodeMap, FunctionId, KnownFunction};
use super::counts::{Counts, FunctionCounts};
use super::disassembly;
use super::facts::{self, Common, Estimated, Measured, MeasuredTraffic};
use super::hardware::{Hardware, time_shares};
use super::intervals::Intervals;
use super::loops::LoopNest;
use super::modules::Place;
use super::prefetch;
use super::sampled::{InMpi, LoopNumbers, Sampled, runs};
use super::shown_names::ShownNames;
use super::source_lines::{AtInstruction, by_line};
use super::system::SystemTime;
use super::time::{Elapsed, Scope, UNSAMPLED};
use super::traffic::FunctionTraffic;
use super::warnings;
use super::{Evidence, counted_threads, thread_infos};
use rprof_profile::account::Account;
use rprof_profile::counters::Counter;
use rprof_profile::evidence::counted::Missing;
use rprof_profile::evidence::timed::TimedEvidence;
use rprof_profile::function::Function;
use rprof_profile::machine::Machine;
use rprof_profile::prefetch::Prefetch;
use rprof_profile::run::Warning;

/// Functions with at least this share of the samples or of the instructions get loops, lines and inline frames.
const HOT: f64 = 5e-4;
/// From this share of the counted pass on that ran natively, counts of memory that can be written say nothing.
const MOSTLY_NATIVE: f64 = 0.5;

/// The evidence, divided among functions.
pub struct Joined<'e> {
    /// Samples with their functions.
    pub sampled: Option<Sampled<'e>>,
    evidence: &'e Evidence<'e>,
    /// The executed blocks.
    pub executed: Option<ExecutedBlocks<'e>>,
    /// The memory model's traffic.
    pub traffic: Option<HashMap<FunctionId, FunctionTraffic>>,
    nests: HashMap<FunctionId, LoopNest>,
    loop_numbers: LoopNumbers,
    /// Indices of each function's samples.
    samples_of: HashMap<FunctionId, Vec<u32>>,
    /// Replayed instructions of bursts by function.
    pub replayed: HashMap<FunctionId, FunctionReplay<'e>>,
    usual_clock_hz: Option<f64>,
    /// System calls and waiting.
    pub system: SystemTime,
    /// Hardware counters by function.
    pub hardware: Option<Hardware<'e>>,
    of_functions: HashMap<FunctionId, Elapsed>,
    of_loops: Vec<Elapsed>,
    /// Numbers of the loops that are disassembled.
    hot_loops: HashSet<u32>,
    inclusive: HashMap<FunctionId, f64>,
    /// CPU seconds in calls of MPI, by the place of the call.
    pub in_mpi: BTreeMap<Place, InMpi>,
    /// How well counts that were extended from windows are known; `None`: all was counted.
    intervals: Option<Intervals>,
    common: Common,
    fastest: f64,
    /// CPU seconds of the program that no sample met.
    missed_s: f64,
    /// The clocks of the CPUs.
    pub clocks: Clocks,
    names: &'e ShownNames,
}

/// The result of the join.
pub struct Outcome {
    /// By descending CPU time.
    pub functions: Vec<Function>,
    /// Hardware counters of the program.
    pub counters: Vec<Counter>,
    /// Doubts about them.
    pub warnings: Vec<Warning>,
    /// Share of the CPU time that is attributed to named functions with both time and counts.
    pub quality: Option<f64>,
}

/// Inputs for one function while its facts are assembled.
struct Context<'c> {
    id: FunctionId,
    counts: Result<&'c FunctionCounts, String>,
    chains: Chains,
}

impl<'e> Joined<'e> {
    /// Finds the loops of hot functions and sums up times.
    pub fn new(
        evidence: &'e Evidence<'e>,
        machine: &Machine,
        sampled: Option<Sampled<'e>>,
        executed: Option<ExecutedBlocks<'e>>,
        traffic: Option<HashMap<FunctionId, FunctionTraffic>>,
        names: &'e ShownNames,
        code: &mut CodeMap,
    ) -> Self {
        let mut joined = Joined {
            sampled,
            evidence,
            executed,
            traffic,
            nests: HashMap::new(),
            loop_numbers: LoopNumbers::default(),
            samples_of: HashMap::new(),
            replayed: HashMap::new(),
            usual_clock_hz: account::usual_clock(machine),
            system: SystemTime::default(),
            hardware: None,
            of_functions: HashMap::new(),
            of_loops: Vec::new(),
            hot_loops: HashSet::new(),
            inclusive: HashMap::new(),
            in_mpi: BTreeMap::new(),
            intervals: evidence.counted.and_then(|counted| counted.estimate.as_ref()).map(Intervals::of),
            common: Common {
                counted_threads: counted_threads(evidence),
                processes: thread_infos(evidence).iter().map(|t| t.pid).collect(),
                allowed_cpus: thread_infos(evidence).iter().map(|t| t.allowed_cpus).collect(),
                uncounted_share: evidence.counted.map_or(0.0, |c| c.uncounted_share),
                missing: evidence.counted.map_or(Missing::default(), |c| c.missing),
                total_cpu_s: 0.0,
                too_few_faults: false,
            },
            fastest: warnings::fastest_rate(machine),
            missed_s: 0.0,
            clocks: evidence.timed.map(Clocks::of).unwrap_or_default(),
            names,
        };
        let places = joined.sampled.as_ref().map(Sampled::offsets_by_function).unwrap_or_default();
        for function in joined.hot() {
            let samples = places.get(&function).map_or(&[][..], Vec::as_slice);
            let nest = LoopNest::of(function, code, joined.executed.as_ref(), samples);
            joined.loop_numbers.add(function, nest.loops.len());
            joined.nests.insert(function, nest);
        }
        joined.sum_times(code);
        let (nests, executed) = (&joined.nests, joined.executed.as_ref());
        joined.hot_loops = disassembly::hot_loops(nests, &joined.loop_numbers, &joined.of_loops, executed);
        joined
    }

    /// Adds system calls and waiting.
    pub fn add_system(&mut self, machine: &Machine, code: &mut CodeMap) {
        let passes = (self.executed.as_ref(), self.sampled.as_ref());
        self.system = SystemTime::new(self.evidence, machine, passes, code);
        let faults = self.system.program.as_ref().and_then(|system| system.faults);
        self.common.too_few_faults = faults.is_some_and(|faults| faults.are_too_few());
    }

    /// All functions by descending CPU time, and the figures that follow from them.
    pub fn functions(&self, code: &mut CodeMap) -> Outcome {
        let mut functions = Vec::new();
        let mut attributed = 0.0;
        let mut disagreeing: Vec<(f64, String)> = Vec::new();
        let mut uncounted_dynamic = 0;
        let seconds = self.sampled.as_ref().map(Sampled::seconds_by_function).unwrap_or_default();
        let time_shares = time_shares(&seconds);
        for id in self.ids(code) {
            let counts = self.executed.as_ref().and_then(|executed| {
                let spans = executed.of(id);
                (!spans.is_empty()).then(|| FunctionCounts::of(spans, executed, self.nests.get(&id)))
            });
            uncounted_dynamic += counts.as_ref().map_or(0, |c| c.whole.uncounted_dynamic);
            let has_code = self.executed.is_some() && code.known(id).place.is_some();
            let may_differ = has_code && !self.ran_natively(code.known(id), counts.is_some());
            let counts = self.trusted(id, counts.as_ref(), code.known(id));
            let mut function = self.function(id, counts.clone(), code);
            if let Some(hardware) = &self.hardware {
                let counted = function.flops.map(|f| f.total as f64);
                let share = time_shares.get(&id).copied();
                function.counters = hardware.of_function(id, share, counted);
                certified::fill(&mut function, hardware, id, share);
            }
            let two_runs = self.evidence.counted.is_some_and(|counted| counted.estimate.is_none());
            if let (Err(_), true, true, Some(cpu_s)) = (&counts, may_differ, two_runs, function.cpu_s) {
                disagreeing.push((cpu_s, function.name.clone()));
            }
            if code.known(id).named && (function.instructions.is_some() || function.flops.is_some()) {
                attributed += function.cpu_s.unwrap_or(0.0);
            }
            functions.push(function);
        }
        functions.sort_by(|a, b| {
            let key = |f: &Function| (f.cpu_s.unwrap_or(0.0), f.instructions.unwrap_or(0));
            key(b).0.total_cmp(&key(a).0).then(key(b).1.cmp(&key(a).1)).then_with(|| a.name.cmp(&b.name))
        });
        disagreeing.sort_by(|a, b| b.0.total_cmp(&a.0));
        let grave = disagreeing.into_iter().filter(|(cpu_s, _)| *cpu_s >= 0.01 * self.common.total_cpu_s);
        let grave: Vec<String> = grave.map(|(_, name)| name).collect();
        let total = self.common.total_cpu_s;
        let counted =
            self.executed.as_ref().map(|_| functions.iter().filter_map(|f| f.flops).map(|f| f.total as f64).sum());
        let counters = self.hardware.as_ref().map(|h| h.of_program(counted)).unwrap_or_default();
        let mut warnings = self.doubts(&grave, uncounted_dynamic);
        warnings.extend(warnings::about_counters(&counters, self.common.uncounted_share));
        Outcome { counters, functions, warnings, quality: (total > 0.0).then(|| attributed / total) }
    }

    fn doubts(&self, disagreeing: &[String], uncounted_dynamic: u64) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let Some(timed) = self.evidence.timed {
            let samples = self.samples();
            let sampled_s = samples.iter().map(|s| s.weight_s).sum();
            warnings.extend(warnings::about_time(timed, samples.len(), sampled_s));
            if let Some(counted) = self.evidence.counted {
                warnings.extend(warnings::about_both(timed, counted, disagreeing));
            }
        }
        if let Some((counted, executed)) = self.evidence.counted.zip(self.executed.as_ref()) {
            warnings.extend(warnings::about_counts(counted, executed.undecoded, uncounted_dynamic));
        }
        warnings
    }

    /// Every function with evidence.
    fn ids(&self, code: &mut CodeMap) -> BTreeSet<FunctionId> {
        let executed = self.executed.iter().flat_map(|e| e.spans.keys());
        let counted = self.hardware.iter().flat_map(Hardware::functions).chain(self.system.waiting().copied());
        let callers: Vec<FunctionId> = self.in_mpi.keys().map(|place| code.function(*place)).collect();
        let sampled = self.of_functions.keys().chain(self.inclusive.keys()).chain(&callers);
        sampled.chain(executed).copied().chain(counted).collect()
    }

    fn hot(&self) -> BTreeSet<FunctionId> {
        let mut hot = BTreeSet::new();
        let seconds = self.sampled.as_ref().map(Sampled::seconds_by_function).unwrap_or_default();
        let total: f64 = seconds.values().sum();
        hot.extend(seconds.iter().filter(|(_, s)| **s >= HOT * total).map(|(id, _)| *id));
        if let Some(executed) = &self.executed {
            let of = |id: FunctionId| -> u64 {
                let spans = executed.of(id).iter();
                spans.map(|s| u64::from(s.last - s.first) * executed.blocks[s.block as usize].executions).sum()
            };
            let counts: Vec<(FunctionId, u64)> = executed.spans.keys().map(|id| (*id, of(*id))).collect();
            let total: u64 = counts.iter().map(|(_, n)| n).sum();
            hot.extend(counts.iter().filter(|(_, n)| *n as f64 >= HOT * total as f64).map(|(id, _)| *id));
        }
        hot
    }

    fn sum_times(&mut self, code: &mut CodeMap) {
        let (Some(sampled), Some(timed)) = (&mut self.sampled, self.evidence.timed) else { return };
        sampled.find_loops_and_peers(&self.nests, &self.loop_numbers, &timed.on_cpu, code);
        let samples = &sampled.samples;
        let (function_runs, loop_runs) = runs(samples, code.count(), self.loop_numbers.count());
        let mut by_loop: Vec<Vec<&AttributedSample>> = vec![Vec::new(); self.loop_numbers.count()];
        for (i, sample) in samples.iter().enumerate() {
            self.samples_of.entry(sample.function).or_default().push(i as u32);
            if sample.innermost != NONE {
                by_loop[sample.innermost as usize].push(sample);
            }
        }
        let of_function = |(id, indices): (&FunctionId, &Vec<u32>)| {
            let own: Vec<_> = indices.iter().map(|i| &samples[*i as usize]).collect();
            (*id, Elapsed::of(&own, Scope::Function, function_runs[*id as usize]))
        };
        self.of_functions = self.samples_of.iter().map(of_function).collect();
        let of_loop = |(own, runs): (&Vec<_>, u64)| Elapsed::of(own, Scope::Loop, runs);
        self.of_loops = by_loop.iter().zip(loop_runs).map(of_loop).collect();
        self.common.total_cpu_s = samples.iter().filter(|s| s.works()).map(|s| s.weight_s).sum();
        self.missed_s = (timed.cpu_s - samples.iter().map(|s| s.weight_s).sum::<f64>()).max(0.0);
        self.inclusive = sampled.inclusive(code);
        self.in_mpi = sampled.in_mpi(code);
    }

    /// The samples on a CPU, in time order.
    pub fn samples(&self) -> &[AttributedSample] {
        self.sampled.as_ref().map_or(&[], |sampled| &sampled.samples)
    }

    /// Those of one function.
    fn samples_of(&self, id: FunctionId) -> impl Iterator<Item = &AttributedSample> {
        self.samples_of.get(&id).into_iter().flatten().map(|i| &self.samples()[*i as usize])
    }

    /// The counts of function `id`, or the reason why there are none or none to be trusted.
    fn trusted<'c>(
        &self,
        id: FunctionId,
        counts: Option<&'c FunctionCounts>,
        known: &KnownFunction,
    ) -> Result<&'c FunctionCounts, String> {
        if self.executed.is_none() {
            let reason = self.evidence.counted_missing.clone();
            return Err(reason.unwrap_or_else(|| "there was no counted pass".into()));
        }
        if self.ran_natively(known, counts.is_some()) {
            return Err("its memory can be written, and the counted pass ran such code natively".into());
        }
        let in_windows = self.intervals.is_some();
        if let Some(timed) = self.evidence.timed {
            let elapsed = self.of_functions.get(&id).unwrap_or(&UNSAMPLED);
            let whole = counts.map(|c| &c.whole);
            let missed_s = if in_windows { 0.0 } else { self.missed_s };
            match warnings::contradiction(elapsed, whole, (period(timed), missed_s), self.fastest) {
                Some(_) if in_windows && whole.is_some() => {
                    return Err("windows met more of it than its samples leave time for".into());
                }
                Some(reason) if !in_windows => return Err(reason),
                _ => {}
            }
        }
        if counts.is_some() {
            self.interval(known.place)?;
        }
        let reason = match self.common.missing {
            _ if in_windows && known.made_at_run_time => "it was made at run time, and windows leave such code alone",
            _ if in_windows => "no window met it",
            Missing::OtherCode | Missing::Work => "the counted pass did not execute it",
            Missing::Executions => "the counted pass did not see it executed: a part of that run was not counted",
        };
        counts.ok_or_else(|| reason.into())
    }

    /// The samples `elapsed`, or why they say nothing of the time: the counts take more than all these samples have, and no sample met
    /// that much of the program.
    fn sampled_time<'t>(&self, elapsed: Option<&'t Elapsed>, counts: Option<&Counts>) -> Result<&'t Elapsed, String> {
        let timed = self.evidence.timed.ok_or("there was no timed pass")?;
        let elapsed = elapsed.unwrap_or(&UNSAMPLED);
        let counts = counts.filter(|_| self.intervals.is_none());
        let is_too_short =
            counts.is_some() && warnings::contradiction(elapsed, counts, (period(timed), 0.0), self.fastest).is_some();
        if is_too_short { Err(warnings::MISSED.into()) } else { Ok(elapsed) }
    }

    /// Whether the counted pass executed a function, with counts or without, natively for the most part, as far as is known.
    fn ran_natively(&self, known: &KnownFunction, has_counts: bool) -> bool {
        let share = self.common.uncounted_share;
        let is_lost = share >= MOSTLY_NATIVE || !has_counts && share > 0.0;
        known.made_at_run_time && self.intervals.is_none() && is_lost
    }

    /// The half-width of the interval of the counts of the function at `place`, relative; `None`: they were not extended from windows.
    ///
    /// # Errors
    /// Why they have no interval.
    fn interval(&self, place: Option<Place>) -> Result<Option<f64>, String> {
        self.intervals.as_ref().map(|intervals| intervals.of_function(place)).transpose()
    }

    /// How well the counts of the function at `place` are known; `None`: they were not extended from windows, or have no interval.
    fn estimated(&self, place: Option<Place>) -> Option<Estimated> {
        let intervals = self.intervals.as_ref()?;
        let counts = intervals.of_function(place).ok()?;
        Some(Estimated { counts, figures: intervals.figures_of_function(place) })
    }

    /// The same of the loop at `header` of the function at `place`.
    ///
    /// # Errors
    /// Why its counts have no interval.
    fn interval_of_loop(&self, place: Option<Place>, header: u64) -> Result<Option<f64>, String> {
        self.intervals.as_ref().map(|intervals| intervals.of_loop(place, header)).transpose()
    }

    fn function(&self, id: FunctionId, counts: Result<&FunctionCounts, String>, code: &mut CodeMap) -> Function {
        let known = code.known(id).clone();
        let line = known.place.and_then(|place| code.host_line(place));
        let nest = self.nests.get(&id);
        let entry = known.place.map_or(0, |p| p.offset);
        let found = match (nest, &counts) {
            (Some(nest), Ok(counts)) => chains(nest, counts, entry),
            _ => Chains::default(),
        };
        let context = Context { id, counts, chains: found };
        let (name, full_name) = self.names.with_full(&known.name);
        let mut function = Function {
            name,
            full_name,
            module: known.module.to_string(),
            file: line.as_ref().map(|l| l.file.to_string()),
            line: line.as_ref().map(|l| l.line),
            ..Function::default()
        };
        let whole = context.counts.as_ref().ok().map(|counts| &counts.whole);
        let measured = Measured {
            elapsed: self.sampled_time(self.of_functions.get(&id), whole),
            inclusive_s: self.inclusive.get(&id).copied(),
            counts: context.counts.clone().map(|c| &c.whole),
            estimated: self.estimated(known.place),
            made_at_run_time: known.made_at_run_time,
            traffic: self.traffic_of(&context, |offset| !nest.is_some_and(|s| s.waits_at(offset))),
            chains: (context.chains.of_loops.iter().map(|(_, c)| c.clone()).collect(), context.chains.coverage),
            calls: context.chains.calls,
        };
        facts::fill(&mut function, &measured, &self.common);
        function.clock_hz = self.clocks.mean(self.samples_of(id));
        function.account = self.account(id, &function, function.clock_hz, |at| !nest.is_some_and(|s| s.waits_at(at)));
        function.system = self.system.of(id);
        function.prefetch = self.prefetch(&context);
        if let (Some(nest), Some(place)) = (nest, known.place) {
            let instructions = self.by_instruction(&context);
            (function.lines, function.inlined) = by_line(&instructions, place.module, code, self.names);
            function.loops = self.loops(&context, nest, None, &function, &instructions, code);
        }
        if let Some(place) = known.place {
            account::name_branches(&mut function, place.module, code);
        }
        for chain in function.work.iter_mut().flat_map(|w| &mut w.chains) {
            let Some(place) = known.place else { continue };
            let header = Place { offset: chain.header, ..place };
            let Some(line) = code.line_in(header, function.file.as_deref()) else { continue };
            chain.line = Some(line.line);
            chain.file = Some(line.file.to_string()).filter(|file| function.file.as_ref() != Some(file));
        }
        function
    }

    /// The loops of a function in loop `parent`, with their inner loops.
    fn loops(
        &self,
        context: &Context,
        nest: &LoopNest,
        parent: Option<usize>,
        function: &Function,
        instructions: &[(u64, AtInstruction)],
        code: &mut CodeMap,
    ) -> Vec<Function> {
        let &KnownFunction { place, made_at_run_time, .. } = code.known(context.id);
        let module = place.map_or(0, |place| place.module);
        let children = nest.loops.iter().enumerate().filter(|(_, l)| l.parent == parent);
        let mut loops = Vec::new();
        for (index, shape_loop) in children {
            let number = self.loop_numbers.number(context.id, index as u32);
            let header = super::modules::Place { module, offset: shape_loop.header };
            let latch = Place { offset: nest.latch(shape_loop).unwrap_or(shape_loop.header), ..header };
            let line = code.line_of_loop((header, latch), (function.file.as_deref(), function.line));
            let entry = place.map_or(0, |p| p.offset);
            let suffix = match &line {
                Some(line) if function.file.as_deref() == Some(&*line.file) => format!(":{}", line.line),
                Some(line) => format!(":{}:{}", line.file.rsplit('/').next().unwrap_or(&line.file), line.line),
                None => format!("+{:#x}", shape_loop.header.wrapping_sub(entry)),
            };
            let mut facts_of_loop = Function {
                name: format!("{}{suffix}", function.name),
                module: function.module.clone(),
                file: line.as_ref().map(|l| l.file.to_string()),
                line: line.map(|l| l.line),
                ..Function::default()
            };
            let chains: Vec<_> =
                context.chains.of_loops.iter().filter(|(l, _)| *l == index).map(|(_, c)| c.clone()).collect();
            let analysed = if chains.is_empty() { 0.0 } else { 1.0 };
            let interval = self.interval_of_loop(place, shape_loop.header);
            let (counts, of_loop) = match (loop_counts(context, index, shape_loop.waits), interval) {
                (Ok(counts), Ok(interval)) => (Ok(counts), interval),
                (Err(reason), _) | (_, Err(reason)) => (Err(reason), None),
            };
            let measured = Measured {
                elapsed: self.sampled_time(self.of_loops.get(number as usize), counts.as_ref().ok().copied()),
                inclusive_s: None,
                counts,
                estimated: of_loop.map(Estimated::alike),
                made_at_run_time,
                traffic: self.traffic_of(context, |offset| nest.loop_at(offset) == Some(index as u32)),
                chains: (chains, analysed),
                calls: None,
            };
            facts::fill(&mut facts_of_loop, &measured, &self.common);
            let own = |at| nest.loop_at(at) == Some(index as u32);
            facts_of_loop.account = self.account(context.id, &facts_of_loop, function.clock_hz, own);
            account::name_branches(&mut facts_of_loop, module, code);
            if self.hot_loops.contains(&number) {
                let found = match made_at_run_time {
                    true => Err(disassembly::MADE_AT_RUN_TIME),
                    false => Ok(disassembly::of_loop(nest, index as u32, module, instructions, code)),
                };
                facts::fill_disassembly(&mut facts_of_loop, found);
            }
            facts_of_loop.loops = self.loops(context, nest, Some(index), function, instructions, code);
            let empty = facts_of_loop.cpu_s.is_none()
                && facts_of_loop.waiting_s.unwrap_or(0.0) == 0.0
                && facts_of_loop.instructions.unwrap_or(0) == 0
                && facts_of_loop.loops.is_empty();
            if !empty {
                loops.push(facts_of_loop);
            }
        }
        loops
    }

    /// The account of `facts`, which are of the instructions of function `id` that `wanted` chooses by offset.
    fn account(
        &self,
        id: FunctionId,
        facts: &Function,
        clock_hz: Option<f64>,
        wanted: impl Fn(u64) -> bool,
    ) -> Option<Account> {
        let (replay, replayed) = self.replayed.get(&id).zip(self.evidence.replayed)?;
        account::account(replay, &replayed.what_ifs, wanted, facts.instructions?, clock_hz.or(self.usual_clock_hz)?)
    }

    /// The traffic of the instructions that `wanted` chooses in a function.
    fn traffic_of(&self, context: &Context, wanted: impl Fn(u64) -> bool) -> Result<MeasuredTraffic, String> {
        context.counts.clone()?;
        let Some((traffic, memory)) = self.traffic.as_ref().zip(self.evidence.memory) else {
            return Err("the memory model was off".into());
        };
        let Some(of_function) = traffic.get(&context.id) else {
            let (one_in, one_core) = (memory.one_in, memory.one_core);
            return Ok(MeasuredTraffic { error: memory.error, one_in, one_core, ..MeasuredTraffic::default() });
        };
        Ok(MeasuredTraffic {
            sum: of_function.sum(&wanted),
            pages: of_function.pages(&memory.pages, &wanted),
            data: of_function.data(&wanted),
            error: memory.error,
            one_in: memory.one_in,
            one_core: memory.one_core,
            dram_by_thread: of_function.dram_by_thread(&wanted),
        })
    }

    /// How far ahead the addresses of its misses are known.
    fn prefetch(&self, context: &Context) -> Option<Prefetch> {
        let traffic = self.traffic.as_ref()?.get(&context.id).filter(|_| context.counts.is_ok())?;
        prefetch::sum(traffic.sites.iter().map(|(at, _, traffic)| (*at, traffic)), &context.chains.origins)
    }

    /// Figures of each instruction of a function that has any.
    fn by_instruction(&self, context: &Context) -> Vec<(u64, AtInstruction)> {
        let mut figures: HashMap<u64, AtInstruction> = HashMap::new();
        for sample in self.samples_of(context.id).filter(|s| s.works()) {
            let Some(place) = sample.place else { continue };
            let at = AtInstruction { cpu_s: Some(sample.weight_s), ..AtInstruction::default() };
            figures.entry(place.offset).or_default().add(&at);
        }
        if let Ok(counts) = &context.counts {
            let traffic = self.traffic.as_ref();
            let dram =
                traffic.and_then(|t| t.get(&context.id)).map(FunctionTraffic::dram_by_offset).unwrap_or_default();
            for (offset, site) in &counts.whole.sites {
                let entry = figures.entry(*offset).or_default();
                entry.instructions = Some(site.executions);
                entry.flops = Some(site.flops);
                // An instruction that the model did not see moved no bytes.
                entry.dram_bytes = traffic.and_then(|_| dram.get(offset).copied().unwrap_or(Some(0.0)));
            }
        }
        let mut figures: Vec<_> = figures.into_iter().collect();
        figures.sort_unstable_by_key(|(offset, _)| *offset);
        figures
    }
}

/// Seconds between two samples of a thread.
fn period(timed: &TimedEvidence) -> f64 {
    if timed.frequency_hz > 0.0 { 1.0 / timed.frequency_hz } else { 0.0 }
}

fn loop_counts<'c>(context: &Context<'c>, index: usize, waits: bool) -> Result<&'c Counts, String> {
    if waits {
        return Err("it waits: its counts are no work".into());
    }
    let counts = context.counts.clone()?;
    counts.loops.get(index).ok_or_else(|| "its loop was not analysed".into())
}
