//! Code that is not translated: its cost, and the decision to release a program for which the transitions cost too much. rprof
//! also releases a program that makes a task which no tracer may follow, or whose system calls depend on their addresses.
//!
//! ```text
//!  cache ─▶ native code ─▶ fault at the program's text ─▶ cache      one transition: up to two stops of the thread
//!
//!  (work + cost) / work > 3      work = CPU time a transition − that of two stops; cost = time of two stops
//! ```

use std::time::Instant;

use nix::unistd::Pid;

use crate::instrument::translator::program::excursions::{Excursion, StopCost};
use crate::instrument::translator::tracer::run::{Run, RunError};
use crate::instrument::translator::tracer::stop_the_world::Held;
use crate::instrument::translator::tracer::uncounted::Release;
use crate::profile::run::Warning;
use crate::tracee::address::Address;
use crate::tracee::proc_status::{read_cpu_seconds, read_status};
use crate::tracee::remote::Remote;
use crate::tracee::thread::Stopped;

/// System calls made to measure the cost of a stop; each stops twice.
const TRIALS: u32 = 4;

impl Run {
    /// A thread goes to native code.
    pub fn enter_native(&mut self, tid: Pid, at: Address) {
        self.end_burst(tid);
        let Ok(why) = self.address_space(tid).map(|address_space| address_space.untranslated(at)) else { return };
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
        self.address_spaces.get_mut(&thread.address_space)?.transitions.add(since_last, Instant::now())
    }

    /// Whether transitions that take `cpu_s` each, including work, slow the program of a stopped thread down too much.
    pub fn is_unbearable(&mut self, stopped: Stopped, cpu_s: f64) -> Result<(Stopped, bool), RunError> {
        let tid = stopped.tid();
        // A system call by rprof might end it.
        if read_status(tid).is_ok_and(|s| s.may_be_filtered_more_than_us()) {
            return Ok((stopped, false));
        }
        let (stopped, stop) = self.try_stops(stopped)?;
        let address_space = self.address_space(tid)?;
        Ok((stopped, address_space.transitions.judge(cpu_s, stop)))
    }

    /// Measures the cost of a stop, on a stopped thread.
    fn try_stops(&mut self, stopped: Stopped) -> Result<(Stopped, StopCost), RunError> {
        let tid = stopped.tid();
        let address_space = self.address_space(tid)?;
        let gadget = address_space.image.cache.borrow().arenas.first().map(|a| a.stubs.gadget).ok_or(RunError::Gone)?;
        let mut remote = Remote::new(stopped, &address_space.memory, Address::new(gadget.get()))?;
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
        let Some(space) = self.threads.get(&tid).map(|t| t.address_space) else { return };
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
