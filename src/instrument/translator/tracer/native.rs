//! Code that is not translated: its cost, and the decision to release a program for which the transitions cost too much. rprof
//! also releases a program that makes a task which no tracer may follow, or whose system calls depend on their addresses.
//!
//! ```text
//!  cache ─▶ native code ─▶ fault at the program's text ─▶ cache      one transition: up to two stops of the thread
//!
//!  (work + cost) / work > 3      work = CPU time a transition − that of two stops; cost = time of two stops
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::instrument::translator::kernel::text_ranges::{Untranslated, WITHOUT_JIT};
use crate::instrument::translator::tracer::event_loop::{Run, RunError};
use crate::instrument::translator::tracer::stop_the_world::Held;
use crate::profile::evidence::counted::Missing;
use crate::profile::run::Warning;
use crate::tracee::address::Address;
use crate::tracee::proc_status::{read_cpu_seconds, read_status};
use crate::tracee::remote::Remote;
use crate::tracee::thread::Stopped;

/// Time over which rprof watches transitions before a decision.
const WINDOW: Duration = Duration::from_millis(300);
/// Number of consecutive windows that must be too costly.
const WINDOWS: u32 = 2;
/// Only windows with more transitions than this are judged.
const MANY: u32 = 500;
/// Slowdown by transitions beyond which rprof releases a program.
const UNBEARABLE: f64 = 3.0;
/// Effect of native execution on the counts, for warnings.
const NOT_COUNTED: &str = "its instructions are not in the counts";
/// System calls made to measure the cost of a stop; each stops twice.
const TRIALS: u32 = 4;

/// The time at which a thread went to native code.
#[derive(Debug, Clone, Copy)]
pub struct Excursion {
    /// Why the code there is not translated.
    pub why: Untranslated,
    since: Instant,
    /// Its CPU seconds then.
    cpu_s: Option<f64>,
}

impl Excursion {
    /// Thread `tid` is about to go to code that is not translated for this reason.
    pub fn begin(tid: Pid, why: Untranslated) -> Self {
        Excursion { why, since: Instant::now(), cpu_s: read_cpu_seconds(tid) }
    }

    /// CPU seconds spent; `cpu_s` are the thread's now. For a thread that has ended, only the elapsed time is known. The kernel
    /// updates a running thread's CPU time only now and then, so the elapsed time is also an upper bound.
    fn spent(&self, cpu_s: Option<f64>) -> f64 {
        let elapsed = self.since.elapsed().as_secs_f64();
        cpu_s.zip(self.cpu_s).map_or(elapsed, |(now, then)| (now - then).min(elapsed))
    }
}

/// Counts how often an address space goes to native code and back.
#[derive(Debug)]
pub struct Transitions {
    window: Instant,
    count: u32,
    cpu_s: f64,
    costly_windows: u32,
}

impl Transitions {
    /// None yet.
    pub fn new() -> Self {
        Transitions { window: Instant::now(), count: 0, cpu_s: 0.0, costly_windows: 0 }
    }

    /// Adds a transition; its thread used `cpu_s` since its previous one. At the end of a window with many: CPU seconds per
    /// transition.
    fn add(&mut self, cpu_s: f64, now: Instant) -> Option<f64> {
        self.count += 1;
        self.cpu_s += cpu_s;
        if now.saturating_duration_since(self.window) < WINDOW {
            return None;
        }
        let (count, sum) = (std::mem::take(&mut self.count), std::mem::take(&mut self.cpu_s));
        self.window = now;
        if count > MANY {
            return Some(sum / f64::from(count));
        }
        self.costly_windows = 0;
        None
    }

    /// Judges a window; returns whether to release the program.
    fn judge(&mut self, cpu_s: f64, stop: StopCost) -> bool {
        let work = (cpu_s - 2.0 * stop.cpu_s).max(0.0);
        let costly = work + 2.0 * stop.wall_s > UNBEARABLE * work;
        self.costly_windows = if costly { self.costly_windows + 1 } else { 0 };
        self.costly_windows >= WINDOWS
    }
}

/// The cost of stopping and resuming a thread, in seconds.
#[derive(Debug, Clone, Copy)]
struct StopCost {
    wall_s: f64,
    cpu_s: f64,
}

/// Why a process was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Transitions slowed it down too much.
    Unbearable,
    /// It makes a task that no tracer may follow (`CLONE_UNTRACED`): as a rule one that will trace it with ptrace.
    Untraced,
    /// It has the kernel dispatch its system calls by their addresses (`PR_SET_SYSCALL_USER_DISPATCH`).
    Dispatch,
    /// It installs a seccomp filter that reads the address of a system call.
    FilterByAddress,
}

impl Release {
    /// All of them.
    const ALL: [Release; 4] = [Release::Unbearable, Release::Untraced, Release::Dispatch, Release::FilterByAddress];

    /// What the program does.
    pub fn reason(self) -> &'static str {
        match self {
            Release::Unbearable => {
                "going between counted code and code that is not translated slowed it down more than threefold"
            }
            Release::Untraced => {
                "it made a task that no tracer may follow (CLONE_UNTRACED), as the leak check of a sanitizer does at exit"
            }
            Release::Dispatch => {
                "it dispatches its system calls by their addresses (PR_SET_SYSCALL_USER_DISPATCH), which are others in \
                 translated code"
            }
            Release::FilterByAddress => {
                "it filters its system calls by their addresses (seccomp), which are others in translated code"
            }
        }
    }

    /// What helps.
    fn hint(self) -> &'static str {
        match self {
            Release::Unbearable => WITHOUT_JIT,
            Release::Untraced => {
                "ASAN_OPTIONS=detect_leaks=0 (LSAN_OPTIONS for -fsanitize=leak) leaves the leak check out"
            }
            Release::Dispatch | Release::FilterByAddress => {
                "run the program without that restriction, where it has such a switch; hardware counters count all of it"
            }
        }
    }
}

/// The execution that was not counted in a run.
#[derive(Debug, Default)]
pub struct Uncounted {
    /// By reason: (transitions to native code, CPU seconds there).
    native: BTreeMap<Untranslated, (u64, f64)>,
    /// Released processes: (reason, seconds since the start of the run).
    released: Vec<(Release, f64)>,
    /// A program that a process executed was not followed.
    pub unfollowed: bool,
}

impl Uncounted {
    /// What the counts lack.
    pub fn missing(&self) -> Missing {
        let executions = self.unfollowed || !self.released.is_empty();
        if executions { Missing::Executions } else { Missing::OtherCode }
    }

    /// Adds a transition to native code.
    pub fn note(&mut self, why: Untranslated) {
        self.native.entry(why).or_default().0 += 1;
    }

    /// Adds CPU seconds in native code.
    fn add_time(&mut self, why: Untranslated, cpu_s: f64) {
        self.native.entry(why).or_default().1 += cpu_s;
    }

    /// The warnings about native code.
    fn doubts_of_native(&self) -> impl Iterator<Item = Warning> + '_ {
        self.native.iter().map(|(why, (transitions, cpu_s))| {
            let (what, hint) = why.words();
            let text = format!("{what} was executed natively ({transitions} transitions, {cpu_s:.3} s)");
            Warning::new("native-code", text, NOT_COUNTED, hint)
        })
    }

    /// The warning about processes released for that reason; `beyond` are the CPU seconds of all released processes.
    fn doubt(&self, why: Release, beyond: f64) -> Option<Warning> {
        let mut times = self.released.iter().filter(|r| r.0 == why).map(|r| r.1);
        let first = times.next()?;
        let who = match times.count() {
            0 => "the program ran natively".to_owned(),
            others => format!("{} processes ran natively, the first", others + 1),
        };
        let text = format!("{}: {who} from {first:.2} s on, {beyond:.3} s of CPU time", why.reason());
        Some(Warning::new("released", text, NOT_COUNTED, why.hint()))
    }
}

impl Run {
    /// A thread goes to native code.
    pub fn enter_native(&mut self, tid: Pid, at: Address) {
        self.end_burst(tid);
        let Ok(why) = self.process(tid).map(|(process, _)| process.untranslated(at)) else { return };
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.native = Some(Excursion::begin(tid, why));
            self.uncounted.note(why);
        }
    }

    /// A thread is in the cache again, or at its end. At the end of a window with many transitions: CPU seconds per transition.
    pub fn leave_native(&mut self, tid: Pid) -> Option<f64> {
        let thread = self.threads.get_mut(&tid)?;
        let excursion = thread.native.take()?;
        thread.in_native_call = false;
        let cpu_s = read_cpu_seconds(tid);
        self.uncounted.add_time(excursion.why, excursion.spent(cpu_s));
        let since_last = cpu_s.map_or(0.0, |now| now - std::mem::replace(&mut thread.cpu_at_transition, now));
        self.processes.get_mut(&thread.process)?.transitions.add(since_last, Instant::now())
    }

    /// Whether transitions that take `cpu_s` each, including work, slow the program of a stopped thread down too much.
    pub fn is_unbearable(&mut self, stopped: Stopped, cpu_s: f64) -> Result<(Stopped, bool), RunError> {
        let tid = stopped.tid();
        // A system call by rprof might end it.
        if read_status(tid).is_ok_and(|s| s.filtered) {
            return Ok((stopped, false));
        }
        let (stopped, stop) = self.try_stops(stopped)?;
        let (process, _) = self.process(tid)?;
        Ok((stopped, process.transitions.judge(cpu_s, stop)))
    }

    /// Measures the cost of a stop, on a stopped thread.
    fn try_stops(&mut self, stopped: Stopped) -> Result<(Stopped, StopCost), RunError> {
        let tid = stopped.tid();
        let (process, _) = self.process(tid)?;
        let gadget = process.image.space.borrow().arenas.first().map(|a| a.stubs.gadget).ok_or(RunError::Gone)?;
        let mut remote = Remote::new(stopped, &process.memory, Address::new(gadget.get()))?;
        let (begin, cpu_s) = (Instant::now(), read_cpu_seconds(tid).unwrap_or(0.0));
        for _ in 0..TRIALS {
            remote.call("getpid", libc::SYS_getpid, [0; 6])?;
        }
        let stops = f64::from(2 * TRIALS);
        let wall_s = begin.elapsed().as_secs_f64() / stops;
        let cpu_s = (read_cpu_seconds(tid).unwrap_or(cpu_s) - cpu_s) / stops;
        let (stopped, signals) = remote.finish()?;
        if let Some(thread) = self.threads.get_mut(&tid) {
            signals.into_iter().for_each(|(signal, info)| thread.defer(signal, info));
        }
        Ok((stopped, StopCost { wall_s, cpu_s }))
    }

    /// Lets the address space of `stopped` run on natively.
    pub fn let_go(&mut self, stopped: Stopped, why: Release) {
        let tid = stopped.tid();
        let Some(space) = self.threads.get(&tid).map(|t| t.process) else { return };
        let mut held = self.hold(space, Some(tid));
        held.push(Held { stopped, signal: None, job: false });
        self.uncounted.released.push((why, self.roster.now_s()));
        self.detach(space, held);
    }

    /// Summary of uncounted execution: (CPU seconds of the run, uncounted share, warnings). `cpu_s` are the CPU seconds of
    /// threads while rprof followed them.
    pub fn sum_up_uncounted(&self, cpu_s: f64) -> (f64, f64, Vec<Warning>) {
        let uncounted = &self.uncounted;
        let released = !uncounted.released.is_empty();
        let native: f64 = uncounted.native.values().map(|(_, cpu_s)| cpu_s).sum();
        // Of the released processes, rprof knows the CPU time only of the first process and of those that it waited for.
        let beyond = self.family_cpu_s.filter(|_| released).map_or(0.0, |family| (family - cpu_s).max(0.0));
        let total = cpu_s + beyond;
        let share = if total > 0.0 { ((native + beyond) / total).min(1.0) } else { 0.0 };
        let mut doubts: Vec<Warning> = uncounted.doubts_of_native().collect();
        doubts.extend(Release::ALL.into_iter().filter_map(|why| uncounted.doubt(why, beyond)));
        (total, share, doubts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_transitions_are_looked_at_by_the_window() {
        let mut transitions = Transitions::new();
        let start = transitions.window;
        let mut window = |from: u64, count: u64| {
            let at = |i: u64| start + Duration::from_micros(1000 * from + (i + 1) * 300_000 / count);
            (0..count).filter_map(|i| transitions.add(5e-6, at(i))).map(|each| (each * 1e9).round()).collect::<Vec<_>>()
        };
        assert_eq!(window(0, 1000), [5000.0]);
        assert!(window(300, 100).is_empty());
        assert_eq!(window(600, 2000), [5000.0]);
    }

    #[test]
    fn two_costly_windows_in_a_row_are_too_much() {
        let mut transitions = Transitions::new();
        let stop = StopCost { wall_s: 20e-6, cpu_s: 5e-6 };
        // 40 µs of stops beside 2 µs of work, beside 100 µs of work.
        assert!(!transitions.judge(12e-6, stop));
        assert!(!transitions.judge(110e-6, stop));
        assert!(!transitions.judge(12e-6, stop));
        assert!(transitions.judge(12e-6, stop));
    }
}
