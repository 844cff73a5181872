//! Opening perf's events: for samples on every CPU and on our own thread, the best that this host grants; for markers, a breakpoint on a
//! function.
//!
//! ```text
//!  cycles ─(no PMU, or it does not interrupt)─▶ cpu-clock
//!  kernel included ─(not allowed)─▶ user space alone
//!  build ids in mapping records ─(kernel before 5.12)─▶ without
//!  large buffers ─(locked-memory limit)─▶ smaller ones
//!  1 kHz ─(an interrupt is dear here)─▶ a rate that costs little
//! ```
//!
//! rprof tries each of them in turn; it does not read `perf_event_paranoid` and the like.

use std::io;

use nix::unistd::{Pid, SysconfVar, sysconf};
use perf_event::events::{Breakpoint, Hardware, Software};
use perf_event::{Builder, Clock, Counter, SampleFlag};

use crate::x86_64::registers;
use rprof_tracee::sampling_clock;

use super::sampled::SampledEvent;
use crate::SampleOptions;

/// The deepest frame-pointer chain that rprof asks the kernel for.
const CHAIN_DEPTH: u16 = 127;

/// Bytes of a ring buffer: for root as large as may be locked, and for others within the default of `perf_event_mlock_kb` (516
/// KiB per CPU).
const RING_BYTES_ROOT: usize = 2 << 20;
const RING_BYTES_USER: usize = 512 << 10;
const RING_BYTES_LEAST: usize = 32 << 10;

/// The event that makes samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The PMU's cycle counter.
    Cycles,
    /// The kernel's timer.
    CpuClock,
}

/// How the event was opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Terms {
    pub trigger: Trigger,
    /// The kernel's own time is sampled, too.
    pub kernel: bool,
    /// Samples per second of CPU time, as granted.
    pub frequency_hz: f64,
    pub build_id: bool,
    pub stack_bytes: u32,
}

impl Terms {
    /// Whether the CPUs' clocks follow from the samples: the cycles between two of them are those of all the time between them.
    pub fn tell_clocks(self) -> bool {
        self.trigger == Trigger::Cycles && self.kernel
    }
}

/// One ring buffer per CPU, armed to start when the child executes the program.
pub(super) struct Opened {
    pub rings: Vec<SampledEvent>,
    /// The CPU of each.
    pub cpus: Vec<usize>,
    pub terms: Terms,
}

/// The first terms to try. `greatest_rate`: for an event with a rate that the kernel limits; it does not limit that of its own
/// timer.
pub(super) fn wanted(cycles_interrupt: bool, options: &SampleOptions, greatest_rate: f64) -> Terms {
    let trigger = if cycles_interrupt { Trigger::Cycles } else { Trigger::CpuClock };
    let highest_hz = options.highest_hz();
    let frequency_hz = if trigger == Trigger::Cycles { highest_hz.min(greatest_rate) } else { highest_hz };
    Terms { trigger, kernel: true, frequency_hz, build_id: true, stack_bytes: options.stack_bytes }
}

/// The same on these terms, or on the best terms that the host grants.
pub(super) fn open_on(terms: Terms, child: Pid) -> io::Result<Opened> {
    let ring_bytes = if nix::unistd::geteuid().is_root() { RING_BYTES_ROOT } else { RING_BYTES_USER };
    let (rings, terms) = granted(terms, ring_bytes, |terms, ring_bytes| open_everywhere(child, terms, ring_bytes))?;
    let (cpus, rings) = rings.into_iter().unzip();
    Ok(Opened { rings, cpus, terms })
}

/// The same on the first thread of a process that runs already, to be enabled.
pub(super) fn open_on_running(terms: Terms, pid: Pid) -> io::Result<Opened> {
    let ring_bytes = if nix::unistd::geteuid().is_root() { RING_BYTES_ROOT } else { RING_BYTES_USER };
    let (rings, terms) = granted(terms, ring_bytes, |terms, ring_bytes| {
        open_each(ring_bytes, |cpu| builder(pid, cpu, terms, ring_bytes).enable_on_exec(false).build())
    })?;
    let (cpus, rings) = rings.into_iter().unzip();
    Ok(Opened { rings, cpus, terms })
}

/// The event on one CPU for one more thread of such a process, without a ring of its own.
pub(super) fn on_running_thread(tid: Pid, cpu: usize, terms: Terms) -> io::Result<Counter> {
    builder(tid, cpu, terms, RING_BYTES_LEAST).enable_on_exec(false).build()
}

/// The result of `open` on these terms or, as long as it refuses, on the next lower ones; with the terms that it took.
fn granted<T>(
    mut terms: Terms,
    mut ring_bytes: usize,
    mut open: impl FnMut(Terms, usize) -> Result<T, Refusal>,
) -> io::Result<(T, Terms)> {
    loop {
        let error = match open(terms, ring_bytes) {
            Ok(opened) => return Ok((opened, terms)),
            Err(error) => error,
        };
        match error {
            Refusal::Open(e) if is_denied(&e) && terms.kernel => terms.kernel = false,
            Refusal::Open(e) if e.kind() == io::ErrorKind::InvalidInput && terms.build_id => terms.build_id = false,
            Refusal::Open(e) if !is_denied(&e) && terms.trigger == Trigger::Cycles => {
                terms = Terms { trigger: Trigger::CpuClock, kernel: true, build_id: true, ..terms };
            }
            Refusal::Map(_) if ring_bytes > RING_BYTES_LEAST => ring_bytes /= 2,
            Refusal::Open(e) | Refusal::Map(e) => return Err(e),
        }
    }
}

/// The same event on the calling thread alone, to be enabled by it.
pub(super) fn on_this_thread(terms: Terms) -> io::Result<SampledEvent> {
    let room = (4 * terms.stack_bytes as usize).next_power_of_two().max(RING_BYTES_LEAST);
    // No wake-up is needed: a ring of that size is never full.
    let mut b = builder(nix::unistd::gettid(), 0, terms, 2 * RING_BYTES_ROOT);
    b.any_cpu().inherit(false).enable_on_exec(false);
    SampledEvent::new(b.build()?, room)
}

enum Refusal {
    Open(io::Error),
    Map(io::Error),
}

fn open_everywhere(child: Pid, terms: Terms, ring_bytes: usize) -> Result<Vec<(usize, SampledEvent)>, Refusal> {
    open_each(ring_bytes, |cpu| builder(child, cpu, terms, ring_bytes).build())
}

/// A ring for every CPU that is online.
fn open_each(
    ring_bytes: usize,
    open: impl Fn(usize) -> io::Result<Counter>,
) -> Result<Vec<(usize, SampledEvent)>, Refusal> {
    let cpus = sysconf(SysconfVar::_NPROCESSORS_CONF).ok().flatten().unwrap_or(1);
    let mut rings = Vec::new();
    let mut offline = None;
    for cpu in 0..cpus as usize {
        let counter = match open(cpu) {
            Ok(counter) => counter,
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {
                offline = Some(e);
                continue;
            }
            Err(e) => return Err(Refusal::Open(e)),
        };
        rings.push((cpu, SampledEvent::new(counter, ring_bytes).map_err(Refusal::Map)?));
    }
    match offline {
        Some(e) if rings.is_empty() => Err(Refusal::Open(e)),
        _ => Ok(rings),
    }
}

/// The fields of every sample.
const SAMPLED: SampleFlag = SampleFlag::IP
    .union(SampleFlag::TID)
    .union(SampleFlag::TIME)
    .union(SampleFlag::PERIOD)
    .union(SampleFlag::CALLCHAIN)
    .union(SampleFlag::CPU);

fn builder(child: Pid, cpu: usize, terms: Terms, ring_bytes: usize) -> Builder<'static> {
    let mut b = match terms.trigger {
        Trigger::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Trigger::CpuClock => Builder::new(Software::CPU_CLOCK),
    };
    match terms.trigger {
        Trigger::Cycles => b.sample_frequency(terms.frequency_hz as u64),
        Trigger::CpuClock => b.sample_period(sampling_clock::period_ns(terms.frequency_hz, cpu as u32)),
    };
    b.observe_pid(child.as_raw())
        .one_cpu(cpu)
        .inherit(true)
        .enabled(false)
        .enable_on_exec(true)
        .exclude_kernel(!terms.kernel)
        .exclude_hv(true)
        .clockid(Clock::MONOTONIC)
        .sample_id_all(true)
        .sample(SAMPLED)
        .exclude_callchain_kernel(true)
        .sample_max_stack(CHAIN_DEPTH)
        .mmap(true)
        .mmap2(true)
        .build_id(terms.build_id)
        .comm(true)
        .comm_exec(true)
        .task(true)
        .context_switch(true)
        .wakeup_watermark(ring_bytes / 2);
    if terms.stack_bytes > 0 {
        b.sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER)
            .sample_regs_user(registers::perf_mask())
            .sample_stack_user(terms.stack_bytes);
    }
    b
}

/// A breakpoint on `at`, or the base of another event of that kind, in a thread and all that it will create, or in all processes:
/// it makes records that look like the samples on these terms.
pub(super) fn marker_event(thread: Option<Pid>, cpu: usize, terms: Terms, at: u64) -> Builder<'static> {
    /// The least that is copied of a stack.
    const STACK: u32 = 8;
    let mut b = Builder::new(Breakpoint::execute(at));
    match thread {
        Some(thread) => b.observe_pid(thread.as_raw()).inherit(true),
        None => b.any_pid(),
    };
    b.one_cpu(cpu)
        .enabled(true)
        .exclude_kernel(true)
        .exclude_hv(true)
        .clockid(Clock::MONOTONIC)
        .sample_id_all(true)
        .sample_period(1)
        .sample(SAMPLED)
        .exclude_callchain_kernel(true)
        .sample_max_stack(1);
    if terms.stack_bytes > 0 {
        b.sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER)
            .sample_regs_user(registers::perf_mask())
            .sample_stack_user(STACK);
    }
    b
}

fn is_denied(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// The kernel's present limit for frequencies; it refuses any above.
pub(super) fn greatest_rate() -> f64 {
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    limit.ok().and_then(|s| s.trim().parse().ok()).unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> SampleOptions {
        SampleOptions { frequency_hz: Some(4000.0), ..SampleOptions::default() }
    }

    /// (trigger, kernel, build ids) of the terms tried in turn on a host that grants an event if `grants` says so and else
    /// refuses with the error number that it gives; the last one was opened.
    fn tried(first: Terms, refuses: impl Fn(Terms) -> Option<i32>) -> Vec<(Trigger, bool, bool)> {
        let mut tried = Vec::new();
        let opened = granted(first, RING_BYTES_USER, |terms, _| {
            tried.push((terms.trigger, terms.kernel, terms.build_id));
            refuses(terms).map_or(Ok(()), |errno| Err(Refusal::Open(io::Error::from_raw_os_error(errno))))
        });
        assert_eq!(opened.ok().map(|(_, terms)| terms.trigger), tried.last().map(|last| last.0));
        tried
    }

    #[test]
    fn cycles_are_wanted_where_they_interrupt_at_no_more_than_the_kernels_limit() {
        let (with, without) = (wanted(true, &options(), 1000.0), wanted(false, &options(), 1000.0));
        assert_eq!((with.trigger, with.frequency_hz), (Trigger::Cycles, 1000.0));
        assert_eq!((without.trigger, without.frequency_hz), (Trigger::CpuClock, 4000.0));
    }

    #[test]
    fn cycles_that_cannot_be_opened_fall_back_to_the_cpu_clock_with_all_it_may_have() {
        let cycles = wanted(true, &options(), f64::INFINITY);
        let (cpu, clock) = (Trigger::Cycles, Trigger::CpuClock);
        let no_pmu = tried(cycles, |terms| (terms.trigger == cpu).then_some(libc::ENOENT));
        assert_eq!(no_pmu, [(cpu, true, true), (clock, true, true)]);
        // Not the kernel's own time, and the counter is taken.
        let busy = tried(cycles, |terms| match terms {
            Terms { trigger: Trigger::CpuClock, .. } => None,
            Terms { kernel: true, .. } => Some(libc::EACCES),
            _ => Some(libc::EBUSY),
        });
        assert_eq!(busy, [(cpu, true, true), (cpu, false, true), (clock, true, true)]);
        // An event that may not be opened at all is no reason to try another.
        assert_eq!(
            granted(cycles, RING_BYTES_USER, |_, _| Err::<(), _>(Refusal::Open(io::Error::from_raw_os_error(
                libc::EPERM
            ))))
            .map_err(|e| e.raw_os_error())
            .err(),
            Some(Some(libc::EPERM))
        );
    }

    #[test]
    fn buffers_shrink_before_anything_else_is_given_up() {
        let mut sizes = Vec::new();
        let cycles = wanted(true, &options(), f64::INFINITY);
        let opened = granted(cycles, RING_BYTES_USER, |_, ring_bytes| {
            sizes.push(ring_bytes);
            if ring_bytes > RING_BYTES_LEAST { Err(Refusal::Map(io::ErrorKind::OutOfMemory.into())) } else { Ok(()) }
        });
        assert_eq!(opened.unwrap().1, cycles);
        assert_eq!((sizes.len(), sizes.last()), (5, Some(&RING_BYTES_LEAST)));
    }
}
