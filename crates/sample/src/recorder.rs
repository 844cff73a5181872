//! Turns the observations of a source, event by event in time order, into evidence.

use std::collections::HashMap;

use rprof_profile::code::CodeRef;
use rprof_profile::evidence::timed::{BlockedIn, MappingChange, MappingEvent, Sample, TimedEvidence};
use rprof_profile::run::Warning;
use rprof_tracee::jit_places;
use rprof_tracee::markers::call::Mark;

use super::cut_stacks::CutStacks;
use super::marks::Marks;
use super::modules::{MappedFile, Modules};
use super::process::Process;
use super::store::Store;
use super::threads::Threads;
use super::unwind::{self, Rules, StackTop, Unwound};
use super::weights::{self, Scale};
use super::x86_64::registers::Registers;

/// Collects events. Times are nanoseconds of CLOCK_MONOTONIC.
pub(super) struct Recorder {
    start_ns: Option<u64>,
    /// Threads seen so far.
    pub threads: Threads,
    processes: HashMap<u32, Process>,
    modules: Modules,
    rules: Rules,
    samples: Store,
    mappings: Vec<MappingEvent>,
    last_exit_ns: u64,
    /// The first process, and whether code was mapped into it since it last executed a program.
    first: Option<(u32, bool)>,
    /// Marker calls.
    pub marks: Marks,
    /// Mappings may be missing, because records were lost or because the source has none: look into `/proc`.
    pub reread_maps: bool,
    /// Stacks with unknown callers.
    stacks: CutStacks,
}

/// A sample as a source took it.
#[derive(Clone, Copy)]
pub(super) struct Observation<'a> {
    /// When.
    pub time_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Period in the source's unit; becomes seconds in [`Recorder::finish`].
    pub period: f64,
    /// Taken in the kernel.
    pub kernel: bool,
    /// The thread was not on a CPU.
    pub off_cpu: bool,
    /// The place the thread was blocked at, if it was and if the source knows it.
    pub blocked: Option<BlockedIn>,
    /// The CPU's number, if known.
    pub cpu: Option<u32>,
    /// The user-space instruction, if there was a user context.
    pub ip: Option<u64>,
    /// User registers, if they were taken.
    pub registers: Option<Registers>,
    /// Copy of the top of the user stack.
    pub stack: StackTop<'a>,
    /// Return addresses by frame pointers, the leaf left out.
    pub chain: &'a [u64],
}

/// The facts that a source knows at its end.
pub(super) struct Ending {
    /// `perf:cycles`, `perf:cpu-clock`, `ptrace`.
    pub source: &'static str,
    /// When the pass ended, in nanoseconds of CLOCK_MONOTONIC, if that is not the last exit seen.
    pub end_ns: Option<u64>,
    /// CPU seconds of the program; `None` takes the sum over its threads, which context-switch records make exact.
    pub cpu_s: Option<f64>,
    /// See [`Scale`].
    pub scale: Scale,
    /// Rate asked for.
    pub frequency_hz: f64,
    /// Samples lost.
    pub lost: u64,
    /// Minor and major page faults.
    pub page_faults: Option<(u64, u64)>,
    /// Why blocked threads were not looked at, if they were not.
    pub blocked_missing: Option<String>,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

impl Recorder {
    /// Nothing seen yet.
    pub fn new() -> Recorder {
        Recorder {
            start_ns: None,
            threads: Threads::default(),
            processes: HashMap::new(),
            modules: Modules::default(),
            rules: Rules::new(),
            samples: Store::default(),
            mappings: Vec::new(),
            last_exit_ns: 0,
            first: None,
            marks: Marks::default(),
            reread_maps: false,
            stacks: CutStacks::default(),
        }
    }

    /// For a program that ran before: nothing is asked of the kernel.
    pub fn of_the_past() -> Recorder {
        Recorder { threads: Threads::of_the_past(), ..Recorder::new() }
    }

    /// The pass begins at `time_ns`, unless it did before.
    pub fn begin(&mut self, time_ns: u64) {
        self.start_ns.get_or_insert(time_ns);
    }

    /// Process `pid` executed a program; the first one starts the pass. All that was mapped is gone.
    pub fn exec(&mut self, time_ns: u64, pid: u32, tid: u32) {
        self.start_ns.get_or_insert(time_ns);
        let now = self.seconds(time_ns);
        if self.first.is_none_or(|(first, _)| first == pid) {
            self.first = Some((pid, false));
        }
        self.processes.insert(pid, Process::new(pid));
        self.modules.executed(pid);
        self.mappings.push(MappingEvent { time_ns, pid, change: MappingChange::Executed });
        let thread = self.threads.index(pid, tid, now);
        self.marks.ended(now, thread);
    }

    /// A thread made a marker call.
    pub fn mark(&mut self, time_ns: u64, pid: u32, tid: u32, mark: Mark) {
        let now = self.seconds(time_ns);
        let thread = self.threads.index(pid, tid, now);
        self.marks.called(now, thread, mark);
    }

    /// A thread or process was created by `parent` (a process).
    pub fn fork(&mut self, time_ns: u64, parent: u32, parent_tid: u32, pid: u32, tid: u32) {
        let now = self.seconds(time_ns);
        if pid != parent
            && let Some(process) = self.processes.get(&parent)
        {
            let child = process.forked(pid);
            self.processes.insert(pid, child);
            jit_places::forked(parent, pid);
            self.mappings.push(MappingEvent { time_ns, pid, change: MappingChange::Forked { parent } });
        }
        let creator = self.threads.index(parent, parent_tid, now);
        let name = self.threads.infos()[creator as usize].name.clone();
        let thread = self.threads.start(pid, tid, now);
        if pid != parent {
            self.marks.forked(now, creator, thread);
        }
        if let Some(name) = name.filter(|_| !self.threads.is_kernel_worker(tid)) {
            self.threads.name(thread, name);
        }
    }

    /// A thread ended.
    pub fn exit(&mut self, time_ns: u64, tid: u32) {
        let now = self.seconds(time_ns);
        if let Some(thread) = self.threads.end(tid, now) {
            self.marks.ended(now, thread);
        }
        self.last_exit_ns = self.last_exit_ns.max(time_ns);
        if self.processes.contains_key(&tid) {
            jit_places::collect(tid);
        }
    }

    /// A thread got a name.
    pub fn name(&mut self, time_ns: u64, pid: u32, tid: u32, name: String) {
        let thread = self.threads.index(pid, tid, self.seconds(time_ns));
        if !self.threads.is_kernel_worker(tid) {
            self.threads.name(thread, name);
        }
    }

    /// A thread was put on a CPU.
    pub fn enter_cpu(&mut self, time_ns: u64, pid: u32, tid: u32) {
        let now = self.seconds(time_ns);
        let thread = self.threads.index(pid, tid, now);
        if !self.threads.is_kernel_worker(tid) {
            self.threads.enter_cpu(thread, now);
        }
    }

    /// A thread left its CPU; `preempted`: although it could have run on.
    pub fn leave_cpu(&mut self, time_ns: u64, pid: u32, tid: u32, preempted: bool) {
        let now = self.seconds(time_ns);
        let thread = self.threads.index(pid, tid, now);
        if !self.threads.is_kernel_worker(tid) {
            self.threads.leave_cpu(thread, now, preempted);
        }
    }

    /// Executable memory was mapped.
    pub fn map(&mut self, time_ns: u64, mapped: MappedFile, length: u64) {
        let process = self.processes.entry(mapped.pid).or_insert_with_key(|pid| Process::new(*pid));
        let (pid, start) = (mapped.pid, mapped.start);
        if let Some((_, has_code)) = self.first.as_mut().filter(|(first, _)| *first == pid) {
            *has_code = true;
        }
        let (module, bias) = process.map(&mut self.modules, mapped, length);
        let change = MappingChange::Mapped { start, end: start.saturating_add(length), module, bias };
        self.mappings.push(MappingEvent { time_ns, pid, change });
    }

    /// Takes a sample in.
    pub fn sample(&mut self, seen: Observation) {
        let t_s = self.seconds(seen.time_ns);
        let thread = self.threads.index(seen.pid, seen.tid, t_s);
        if !self.samples.wants(thread) {
            return;
        }
        let stack = self.stack(&seen);
        let Observation { kernel, off_cpu, cpu, blocked, .. } = seen;
        let path = self.marks.path(thread);
        self.samples.push(Sample { t_s, weight_s: seen.period, thread, stack, kernel, off_cpu, cpu, blocked, path });
    }

    /// Whether the source lost sight of the first process, so that the exit that it saw is none. A source that reports all (`complete`)
    /// loses it while it executes a program, before its code is mapped. Without some records only times show it.
    pub fn lost_sight(&self, complete: bool, reaped_ns: u64, cpu_s: f64) -> bool {
        match self.first {
            Some((_, is_mapped)) if complete => !is_mapped,
            _ => self.went_on(reaped_ns, cpu_s),
        }
    }

    /// Whether the program seems to have gone on after its last event: it was reaped at `reaped_ns`, and had used `cpu_s` of CPU time.
    fn went_on(&self, reaped_ns: u64, cpu_s: f64) -> bool {
        const LATE_NS: u64 = 20_000_000;
        const SURELY_LATE_NS: u64 = 500_000_000;
        let late_ns = reaped_ns.saturating_sub(self.last_exit_ns);
        let seen_s: f64 = self.threads.infos().iter().map(|t| t.cpu_s).sum();
        late_ns > SURELY_LATE_NS || late_ns > LATE_NS && seen_s < cpu_s / 2.0
    }

    /// Ends the pass.
    pub fn finish(self, ending: Ending) -> TimedEvidence {
        self.processes.keys().for_each(|pid| jit_places::collect(*pid));
        let start_ns = self.start_ns.unwrap_or(ending.end_ns.unwrap_or(self.last_exit_ns));
        let end_ns = ending.end_ns.unwrap_or(self.last_exit_ns).max(start_ns);
        let mut samples = self.samples.into_samples();
        // perf samples a thread that ends after the record of its end, too.
        let last_s = samples.last().map_or(0.0, |sample| sample.t_s);
        let wall_s = ((end_ns - start_ns) as f64 * 1e-9).max(last_s);
        let mut threads = self.threads.finish(wall_s);
        weights::scale(&mut samples, &threads.infos, ending.scale);
        let cpu_s = ending.cpu_s.unwrap_or_else(|| threads.infos.iter().map(|t| t.cpu_s).sum());
        let mut warnings = ending.warnings;
        warnings.extend(self.stacks.warning());
        if let Some(gap_s) = threads.closed_gap {
            warnings.push(Warning::new(
                "short-waits-joined",
                format!("The program switched contexts so often that waits under {:.0} µs were joined.", gap_s * 1e6),
                "Elapsed time of functions may include such waits; CPU time is exact.",
                "Profile a shorter run.",
            ));
        }
        threads.on_cpu.retain(|i| i.end_s > i.start_s);
        TimedEvidence {
            source: ending.source.into(),
            wall_s,
            cpu_s,
            frequency_hz: ending.frequency_hz,
            lost: ending.lost,
            modules: self.modules.into_infos(),
            threads: threads.infos,
            samples,
            on_cpu: threads.on_cpu,
            start_ns,
            mappings: self.mappings,
            placements: Vec::new(),
            clocks: Vec::new(),
            clock_source: None,
            page_faults: ending.page_faults,
            part: None,
            apart: Vec::new(),
            blocked_missing: ending.blocked_missing,
            marks: self.marks.finish(wall_s),
            warnings,
        }
    }

    /// Seconds since the start of the pass; 0 for events before it.
    fn seconds(&self, time_ns: u64) -> f64 {
        self.start_ns.map_or(0.0, |start| time_ns.saturating_sub(start) as f64 * 1e-9)
    }

    fn stack(&mut self, seen: &Observation) -> Vec<CodeRef> {
        let Some(ip) = seen.ip else { return Vec::new() };
        let process = self.processes.entry(seen.pid).or_insert_with_key(|pid| Process::new(*pid));
        let rules = &mut self.rules;
        let mut unwound = |process: &Process| match seen.registers {
            Some(registers) => unwind::unwind(&process.tables, rules, registers, seen.stack, seen.chain),
            None => Unwound { addresses: unwind::from_chain(ip, seen.chain), is_cut: false },
        };
        let mut found = unwound(process);
        let is_unknown = |process: &Process| found.addresses.iter().any(|a| process.locate(*a).is_none());
        if self.reread_maps && is_unknown(process) && process.reread(&mut self.modules) {
            found = unwound(process);
        }
        let Unwound { addresses, is_cut } = found;
        self.stacks.note(is_cut, seen.stack.bytes.len());
        let anonymous = |modules: &mut Modules| CodeRef { module: modules.anonymous(seen.pid), offset: ip };
        let leaf = process.locate(ip).unwrap_or_else(|| anonymous(&mut self.modules));
        if self.modules.is_made_at_run_time(leaf.module) {
            jit_places::look(seen.pid);
        }
        let callers = addresses.iter().skip(1).map_while(|a| process.locate(*a));
        std::iter::once(leaf).chain(callers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn observation(time_ns: u64, tid: u32, chain: &[u64]) -> Observation<'_> {
        Observation {
            time_ns,
            pid: 10,
            tid,
            period: 1.0,
            kernel: false,
            off_cpu: false,
            blocked: None,
            cpu: None,
            ip: Some(0x1010),
            registers: None,
            stack: StackTop::default(),
            chain,
        }
    }

    fn ending() -> Ending {
        Ending {
            source: "perf:cpu-clock",
            end_ns: None,
            cpu_s: None,
            scale: Scale::PerThread,
            frequency_hz: 1.0,
            lost: 0,
            page_faults: None,
            blocked_missing: None,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_sample_after_the_last_end_is_within_the_pass() {
        let mut r = Recorder::new();
        r.exec(5 * SECOND, 10, 10);
        r.exit(9 * SECOND, 10);
        r.sample(observation(9 * SECOND + 1000, 10, &[]));
        let e = r.finish(ending());
        assert_eq!(e.samples.len(), 1);
        assert_eq!(e.wall_s, e.samples[0].t_s);
    }

    #[test]
    fn events_become_evidence_relative_to_the_exec() {
        let mut r = Recorder::new();
        let anon = MappedFile { pid: 10, start: 0x1000, file_offset: 0, path: "//anon", inode: None, build_id: None };
        r.exec(5 * SECOND, 10, 10);
        r.enter_cpu(5 * SECOND, 10, 10);
        r.name(5 * SECOND, 10, 10, "main".into());
        r.map(5 * SECOND, anon, 0x1000);
        r.fork(6 * SECOND, 10, 10, 10, 11);
        r.enter_cpu(6 * SECOND, 10, 11);
        r.sample(observation(6 * SECOND, 11, &[0x1801, 0x9000, 0x1803]));
        r.leave_cpu(8 * SECOND, 10, 11, false);
        r.exit(8 * SECOND, 11);
        r.exit(9 * SECOND, 10);
        let e = r.finish(ending());
        assert_eq!((e.wall_s, e.cpu_s), (4.0, 6.0));
        assert_eq!(e.threads[1].name.as_deref(), Some("main"));
        assert_eq!((e.threads[1].start_s, e.threads[1].end_s, e.threads[1].cpu_s), (1.0, 3.0, 2.0));
        let sample = &e.samples[0];
        assert_eq!((sample.t_s, sample.weight_s, sample.thread), (1.0, 2.0, 1));
        let offsets: Vec<u64> = sample.stack.iter().map(|c| c.offset).collect();
        assert_eq!(offsets, [0x1010, 0x1800], "the stack ends where an address is not code");
    }

    #[test]
    fn sight_is_lost_where_the_program_went_on() {
        let mut r = Recorder::new();
        r.exec(SECOND, 10, 10);
        r.enter_cpu(SECOND, 10, 10);
        r.leave_cpu(SECOND + SECOND / 100, 10, 10, false);
        r.exit(SECOND + SECOND / 100, 10);
        assert!(r.lost_sight(false, SECOND + SECOND / 4, 0.2), "it computed on");
        assert!(r.lost_sight(false, 2 * SECOND, 0.01), "it slept on");
        assert!(!r.lost_sight(false, SECOND + SECOND / 4, 0.01), "we were late");
    }

    #[test]
    fn sight_is_lost_where_a_program_was_executed_whose_code_was_never_mapped() {
        let map = |pid| MappedFile { pid, start: 0x1000, file_offset: 0, path: "/bin/sh", inode: None, build_id: None };
        let mut r = Recorder::new();
        r.exec(0, 10, 10);
        r.map(1, map(10), 0x1000);
        r.exec(2, 20, 20);
        assert!(!r.lost_sight(true, 9 * SECOND, 1.0), "a child's own program is not ours, and a late look is none");
        r.exec(3, 10, 10);
        r.map(3, map(20), 0x1000);
        r.exit(4, 10);
        assert!(r.lost_sight(true, 4, 0.0));
    }

    #[test]
    fn a_forked_process_has_its_parents_mappings_until_it_executes() {
        let mut r = Recorder::new();
        r.exec(0, 10, 10);
        r.map(
            0,
            MappedFile { pid: 10, start: 0x1000, file_offset: 0, path: "//anon", inode: None, build_id: None },
            0x1000,
        );
        r.fork(1, 10, 10, 20, 20);
        assert!(r.processes[&20].locate(0x1010).is_some());
        r.exec(2, 20, 20);
        assert!(r.processes[&20].locate(0x1010).is_none());
        assert!(r.processes[&10].locate(0x1010).is_some());
    }
}
