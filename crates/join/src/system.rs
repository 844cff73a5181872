//! System calls by name and waiting by reason, of functions and of the program.
//!
//! ```text
//!  counted blocks that end in `syscall` ─▶ site: number → count ──┐
//!  samples in the kernel, whose user IP stands behind a `syscall` ┴─▶ kernel seconds by name
//!  looks at blocked threads: number, kind of file ────┐
//!  gaps between a thread's stretches on a CPU ────────┴─────────────▶ seconds off the CPU by reason
//! ```
//!
//! A site usually makes one call, because the C library has one site for each. If it makes several, a frame next to it with the name of
//! one of them decides; otherwise the seconds are divided by counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use iced_x86::{Code, Decoder, DecoderOptions};

use super::Evidence;
use super::attributed::{Activity, AttributedSample, Entry};
use super::blocks::ExecutedBlocks;
use super::code_map::{CodeMap, FunctionId};
use super::modules::{Pass, Place};
use super::sampled::Sampled;
use super::timeline::stretches;
use rprof_isa::x86_64::system_call;
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::timed::{BlockedIn, OnCpu, Sample, TimedEvidence};
use rprof_profile::machine::Machine;
use rprof_profile::system::{Caller, Faults, FileKind, Reason, System, SystemCall, Wait};

/// Half the width of a 95 % interval in standard deviations.
const Z95: f64 = 1.96;
/// Number of frames from the leaf that are searched for the name of a call.
const FRAMES: usize = 4;
/// Numbers of system calls are below.
const NUMBERS: u32 = 512;

/// Executions of one `syscall` instruction by number; `None`: unknown.
type Site = BTreeMap<Option<u32>, u64>;
type WaitKey = (Reason, Option<u32>, Option<FileKind>);

/// The system calls and waiting of a run.
#[derive(Debug, Default)]
pub struct SystemTime {
    of_functions: HashMap<FunctionId, System>,
    /// Of the program.
    pub program: Option<System>,
}

#[derive(Debug, Default, Clone)]
struct Parts {
    /// Executions; seconds in the kernel; whether these seconds are divided by counts.
    calls: BTreeMap<Option<u32>, (Option<u64>, f64, bool)>,
    waits: BTreeMap<WaitKey, f64>,
    /// Seconds in the kernel and off the CPU by caller.
    callers: BTreeMap<Arc<str>, f64>,
}

impl Parts {
    fn add_caller(&mut self, caller: Option<Arc<str>>, seconds: f64) {
        caller.into_iter().for_each(|name| *self.callers.entry(name).or_default() += seconds);
    }
}

impl SystemTime {
    /// From the evidence of both passes.
    pub fn new(
        evidence: &Evidence,
        machine: &Machine,
        (executed, sampled): (Option<&ExecutedBlocks>, Option<&Sampled>),
        code: &mut CodeMap,
    ) -> SystemTime {
        let mut parts: HashMap<FunctionId, Parts> = HashMap::new();
        let mut sites: HashMap<Place, Site> = HashMap::new();
        if let Some(executed) = executed {
            count_calls(executed, &mut sites, &mut parts, code);
        }
        let mut whole = Parts::default();
        let mut names = Names { sites: &sites, at_sites: HashMap::new() };
        if let Some(sampled) = sampled {
            for sample in sampled.samples.iter().filter(|s| s.activity == Activity::Kernel(Entry::SystemCall)) {
                let stack = sampled.stacks[sample.stack as usize];
                let of_function = parts.entry(sample.function).or_default();
                names.book(stack, sample.place, sample.weight_s, &mut of_function.calls, code);
                of_function.add_caller(caller(stack, code), sample.weight_s);
            }
        }
        let watched = watched(evidence.timed);
        if let (Some(timed), Ok(())) = (evidence.timed, &watched) {
            divide_waits(timed, &mut parts, &mut whole, code);
        }
        for of_function in parts.values() {
            for (number, (count, seconds, divided)) in &of_function.calls {
                let sum = whole.calls.entry(*number).or_default();
                sum.0 = sum.0.zip(*count).map(|(a, b)| a + b).or(sum.0).or(*count);
                sum.1 += seconds;
                sum.2 |= divided;
            }
            of_function.callers.iter().for_each(|(name, s)| whole.add_caller(Some(name.clone()), *s));
            of_function.waits.iter().for_each(|(key, s)| *whole.waits.entry(*key).or_default() += s);
        }
        let kernel_seen = evidence.timed.is_some_and(samples_kernel);
        // A call that is in no counts was not made; with uncounted code, and from windows, that is unknown.
        let counts = match evidence.counted.filter(|_| executed.is_some()) {
            Some(counted) if counted.estimate.is_some() => CallCounts::OfWindows,
            Some(counted) if counted.uncounted_share == 0.0 => CallCounts::Whole,
            _ => CallCounts::OfSomeCode,
        };
        let made = |parts: Parts| system(parts, kernel_seen, &watched, counts);
        let mut program = made(whole);
        let samples = sampled.map_or(&[][..], |s| &s.samples);
        program.faults = evidence.timed.and_then(|timed| faults(timed, machine, samples, kernel_seen));
        let of_functions = parts.into_iter().map(|(id, parts)| (id, made(parts))).filter(|(_, s)| !s.is_empty());
        SystemTime { of_functions: of_functions.collect(), program: (!program.is_empty()).then_some(program) }
    }

    /// Of one function.
    pub fn of(&self, function: FunctionId) -> Option<System> {
        self.of_functions.get(&function).cloned()
    }

    /// Functions that waited.
    pub fn waiting(&self) -> impl Iterator<Item = &FunctionId> {
        let waited = |system: &System| system.waited_s().is_some_and(|s| s > 0.0);
        self.of_functions.iter().filter(move |(_, system)| waited(system)).map(|(id, _)| id)
    }
}

/// Whether blocked threads were sampled, or why not.
fn watched(timed: Option<&TimedEvidence>) -> Result<(), String> {
    let timed = timed.ok_or("there was no timed pass")?;
    if timed.source == "none" {
        return Err("the program was not sampled".into());
    }
    timed.blocked_missing.clone().map_or(Ok(()), Err)
}

/// Whether samples were taken in the kernel, too.
fn samples_kernel(timed: &TimedEvidence) -> bool {
    timed.source.starts_with("perf:") && timed.warnings.iter().all(|w| w.code != "kernel-not-sampled")
}

fn count_calls(
    executed: &ExecutedBlocks,
    sites: &mut HashMap<Place, Site>,
    parts: &mut HashMap<FunctionId, Parts>,
    code: &mut CodeMap,
) {
    for block in &executed.blocks {
        let Some((last, before)) = block.instructions.split_last().filter(|(i, _)| i.code() == Code::Syscall) else {
            continue;
        };
        let mut numbers: Vec<(Option<u32>, u64)> =
            block.count.calls.iter().map(|c| (Some(c.number), c.count)).collect();
        let told: u64 = numbers.iter().map(|(_, count)| count).sum();
        let rest = block.executions.saturating_sub(told);
        if rest > 0 {
            numbers.push((if told == 0 { system_call::number(before.iter()) } else { None }, rest));
        }
        let function = code.function(Place { offset: last.ip(), ..block.place });
        let site = sites.entry(Place { offset: last.next_ip(), ..block.place }).or_default();
        for (number, count) in numbers {
            *site.entry(number).or_default() += count;
            let call = parts.entry(function).or_default().calls.entry(number).or_default();
            call.0 = Some(call.0.unwrap_or(0) + count);
        }
    }
}

/// The calls made at sites, according to counts, code and frames.
struct Names<'s> {
    sites: &'s HashMap<Place, Site>,
    /// From the code alone, for sites that were not counted.
    at_sites: HashMap<Place, Option<u32>>,
}

impl Names<'_> {
    /// Adds `seconds` to a call with the user IP `place`.
    fn book(
        &mut self,
        stack: &[CodeRef],
        place: Option<Place>,
        seconds: f64,
        calls: &mut BTreeMap<Option<u32>, (Option<u64>, f64, bool)>,
        code: &mut CodeMap,
    ) {
        let site = place.and_then(|place| self.sites.get(&place));
        let known: Vec<(u32, u64)> =
            site.into_iter().flatten().filter_map(|(number, count)| Some(((*number)?, *count))).collect();
        let mut add = |number: Option<u32>, share: f64| {
            let call = calls.entry(number).or_default();
            call.1 += share * seconds;
            call.2 |= share < 1.0;
        };
        match known[..] {
            [(number, _)] => add(Some(number), 1.0),
            [] => {
                let by_code = place.and_then(|place| self.by_code(place, code));
                add(by_code.or_else(|| by_frame(stack, 0..NUMBERS, code)), 1.0);
            }
            _ => match by_frame(stack, known.iter().map(|(number, _)| *number), code) {
                Some(number) => add(Some(number), 1.0),
                None => {
                    let all: u64 = known.iter().map(|(_, count)| count).sum();
                    known.iter().for_each(|(number, count)| add(Some(*number), *count as f64 / all.max(1) as f64));
                }
            },
        }
    }

    /// The number from the code of the function up to the call.
    fn by_code(&mut self, place: Place, code: &mut CodeMap) -> Option<u32> {
        *self.at_sites.entry(place).or_insert_with(|| {
            let function = code.function(Place { offset: place.offset.checked_sub(1)?, ..place });
            let start = code.known(function).place.filter(|start| start.module == place.module)?;
            let end = place.offset - system_call::BYTES.len() as u64;
            let bytes = code.code(start, end)?;
            let decoder = Decoder::with_ip(64, &bytes, start.offset, DecoderOptions::NONE);
            let instructions: Vec<_> = decoder.into_iter().collect();
            system_call::number(instructions.iter())
        })
    }
}

/// The first of `numbers` with the name of a frame next to the leaf: `__libc_read` and `__read` are `read`.
fn by_frame(stack: &[CodeRef], numbers: impl Iterator<Item = u32>, code: &mut CodeMap) -> Option<u32> {
    let named: Vec<(u32, &str)> = numbers.filter_map(|n| Some((n, system_call::name(n)?))).collect();
    stack.iter().take(FRAMES).find_map(|frame| {
        let place = code.place(Pass::Timed, *frame)?;
        let function = code.function(place);
        let name = code.known(function).name.clone();
        let plain = name.trim_start_matches('_').trim_start_matches("libc_");
        named.iter().find(|(_, call)| *call == plain).map(|(number, _)| *number)
    })
}

/// Divides the seconds off the CPU: their sum comes from each thread's stretches on a CPU, their division from samples of the blocked
/// thread.
fn divide_waits(timed: &TimedEvidence, parts: &mut HashMap<FunctionId, Parts>, whole: &mut Parts, code: &mut CodeMap) {
    let threads = timed.threads.len();
    let mut looks = vec![0.0; threads];
    let blocked = |s: &&Sample| s.off_cpu && (s.kernel || s.blocked.is_some());
    timed.samples.iter().filter(blocked).for_each(|s| looks[s.thread as usize] += s.weight_s);
    let mut scales = vec![1.0; threads];
    if timed.on_cpu.is_empty() {
        let queued = timed.samples.iter().filter(|s| s.off_cpu && !blocked(s));
        add_whole(whole, Reason::RunQueue, queued.map(|s| s.weight_s).sum());
    } else {
        for (thread, running) in stretches(&timed.on_cpu, threads).iter().enumerate() {
            let info = &timed.threads[thread];
            let (from_s, to_s) = timed.part.unwrap_or((0.0, f64::INFINITY));
            let span = (info.start_s.max(from_s), info.end_s.min(to_s));
            let (blocked_s, queued_s) = off_cpu(running, span, info.start_s < from_s, &timed.apart);
            add_whole(whole, Reason::RunQueue, queued_s);
            if looks[thread] > 0.0 {
                scales[thread] = blocked_s / looks[thread];
            } else {
                add_whole(whole, Reason::Unknown, blocked_s);
            }
        }
    }
    for sample in timed.samples.iter().filter(blocked) {
        let key = key(sample.blocked);
        let seconds = sample.weight_s * scales[sample.thread as usize];
        let place = sample.stack.first().and_then(|leaf| code.place(Pass::Timed, *leaf));
        let into = match place {
            Some(place) => parts.entry(code.function(place)).or_default(),
            None => &mut *whole,
        };
        *into.waits.entry(key).or_default() += seconds;
        into.add_caller(caller(&sample.stack, code), seconds);
    }
}

/// The first function outside the leaf's module, skipping the C library if it made the call. Without one, the leaf's caller.
fn caller(stack: &[CodeRef], code: &mut CodeMap) -> Option<Arc<str>> {
    let places: Vec<Place> = stack.iter().map_while(|frame| code.place(Pass::Timed, *frame)).collect();
    let leaf = places.first()?;
    let outside = places.iter().find(|place| place.module != leaf.module);
    let place = *outside.or(places.get(1))?;
    let function = code.function(place);
    Some(code.known(function).name.clone())
}

fn add_whole(whole: &mut Parts, reason: Reason, seconds: f64) {
    if seconds > 0.0 {
        *whole.waits.entry((reason, None, None)).or_default() += seconds;
    }
}

fn key(blocked: Option<BlockedIn>) -> WaitKey {
    match blocked {
        None => (Reason::Unknown, None, None),
        Some(BlockedIn { call: None, .. }) => (Reason::PageFault, None, None),
        Some(BlockedIn { call: Some(number), file }) => {
            (system_call::name(number).map_or(Reason::OtherCall, Reason::of_call), Some(number), file)
        }
    }
}

/// Seconds that a thread was blocked, and seconds that it waited for a CPU: after a stretch that ended with its preemption, and before
/// its first stretch, unless it `was_there` before. What happened in the seconds `apart` is not known.
fn off_cpu(running: &[OnCpu], (start_s, end_s): (f64, f64), was_there: bool, apart: &[(f64, f64)]) -> (f64, f64) {
    let (mut blocked_s, mut queued_s) = (0.0, 0.0);
    let mut add = |from_s: f64, to_s: f64, queued: bool| {
        let seconds = (to_s - from_s).max(0.0) - overlap_s(from_s, to_s, apart);
        *(if queued { &mut queued_s } else { &mut blocked_s }) += seconds;
    };
    let (mut from, mut queued) = (start_s, !was_there);
    for stretch in running {
        add(from, stretch.start_s, queued);
        (from, queued) = (stretch.end_s, stretch.preempted);
    }
    if was_there || !running.is_empty() {
        add(from, end_s, queued);
    }
    (blocked_s, queued_s)
}

/// Seconds between `from_s` and `to_s` that lie in `apart`, which is in order.
fn overlap_s(from_s: f64, to_s: f64, apart: &[(f64, f64)]) -> f64 {
    let near = apart[apart.partition_point(|a| a.1 <= from_s)..].iter().take_while(|a| a.0 < to_s);
    near.map(|a| (a.1.min(to_s) - a.0.max(from_s)).max(0.0)).sum()
}

/// Kind of the counts of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallCounts {
    /// All calls.
    Whole,
    /// Those of the code that was counted.
    OfSomeCode,
    /// Extended from windows.
    OfWindows,
}

fn system(parts: Parts, kernel_seen: bool, watched: &Result<(), String>, counts: CallCounts) -> System {
    let call = |(number, (count, seconds, divided)): (Option<u32>, (Option<u64>, f64, bool))| SystemCall {
        name: number.map(name),
        count: count.or((counts == CallCounts::Whole).then_some(0)),
        estimated: counts == CallCounts::OfWindows && count.is_some(),
        kernel_s: kernel_seen.then_some(seconds),
        divided,
    };
    let wait =
        |((reason, number, file), seconds): (WaitKey, f64)| Wait { reason, call: number.map(name), file, seconds };
    System {
        calls: parts.calls.into_iter().map(call).collect(),
        waits: watched.is_ok().then(|| parts.waits.into_iter().map(wait).collect()),
        callers: parts.callers.into_iter().map(|(name, seconds)| Caller { name: name.to_string(), seconds }).collect(),
        faults: None,
        waits_missing: watched.clone().err(),
    }
    .sorted()
}

fn name(number: u32) -> String {
    system_call::name(number).map_or_else(|| format!("call {number}"), str::to_owned)
}

fn faults(timed: &TimedEvidence, machine: &Machine, samples: &[AttributedSample], kernel_seen: bool) -> Option<Faults> {
    let (minor, major) = timed.page_faults?;
    let sampled = || samples.iter().filter(|s| s.activity == Activity::Kernel(Entry::Fault));
    let squares: f64 = sampled().map(|s| s.weight_s.powi(2)).sum();
    let cost = machine.ceilings.iter().find(|c| c.is("pagefault", 1)).and_then(|c| c.value);
    Some(Faults {
        minor,
        major,
        expected_s: cost.map(|cost| minor as f64 * cost),
        sampled_s: kernel_seen.then(|| sampled().map(|s| s.weight_s).sum()),
        sampled_ci95_s: kernel_seen.then(|| Z95 * squares.sqrt()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_waiting_for_a_cpu_where_a_thread_lost_its_own() {
        let on = |start_s, end_s, preempted| OnCpu { thread: 0, start_s, end_s, preempted };
        let running = [on(0.5, 1.0, true), on(1.25, 2.0, false), on(5.0, 6.0, false)];
        assert_eq!(off_cpu(&running, (0.25, 6.5), false, &[]), (3.5, 0.5));
        assert_eq!(
            off_cpu(&running, (0.25, 6.5), true, &[]),
            (3.75, 0.25),
            "a part of a run begins while it is blocked"
        );
        assert_eq!(off_cpu(&[], (0.0, 1.0), false, &[]), (0.0, 0.0), "nothing is known of it");
    }

    #[test]
    fn calls_of_windows_are_estimates() {
        let calls = |counts| {
            let calls = [(Some(0), (Some(7), 0.1, false)), (Some(1), (None, 0.1, false))].into();
            let parts = Parts { calls, ..Parts::default() };
            let found = system(parts, true, &Ok(()), counts).calls;
            let of = |name: &str| found.iter().find(|call| call.name.as_deref() == Some(name)).unwrap().clone();
            [of("read"), of("write")].map(|call| (call.count, call.estimated))
        };
        assert_eq!(calls(CallCounts::Whole), [(Some(7), false), (Some(0), false)]);
        assert_eq!(calls(CallCounts::OfSomeCode), [(Some(7), false), (None, false)]);
        assert_eq!(calls(CallCounts::OfWindows), [(Some(7), true), (None, false)]);
    }

    #[test]
    fn windows_are_no_waiting() {
        let on = |start_s, end_s| OnCpu { thread: 0, start_s, end_s, preempted: false };
        let running = [on(0.0, 1.0), on(2.0, 3.0), on(4.0, 5.0)];
        assert_eq!(off_cpu(&running, (0.0, 6.0), true, &[(1.0, 2.0), (3.25, 3.5), (5.5, 7.0)]), (1.25, 0.0));
    }

    #[test]
    fn what_a_blocked_thread_waits_for_follows_from_its_call() {
        let read = BlockedIn { call: Some(0), file: Some(FileKind::Pipe) };
        assert_eq!(key(Some(read)), (Reason::Read, Some(0), Some(FileKind::Pipe)));
        assert_eq!(key(Some(BlockedIn { call: None, file: None })).0, Reason::PageFault);
        assert_eq!(key(Some(BlockedIn { call: Some(511), file: None })).0, Reason::OtherCall);
        assert_eq!(key(None).0, Reason::Unknown);
    }
}
