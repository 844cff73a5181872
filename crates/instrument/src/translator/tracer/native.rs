//! Code that is not translated: its cost, and the decision to release a program for which the transitions cost too much. rprof
//! also releases a program that makes a task which no tracer may follow, or has system calls that depend on their addresses.
//!
//! ```text
//!  cache ─▶ native code ─▶ fault at the program's text ─▶ cache      one transition: up to two stops of the thread
//!
//!  (work + cost) / work > 3      work = CPU time a transition − that of two stops; cost = time of two stops
//! ```

use std::time::Instant;

use nix::unistd::Pid;

use crate::translator::program::excursions::{Excursion, StopCost};
use crate::translator::tracer::program::{Program, remote_in};
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::uncounted::Uncounted;
use rprof_tracee::address::Address;
use rprof_tracee::proc_status::{read_cpu_seconds, read_status};
use rprof_tracee::thread::Stopped;

/// System calls made to measure the cost of a stop; each stops twice.
const TRIALS: u32 = 4;

impl Program {
    /// A thread goes to native code after its burst has ended.
    pub fn enter_native(&mut self, tid: Pid, at: Address, uncounted: &mut Uncounted) {
        let Ok(address_space) = self.address_space(tid) else { return };
        let Some(why) = address_space.untranslated(at) else { return };
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.native = Some(Excursion::begin(tid, why));
            uncounted.note(why);
        }
    }

    /// A thread is in the cache again, or at its end. At the end of a window with many transitions: CPU seconds per transition.
    pub fn leave_native(&mut self, tid: Pid, uncounted: &mut Uncounted) -> Option<f64> {
        let thread = self.threads.get_mut(&tid)?;
        let excursion = thread.native.take()?;
        let cpu_s = read_cpu_seconds(tid);
        uncounted.add_time(excursion.why, excursion.spent(cpu_s));
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
    pub fn try_stops(&mut self, stopped: Stopped) -> Result<(Stopped, StopCost), RunError> {
        let tid = stopped.tid();
        let address_space = self.address_space(tid)?;
        let mut remote = remote_in(address_space, stopped)?;
        let (begin, cpu_s) = (Instant::now(), read_cpu_seconds(tid).unwrap_or(0.0));
        for _ in 0..TRIALS {
            remote.call("getpid", libc::SYS_getpid, [0; 6])?;
        }
        let stops = f64::from(2 * TRIALS);
        let wall_s = begin.elapsed().as_secs_f64() / stops;
        let cpu_s = (read_cpu_seconds(tid).unwrap_or(cpu_s) - cpu_s) / stops;
        let (stopped, signals) = remote.finish()?;
        self.defer_all(tid, signals);
        Ok((stopped, StopCost { wall_s, cpu_s }))
    }
}
