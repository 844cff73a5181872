//! The facts of one function or loop, each with its source.

use std::collections::{BTreeMap, BTreeSet};

use super::counts::Counts;
use super::data::MeasuredData;
use super::time::Elapsed;
use super::traffic;
use rprof_profile::disassembly::Disassembly;
use rprof_profile::evidence::counted::Missing;
use rprof_profile::evidence::estimate::Figures;
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::evidence::pages::Estimate;
use rprof_profile::function::{Bytes, CacheMisses, Chain, Function, PerThread, Source, Work};

/// The measurements of a function or loop.
#[derive(Debug)]
pub struct Measured<'a> {
    /// From the timed pass, or the reason why there is none.
    pub elapsed: Result<&'a Elapsed, String>,
    /// CPU seconds of it and all it called; `None` for loops.
    pub inclusive_s: Option<f64>,
    /// From the counted pass, or the reason why there is none.
    pub counts: Result<&'a Counts, String>,
    /// How well counts that were extended from windows are known. `None`: all was counted.
    pub estimated: Option<Estimated>,
    /// It was made at run time: some of it may have been counted, some not.
    pub made_at_run_time: bool,
    /// From the memory model, or the reason why there is none.
    pub traffic: Result<MeasuredTraffic, String>,
    /// Its loop-carried chains, and the share of its instructions that were analysed for them.
    pub chains: (Vec<Chain>, f64),
    /// How often it was called; `None` for loops.
    pub calls: Option<u64>,
}

/// Half-widths of 95 % intervals, relative.
#[derive(Debug, Clone, Copy)]
pub struct Estimated {
    /// Of counts of instructions.
    pub counts: f64,
    /// Of figures that need not go with these.
    pub figures: Figures,
}

impl Estimated {
    /// All figures are known as well as the counts.
    pub fn alike(counts: f64) -> Self {
        Estimated { counts, figures: Figures { flops: Some(counts), l1_bytes: Some(counts) } }
    }
}

/// Traffic with its error and its shares.
#[derive(Debug, Clone, Default)]
pub struct MeasuredTraffic {
    /// The sum.
    pub sum: Traffic,
    /// Pages touched.
    pub pages: Estimate,
    /// The data that it accessed.
    pub data: MeasuredData,
    /// Relative error that the model states.
    pub error: Option<f64>,
    /// Levels beyond L1 were simulated for one line in this many.
    pub one_in: u32,
    /// Threads were simulated on one core.
    pub one_core: bool,
    /// DRAM bytes by thread of the counted evidence.
    pub dram_by_thread: BTreeMap<u32, f64>,
}

/// Facts of the whole run.
#[derive(Debug, Clone, Default)]
pub struct Common {
    /// Σ cpu_s of all functions.
    pub total_cpu_s: f64,
    /// Index in `run.threads` of each thread of the counted evidence.
    pub counted_threads: Vec<u32>,
    /// The process of each thread of `run.threads`.
    pub processes: Vec<u32>,
    /// CPUs that each thread of `run.threads` was allowed.
    pub allowed_cpus: Vec<Option<u32>>,
    /// Share of the counted pass's CPU time in code that was not counted.
    pub uncounted_share: f64,
    /// The part that the counts lack.
    pub missing: Missing,
    /// Page faults of the program are too few for the samples that began at no system call.
    pub too_few_faults: bool,
}

/// Why time in the kernel is not divided.
const SIGNALS: &str = "signals or traps, for the most part: the kernel counted too few page faults for it";
/// Of counts that were extended from windows, for a function of several threads.
const THREADS_APART: &str = "windows meet each thread at other times: how the counts divide among them is not known";
/// Why FLOPs or bytes that were extended from windows are null.
const FEW_WINDOWS: &str = "too few windows met the part of it that has them";
/// Why a count that is not null is not the whole.
const LOWER_BOUND: &str = "a lower bound: a part of the run was not counted";
const LESS_WORK: &str = "a lower bound: the program works until a time, and the counted run did less in it";
const PART_OF_MADE_CODE: &str = "a lower bound: some of the code made at run time was not counted";

/// A counted member of the team executed at least this share of the busiest member's work.
const COUNTED_MEMBER: f64 = 1e-3;
/// A sampled one; stray samples (skid, start-up) are no membership.
const SAMPLED_MEMBER: f64 = 1e-2;

/// Fills `function`, which has its name already.
pub fn fill(function: &mut Function, measured: &Measured, common: &Common) {
    fill_counts(function, measured, common);
    fill_traffic(function, measured);
    function.per_thread = per_thread(measured, common);
    if measured.estimated.is_some() && function.per_thread.len() > 1 {
        for thread in &mut function.per_thread {
            (thread.instructions, thread.flops, thread.dram_bytes) = (None, None, None);
        }
        missing(function, "per_thread", THREADS_APART);
    }
    let team = team(measured, common);
    let together = measured.elapsed.as_ref().map_or(usize::MAX, |elapsed| most_at_once(&elapsed.concurrency));
    let size = if is_in_turn(&team, together, common) { 1 } else { team.len() as u32 };
    if together <= 1 && are_processes(&team, common) {
        keep_busiest(function);
    }
    function.team = (size > 0).then_some(size);
    fill_time(function, measured, common);
    function.allowed_cpus = allowed_cpus(&team, &function.concurrency, common);
}

/// Fills in the instructions of a hot loop, or why there are none.
pub fn fill_disassembly(function: &mut Function, found: Result<Disassembly, &str>) {
    match found {
        Ok(disassembly) => function.disassembly = Some(disassembly),
        Err(reason) => missing(function, "disassembly", reason),
    }
}

fn fill_time(function: &mut Function, measured: &Measured, common: &Common) {
    let fields = [
        "time_s",
        "cpu_s",
        "share",
        "time_ci95_s",
        "lambda",
        "exclusive_s",
        "waiting_s",
        "kernel_s",
        "fault_s",
        "fault_time_s",
    ];
    let elapsed = match &measured.elapsed {
        Ok(elapsed) => elapsed,
        Err(reason) => {
            fields.iter().for_each(|f| missing(function, f, reason));
            missing(function, "inclusive_s", reason);
            return;
        }
    };
    function.waiting_s = Some(elapsed.waiting_s);
    function.kernel_s = Some(elapsed.kernel_s);
    function.inclusive_s = measured.inclusive_s;
    source(function, "waiting_s", "sampled", None);
    source(function, "kernel_s", "sampled", None);
    if common.too_few_faults && elapsed.fault_s > 0.0 {
        missing(function, "fault_s", SIGNALS);
        missing(function, "fault_time_s", SIGNALS);
    } else {
        function.fault_s = Some(elapsed.fault_s);
        function.fault_time_s = Some(elapsed.fault_time_s);
        source(function, "fault_s", "sampled", None);
        source(function, "fault_time_s", "sampled", None);
    }
    match measured.inclusive_s {
        Some(_) => source(function, "inclusive_s", "sampled", None),
        None => missing(function, "inclusive_s", "no sample has it on its stack"),
    }
    if elapsed.samples == 0 {
        let reason = match elapsed.waiting_s + elapsed.kernel_s {
            0.0 => "no sample fell in it",
            _ => "all its samples were waiting or in the kernel",
        };
        fields[..6].iter().for_each(|f| missing(function, f, reason));
        return;
    }
    let error = Some(elapsed.cpu_ci95_s / elapsed.cpu_s);
    function.cpu_s = Some(elapsed.cpu_s);
    function.time_s = Some(elapsed.time_s);
    function.time_ci95_s = Some(elapsed.time_ci95_s());
    function.share = (common.total_cpu_s > 0.0).then(|| elapsed.cpu_s / common.total_cpu_s);
    function.concurrency = elapsed.concurrency.clone();
    function.lambda = function.team.and_then(|team| elapsed.lambda(team));
    function.exclusive_s = Some(elapsed.exclusive_s);
    fields[..6].iter().for_each(|f| source(function, f, "sampled", error));
}

fn fill_counts(function: &mut Function, measured: &Measured, common: &Common) {
    let fields = ["instructions", "fp_instructions", "simd_instructions", "int_ops", "flops", "work", "bytes.l1"];
    let counts = match &measured.counts {
        Ok(counts) => counts,
        Err(reason) => return fields.iter().for_each(|f| missing(function, f, reason)),
    };
    let tally = &counts.tally;
    function.instructions = Some(tally.instructions);
    function.fp_instructions = Some(tally.fp_instructions);
    function.simd_instructions = Some(tally.simd_instructions);
    function.int_ops = Some(tally.int_ops);
    function.flops = Some(tally.flops);
    function.bytes = Some(Bytes { l1: Some(tally.l1_bytes), ..Bytes::default() });
    function.work = Some(Work {
        mix: tally.mix(),
        classes: tally.classes(),
        accesses: tally.accesses(),
        issue_slots: tally.issue_slots,
        code_bytes: counts.code_bytes(),
        chains: measured.chains.0.clone(),
        traffic: measured.traffic.as_ref().ok().filter(|t| is_seen(t)).map(|t| t.sum),
        chain_coverage: measured.chains.1,
        calls: measured.calls,
    });
    let of_all = common.missing.is_of_all();
    let is_part = of_all || measured.made_at_run_time && common.uncounted_share > 0.0;
    // By how much less is not known.
    let uncounted = (is_part && common.missing != Missing::Work).then_some(common.uncounted_share);
    let of_part = match common.missing {
        Missing::Executions => LOWER_BOUND,
        Missing::Work => LESS_WORK,
        Missing::OtherCode => PART_OF_MADE_CODE,
    };
    let (how_counted, error) = match measured.estimated {
        Some(of_windows) => ("estimated", Some(of_windows.counts + uncounted.unwrap_or(0.0))),
        None => ("counted", uncounted),
    };
    let how = || Source { how: how_counted.into(), error, reason: is_part.then(|| of_part.to_owned()) };
    fields.iter().for_each(|f| {
        function.source.insert((*f).into(), how());
    });
    if let Some(Estimated { figures, .. }) = measured.estimated {
        let of_figures = [("flops", figures.flops), ("fp_instructions", figures.flops), ("bytes.l1", figures.l1_bytes)];
        for (field, half_width) in of_figures {
            let known = half_width.map(|half_width| half_width + uncounted.unwrap_or(0.0));
            let reason = if known.is_some() { how().reason } else { Some(FEW_WINDOWS.to_owned()) };
            function.source.insert(field.into(), Source { error: known, reason, ..how() });
        }
        if figures.flops.is_none() {
            (function.flops, function.fp_instructions) = (None, None);
        }
        if figures.l1_bytes.is_none() {
            function.bytes = None;
        }
    }
    if counts.uncounted_dynamic > 0 {
        let reason = Some("taken as if all lanes were active: the engine did not count the masks of some".to_owned());
        let how = || how_counted.to_owned();
        function.source.insert("flops".into(), Source { how: how(), error: None, reason: reason.clone() });
        function.source.insert("bytes.l1".into(), Source { how: how(), error: None, reason });
    }
}

/// Whether the model saw most of the function's accesses.
fn is_seen(traffic: &MeasuredTraffic) -> bool {
    traffic::error_of_windows(&traffic.sum, traffic.one_in, None).is_ok()
}

fn fill_traffic<'m>(function: &mut Function, measured: &'m Measured) {
    let near = ["bytes.l2", "cache_misses"];
    let far = ["bytes.l3", "bytes.dram", "misses"];
    let of_counts =
        measured.estimated.map(|of_windows| of_windows.counts.max(of_windows.figures.l1_bytes.unwrap_or(0.0)));
    let known = |traffic: &'m MeasuredTraffic| {
        let error = traffic::error_of_windows(&traffic.sum, traffic.one_in, traffic.error);
        error.map(|error| (traffic, of_counts.map_or(error, |of_counts| Some(error.unwrap_or(0.0).hypot(of_counts)))))
    };
    let (traffic, error) = match measured.traffic.as_ref().map_err(Clone::clone).and_then(known) {
        Ok(known) => known,
        Err(reason) => return near.iter().chain(&far).chain(&["pages"]).for_each(|f| missing(function, f, &reason)),
    };
    let l1 = function.bytes.and_then(|b| b.l1);
    let bytes = traffic::bytes(&traffic.sum);
    let misses = traffic::cache_misses(&traffic.sum);
    let t = &traffic.sum;
    let near_error = traffic::scattered(error, t.l1_scatter, t.l1_misses);
    near.iter().for_each(|f| source(function, f, "simulated", near_error));
    match traffic::pages(&traffic.pages, &traffic.sum) {
        Ok(pages) => {
            function.pages = Some(pages);
            source(function, "pages", "simulated", traffic.pages.error);
        }
        Err(reason) => missing(function, "pages", &reason),
    }
    match traffic::error_of_sample(&traffic.sum, traffic.one_in, error) {
        Ok(of_memory) => {
            function.bytes = Some(Bytes { l1, ..bytes });
            function.cache_misses = Some(misses);
            function.misses = Some(traffic::misses(&traffic.sum));
            let of_l3 = traffic::error_behind_l2(t, traffic.one_in, error);
            source(function, "bytes.l3", "simulated", traffic::scattered(of_l3, t.l2_scatter, t.l2_misses));
            source(function, "misses", "simulated", traffic::scattered(of_memory, t.l3_scatter, t.l3_misses));
            let of_bytes = traffic::error_of_memory_bytes(t, traffic.one_in, error);
            source(function, "bytes.dram", "simulated", of_bytes);
            for (field, bytes) in [("bytes.l3", bytes.l3), ("bytes.dram", bytes.dram)] {
                let source = function.source.get_mut(field);
                source.into_iter().for_each(|source| source.reason = traffic::none_seen(bytes, traffic.one_in));
            }
            if let reason @ Some(_) = traffic::compulsory_known(traffic.one_in) {
                let of_new = Source { how: "simulated".into(), error: None, reason };
                function.source.insert("misses.compulsory".into(), of_new);
            }
            if let (true, Some(misses)) = (traffic.one_core, &mut function.misses) {
                misses.coherence = None;
                let reason =
                    "threads that can run side by side were simulated on one core; see the warning memory-cores";
                missing(function, "misses.coherence", reason);
            }
            if !traffic.data.data.is_empty() {
                function.data = traffic.data.data.clone();
                source(function, "data", "simulated", traffic.data.error);
            }
        }
        Err(reason) => {
            function.bytes = Some(Bytes { l1, l2: bytes.l2, ..Bytes::default() });
            function.cache_misses = Some(CacheMisses { l1: misses.l1, ..CacheMisses::default() });
            far.iter().for_each(|f| missing(function, f, &reason));
        }
    }
}

fn per_thread(measured: &Measured, common: &Common) -> Vec<PerThread> {
    let mut threads: BTreeMap<u32, PerThread> = BTreeMap::new();
    if let Ok(elapsed) = &measured.elapsed {
        for (thread, cpu_s) in &elapsed.per_thread {
            threads.entry(*thread).or_default().cpu_s = Some(*cpu_s);
        }
    }
    if let Ok(counts) = &measured.counts {
        for (thread, (instructions, flops)) in &counts.per_thread {
            let Some(index) = common.counted_threads.get(*thread as usize) else { continue };
            let entry = threads.entry(*index).or_default();
            entry.instructions = Some(entry.instructions.unwrap_or(0) + instructions);
            entry.flops = Some(entry.flops.unwrap_or(0) + flops);
        }
    }
    let seen = |t: &&MeasuredTraffic| is_seen(t);
    if let Some(traffic) = measured.traffic.as_ref().ok().filter(seen) {
        for (thread, bytes) in &traffic.dram_by_thread {
            let Some(index) = common.counted_threads.get(*thread as usize) else { continue };
            let entry = threads.entry(*index).or_default();
            entry.dram_bytes = Some(entry.dram_bytes.unwrap_or(0) + traffic::whole(*bytes));
        }
    }
    threads.into_iter().map(|(thread, figures)| PerThread { thread, ..figures }).collect()
}

/// Threads that had work in it: by counts if there are any, otherwise by samples; by both if windows alone were counted.
fn team(measured: &Measured, common: &Common) -> Vec<u32> {
    let counts = measured.counts.as_ref().ok().filter(|counts| !counts.per_thread.is_empty());
    let counted = counts.map(|counts| {
        let mut work: BTreeMap<u32, f64> = BTreeMap::new();
        for (thread, (instructions, _)) in &counts.per_thread {
            let Some(index) = common.counted_threads.get(*thread as usize) else { continue };
            *work.entry(*index).or_default() += *instructions as f64;
        }
        busy(&work, COUNTED_MEMBER)
    });
    let sampled =
        || measured.elapsed.as_ref().map(|elapsed| busy(&elapsed.per_thread, SAMPLED_MEMBER)).unwrap_or_default();
    match counted {
        Some(counted) if measured.estimated.is_some() => counted.union(&sampled()).copied().collect(),
        Some(counted) => counted.into_iter().collect(),
        None => sampled().into_iter().collect(),
    }
}

/// The threads with some of `work`, and no less than the share `least` of the busiest one's.
fn busy(work: &BTreeMap<u32, f64>, least: f64) -> BTreeSet<u32> {
    let busiest = work.values().copied().fold(0.0, f64::max);
    work.iter().filter(|(_, w)| **w > 0.0 && **w >= least * busiest).map(|(thread, _)| *thread).collect()
}

/// CPUs that the team was allowed. For threads pinned to one CPU each, the number seen working at once.
fn allowed_cpus(team: &[u32], concurrency: &[f64], common: &Common) -> Option<u32> {
    let allowed = team.iter().filter_map(|t| common.allowed_cpus.get(*t as usize).copied().flatten());
    let widest = allowed.max()?;
    Some(widest.max(most_at_once(concurrency) as u32))
}

/// The most threads at work at once, by the share of the time with k of them.
fn most_at_once(concurrency: &[f64]) -> usize {
    concurrency.iter().rposition(|share| *share > 0.01).map_or(0, |k| k + 1)
}

/// Whether each member of `team` is a process of its own.
fn are_processes(team: &[u32], common: &Common) -> bool {
    let processes: BTreeSet<u32> = team.iter().filter_map(|t| common.processes.get(*t as usize).copied()).collect();
    processes.len() == team.len()
}

/// Of thousands of short processes, as a script starts them, the parts of the busiest say as much as all.
fn keep_busiest(function: &mut Function) {
    const MOST: usize = 16;
    if function.per_thread.len() <= MOST {
        return;
    }
    let work = |part: &PerThread| (part.cpu_s.unwrap_or(0.0), part.instructions.unwrap_or(0));
    function.per_thread.sort_by(|a, b| work(b).0.total_cmp(&work(a).0).then(work(b).1.cmp(&work(a).1)));
    let all = function.per_thread.len();
    function.per_thread.truncate(MOST);
    function.per_thread.sort_by_key(|part| part.thread);
    let reason = format!("of the {all} processes that executed it, one after another, the busiest {MOST}");
    let how = if function.cpu_s.is_some() { "sampled" } else { "counted" };
    function.source.insert("per_thread".into(), Source { how: how.into(), error: None, reason: Some(reason) });
}

/// Whether `team` is of processes that ran one after another, `together` of its threads at once: as the commands of a script do, which
/// cannot share their work.
fn is_in_turn(team: &[u32], together: usize, common: &Common) -> bool {
    let processes: BTreeSet<u32> = team.iter().filter_map(|t| common.processes.get(*t as usize).copied()).collect();
    together == 1 && processes.len() > 1 && processes.len() == team.len()
}

fn source(function: &mut Function, field: &str, how: &str, error: Option<f64>) {
    function.source.insert(field.into(), Source { how: how.into(), error, reason: None });
}

fn missing(function: &mut Function, field: &str, reason: &str) {
    function.source.insert(field.into(), Source::not_measured(reason));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_processes_in_turn_the_busiest_are_kept() {
        let part = |thread| PerThread { thread, instructions: Some(u64::from(thread % 100)), ..PerThread::default() };
        let mut function = Function { per_thread: (0..1500).map(part).collect(), ..Function::default() };
        keep_busiest(&mut function);
        assert_eq!(function.per_thread.len(), 16);
        assert!(function.per_thread.iter().all(|part| part.instructions >= Some(98)));
        assert!(function.source["per_thread"].reason.as_deref().unwrap().contains("1500 processes"));
        let common = Common { processes: vec![7, 7, 8], ..Common::default() };
        assert!(are_processes(&[0, 2], &common) && !are_processes(&[0, 1], &common));
    }

    #[test]
    fn processes_one_after_another_are_no_team() {
        let common = Common { processes: vec![7, 7, 8, 9], ..Common::default() };
        assert!(is_in_turn(&[0, 2, 3], 1, &common));
        assert!(!is_in_turn(&[0, 2, 3], 2, &common), "they share the work");
        assert!(!is_in_turn(&[0, 1], 1, &common), "threads of one process may take turns under a lock");
        assert!(!is_in_turn(&[0], 1, &common));
        assert_eq!((most_at_once(&[0.995, 0.005]), most_at_once(&[0.5, 0.5]), most_at_once(&[])), (1, 2, 0));
    }
}
