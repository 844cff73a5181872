//! One copy, timed: its pages are written first, it runs for 20 ms, and then the time between two passings is taken.

use std::ops::Range;
use std::time::Duration;

use nix::unistd::Pid;

use rprof_profile::trial::Change;
use rprof_tracee::address::Address;
use rprof_tracee::proc_status::read_cpu_seconds;

use crate::breakpoint::Breakpoint;
use crate::copy::{Came, Copy};
use crate::error::CopyError;
use crate::pages;
use crate::pilot::{counting_registers, stop_at};
use crate::plan::{Failed, Plan, Progress};
use crate::variant;

/// Time that a copy runs before it is timed.
const WARM_UP: Duration = Duration::from_millis(20);
/// Time that is taken.
const TIMED: Duration = Duration::from_millis(40);
/// A copy with a change may take so many times as long.
const PATIENCE: u32 = 30;

/// Seconds of one passing in `copy`, with `change`.
///
/// # Errors
/// It has none.
pub fn measure(mut copy: Copy, plan: &Plan, change: Option<Change>) -> Result<f64, Failed> {
    let tid = copy.thread_of(plan.tid).ok_or(Failed::Late)?;
    write_pages(&mut copy, plan)?;
    variant::make(&mut copy, plan, change)?;
    match &plan.findings.progress {
        Progress::Passings { at, rate, .. } => {
            let number = |time: Duration| (time.as_secs_f64() * rate).ceil().max(2.0) as u64;
            let at = Address::new(copy.moved(*at));
            pass(&mut copy, tid, at, number(WARM_UP), WARM_UP * PATIENCE)?;
            stop_others(&mut copy, tid, change);
            let clock = Clock::start(tid);
            let passings = number(TIMED);
            let most = TIMED.max(Duration::from_secs_f64(passings as f64 / rate)) * PATIENCE;
            pass(&mut copy, tid, at, passings, most)?;
            Ok(clock.seconds() / passings as f64)
        }
        Progress::Register { code, register, step } => {
            copy.run(WARM_UP)?;
            let begin = stop_at(&mut copy, tid, code)?.ok_or(Failed::Late)?;
            stop_others(&mut copy, tid, change);
            let left = Breakpoint::counting(tid, Address::new(code.end));
            let clock = Clock::start(tid);
            copy.run(TIMED)?;
            let end = stop_at(&mut copy, tid, code)?.ok_or(Failed::Late)?;
            let seconds = clock.seconds();
            let delta = counting_registers(&end)[*register].wrapping_sub(counting_registers(&begin)[*register]) as i64;
            let iterations = delta / step;
            // Another round of the loop, or another call, has begun.
            let is_left = left.is_ok_and(|breakpoint| breakpoint.count() > 0);
            if is_left || begin.rsp != end.rsp || iterations <= 0 || delta % step != 0 {
                return Err(Failed::Late);
            }
            Ok(seconds / iterations as f64)
        }
    }
}

fn stop_others(copy: &mut Copy, tid: Pid, change: Option<Change>) {
    if change == Some(Change::OtherThreadsStopped) {
        copy.keep_only(tid);
    }
}

/// Runs until the thread has passed `at` `number` times.
fn pass(copy: &mut Copy, tid: Pid, at: Address, number: u64, most: Duration) -> Result<(), Failed> {
    let breakpoint = Breakpoint::stopping(tid, at, number);
    let _breakpoint = breakpoint.map_err(|e| Failed::Copy(CopyError::Proc("set a breakpoint in a copy", e)))?;
    match copy.run(most)? {
        Came::Passed(_) => Ok(()),
        Came::Late => Err(Failed::Late),
    }
}

/// Gives the copy its own pages of what it writes, and huge ones where the program has them.
fn write_pages(copy: &mut Copy, plan: &Plan) -> Result<(), Failed> {
    /// `MADV_POPULATE_WRITE`
    const POPULATE: u64 = 23;
    let ranges = plan.findings.written.clone();
    let huge: Vec<Range<u64>> =
        plan.huge.iter().filter_map(|range| pages::aligned(&(range.start.get()..range.end.get()))).collect();
    copy.on_behalf(|remote| {
        for (start, end) in ranges {
            // What the program has unmapped meanwhile is left out.
            let _ = remote.call("madvise", libc::SYS_madvise, [start, end - start, POPULATE, 0, 0, 0]);
        }
        for range in huge {
            let _ = variant::collapse(remote, &range);
        }
        Ok(())
    })?;
    Ok(())
}

/// CPU time of a thread that is stopped at both ends. Time in which it waits off the CPU is no part of it, nor is that of other programs.
struct Clock {
    tid: Pid,
    cpu_s: f64,
}

impl Clock {
    fn start(tid: Pid) -> Clock {
        Clock { tid, cpu_s: read_cpu_seconds(tid).unwrap_or(0.0) }
    }

    fn seconds(&self) -> f64 {
        read_cpu_seconds(self.tid).unwrap_or(0.0) - self.cpu_s
    }
}
