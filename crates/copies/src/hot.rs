//! The hot loops of a running program: from samples of the last moments to code, threads and the loops around them.

use std::collections::HashMap;

use nix::unistd::Pid;

use rprof_profile::code::{CodeRef, ModuleKind};
use rprof_profile::evidence::timed::{Sample, TimedEvidence};
use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;

use crate::loops::{self, LoopCode};

/// A loop with a smaller share of the samples is not hot.
pub const LEAST_SHARE: f64 = 0.03;
/// Callers that are looked at.
const CALLERS: usize = 4;

/// Where a loop is, for others than this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Index into the modules of the samples.
    pub at: CodeRef,
    /// Run-time address − offset in the module.
    pub bias: u64,
}

/// A hot loop, or a function without one.
#[derive(Debug, Clone, PartialEq)]
pub struct HotLoop {
    /// The thread of the program with most of its samples.
    pub tid: Pid,
    /// Threads with a tenth of its samples or more.
    pub threads: usize,
    /// Its hottest instruction.
    pub place: Place,
    /// The innermost loop around that; `None`: straight code.
    pub code: Option<LoopCode>,
    /// Loops in which its passings can be counted, the innermost first: those around it, then those of its callers.
    pub around: Vec<LoopCode>,
    /// Its share of the samples.
    pub share: f64,
}

/// The hot loops of process `pid` in `timed`, the hottest first.
pub fn hot_loops(timed: &TimedEvidence, pid: Pid, memory: &Memory) -> Vec<HotLoop> {
    let of_process = |s: &&Sample| timed.threads.get(s.thread as usize).is_some_and(|t| t.pid == pid.as_raw() as u32);
    let samples: Vec<&Sample> =
        timed.samples.iter().filter(of_process).filter(|s| !s.kernel && !s.off_cpu && !s.stack.is_empty()).collect();
    let all_s: f64 = timed.samples.iter().filter(of_process).filter(|s| !s.off_cpu).map(|s| s.weight_s).sum();
    let mut known: HashMap<u64, Vec<LoopCode>> = HashMap::new();
    let mut groups: HashMap<(u64, u64), Vec<&Sample>> = HashMap::new();
    for sample in samples {
        let Some(at) = address(timed, sample.stack[0]) else { continue };
        let around = known.entry(at).or_insert_with(|| loops::around(memory, Address::new(at)));
        // Straight code is grouped by its address without the last bits.
        let key = around.first().map_or((at & !0x3f, 0), |l| (l.header, l.end));
        groups.entry(key).or_default().push(sample);
    }
    let seconds = |group: &[&Sample]| group.iter().map(|s| s.weight_s).sum::<f64>();
    let mut groups: Vec<Vec<&Sample>> = groups.into_values().collect();
    groups.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    let hot = groups.into_iter().filter(|group| seconds(group) >= LEAST_SHARE * all_s);
    hot.filter_map(|group| hot_loop(timed, memory, &group, seconds(&group) / all_s)).collect()
}

fn hot_loop(timed: &TimedEvidence, memory: &Memory, group: &[&Sample], share: f64) -> Option<HotLoop> {
    let mut by_thread: HashMap<u32, usize> = HashMap::new();
    let mut by_place: HashMap<CodeRef, usize> = HashMap::new();
    let mut by_callers: HashMap<Vec<CodeRef>, usize> = HashMap::new();
    for sample in group {
        *by_thread.entry(sample.thread).or_default() += 1;
        *by_place.entry(sample.stack[0]).or_default() += 1;
        let callers = sample.stack.iter().skip(1).take(CALLERS).copied().collect();
        *by_callers.entry(callers).or_default() += 1;
    }
    let thread = by_thread.iter().max_by_key(|(thread, n)| (**n, u32::MAX - **thread)).map(|(thread, _)| *thread)?;
    let threads = by_thread.values().filter(|n| 10 * **n >= group.len()).count();
    let at = by_place.iter().max_by_key(|(at, n)| (**n, **at)).map(|(at, _)| *at)?;
    let callers = by_callers.into_iter().max_by_key(|(_, n)| *n).map(|(callers, _)| callers)?;
    let address_of = address(timed, at)?;
    let mut around = loops::around(memory, Address::new(address_of));
    let code = around.first().cloned();
    for caller in callers {
        // The stack has the address within the call: behind it the caller goes on.
        let Some(after) = address(timed, caller).map(|at| at + 1) else { continue };
        around.extend(loops::around(memory, Address::new(after)));
    }
    let tid = Pid::from_raw(timed.threads.get(thread as usize)?.tid as i32);
    let place = Place { at, bias: address_of.wrapping_sub(at.offset) };
    Some(HotLoop { tid, threads, place, code, around, share })
}

/// The share of the samples of `pid` that were in `code`, or in what it calls.
pub fn share_within(timed: &TimedEvidence, pid: Pid, code: &LoopCode) -> f64 {
    let (mut inside, mut all) = (0.0, 0.0);
    for sample in timed.samples.iter().filter(|s| !s.off_cpu) {
        if timed.threads.get(sample.thread as usize).is_none_or(|t| t.pid != pid.as_raw() as u32) {
            continue;
        }
        all += sample.weight_s;
        let is_inside = |at: &CodeRef| address(timed, *at).is_some_and(|at| code.range().contains(&at));
        if sample.stack.iter().any(is_inside) {
            inside += sample.weight_s;
        }
    }
    if all > 0.0 { inside / all } else { 0.0 }
}

/// The run-time address of a place; `None` for the kernel's.
fn address(timed: &TimedEvidence, at: CodeRef) -> Option<u64> {
    let module = timed.modules.get(at.module as usize)?;
    match module.kind {
        ModuleKind::File | ModuleKind::Vdso => Some(at.offset.wrapping_add(module.bias)),
        ModuleKind::Anonymous => Some(at.offset),
        ModuleKind::Kernel => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::code::ModuleInfo;
    use rprof_profile::evidence::ThreadInfo;

    #[test]
    fn samples_in_one_loop_are_one_hot_loop() {
        // 0: nop; 1: dec ecx; 3: jnz 0; 5: ret
        let code: [u8; 6] = [0x90, 0xff, 0xc9, 0x75, 0xfb, 0xc3];
        let own = Pid::this();
        let base = code.as_ptr() as u64;
        let module = ModuleInfo {
            kind: ModuleKind::File,
            path: "/x".into(),
            build_id: None,
            pid: own.as_raw() as u32,
            bias: base,
        };
        let thread = ThreadInfo {
            ordinal: 0,
            pid: own.as_raw() as u32,
            tid: 77,
            name: None,
            start_s: 0.0,
            end_s: 1.0,
            cpu_s: 1.0,
            allowed_cpus: None,
        };
        let sample = |offset| Sample {
            t_s: 0.0,
            weight_s: 1e-3,
            thread: 0,
            stack: vec![CodeRef { module: 0, offset }],
            kernel: false,
            off_cpu: false,
            cpu: None,
            blocked: None,
            path: 0,
        };
        let timed = TimedEvidence {
            modules: vec![module],
            threads: vec![thread],
            samples: vec![sample(0), sample(1), sample(1), sample(5)],
            ..TimedEvidence::default()
        };
        let memory = Memory::open(own).unwrap();
        let hot = hot_loops(&timed, own, &memory);
        assert_eq!(hot[0].code, Some(LoopCode { header: base, end: base + 5 }));
        assert_eq!((hot[0].share, hot[0].place.at.offset, hot[0].tid), (0.75, 1, Pid::from_raw(77)));
        assert!((share_within(&timed, own, hot[0].code.as_ref().unwrap()) - 0.75).abs() < 1e-9);
    }
}
