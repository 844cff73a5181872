//! The timed pass by ptrace alone, for hosts that refuse `perf_event_open`.
//!
//! A thread of rprof's own traces the program: requests on a tracee are bound to the thread that traces it, and when that
//! thread ends (or rprof is killed) the kernel lets everything run on untraced.

mod lend;
mod loan;
mod observer;
mod pace;
mod tracees;
mod tracer_cpu;
mod wait;

use std::time::{Duration, Instant};

use rprof_profile::run::Warning;
use rprof_tracee::clock::monotonic_ns;
use rprof_tracee::elf_reader::names_symbol;
use rprof_tracee::foreground;
use rprof_tracee::launch::Gated;
use rprof_tracee::thread::Running;
use rprof_tracee::wake_up::WakeUp;

use super::reap::Reaped;
use super::recorder::Ending;
use super::weights::Scale;
use super::{Gate, SampleError, SampleOptions, Timed, survivors, unsampled};

use super::unsampled::Why;

use observer::Observer;
use pace::Pace;

/// Releases the child, and samples until its first process has exited. If ptrace is refused, too, the program runs without
/// being sampled unless the user asked for ptrace by name.
pub(super) fn run(child: Gated, options: &SampleOptions, gate: &Gate) -> Result<Timed, SampleError> {
    let trace = || -> Result<Timed, SampleError> {
        tracer_cpu::be_quick();
        let wake_up = match WakeUp::new() {
            Ok(wake_up) => wake_up,
            Err(source) => {
                child.abandon();
                return Err(SampleError::Prepare { operation: "timer_create", source });
            }
        };
        if options.sampler != super::Sampler::Ptrace && names_symbol(child.path(), "ptrace") {
            return unsampled::run(child, &Why::MayTrace);
        }
        match Running::observe(child.pid()) {
            Ok(_) => follow(child, options, wake_up, gate),
            Err(e) if options.sampler == super::Sampler::Ptrace => {
                child.abandon();
                Err(SampleError::Refused { sampler: "ptrace", source: e.io() })
            }
            Err(e) => unsampled::run(child, &Why::Refused(e.io())),
        }
    };
    std::thread::scope(|scope| match scope.spawn(trace).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn follow(child: Gated, options: &SampleOptions, mut wake_up: WakeUp, gate: &Gate) -> Result<Timed, SampleError> {
    let pid = child.pid();
    let frequency_hz = options.highest_hz();
    let mut observer =
        Observer::new(pid, Pace::new(frequency_hz, options.most_share), options.stack_bytes.max(MIN_STACK));
    child.release()?;
    gate.begin_traced();
    let prepare = |source| SampleError::Prepare { operation: "timer_settime", source };
    wake_up.set(observer.pace.next()).map_err(prepare)?;
    let mut deadline: Option<Instant> = None;
    loop {
        gate.take_back(|| observer.take_back());
        let (period, anybody) = observer.step();
        if let Some(period) = period {
            wake_up.set(period).map_err(prepare)?;
        }
        // A visit may have taken its end away, or its first thread: another thread that executes a program takes over its id.
        if observer.ended().is_none()
            && let Some(reaped) =
                gate.try_reap(pid).map_err(|source| SampleError::Wait { pid: pid.as_raw(), source })?
        {
            observer.ended_elsewhere(reaped);
        }
        if let Some((reaped, cpu_s)) = observer.ended() {
            gate.end();
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + GRACE);
            if !anybody || observer.living().is_empty() || Instant::now() > deadline {
                return Ok(finish(observer, Some((reaped, cpu_s)), frequency_hz));
            }
        } else if foreground::leaves().is_some() {
            gate.end();
            observer.leave();
            return Ok(finish(observer, None, frequency_hz));
        } else if anybody {
            gate.lend(|pids| observer.lend(pids));
        } else {
            gate.pause();
        }
    }
}

/// How long descendants may take to end after the first process.
const GRACE: Duration = survivors::GRACE;

/// Without the kernel's frame-pointer chain, unwinding needs a stack copy in any case.
const MIN_STACK: u32 = 4096;

/// `ended`: how the first process ended, and its CPU seconds; `None` while it runs.
fn finish(mut observer: Observer, ended: Option<(Reaped, f64)>, frequency_hz: f64) -> Timed {
    let left = observer.living();
    for tid in &left {
        observer.note_cpu(*tid);
    }
    let period_s = observer.pace.period_s();
    let mut warnings: Vec<Warning> = ended.and_then(|_| survivors::warning(&left)).into_iter().collect();
    if period_s * frequency_hz > 1.5 {
        warnings.push(Warning::new(
            "sampling-slowed",
            format!(
                "Stopping threads is slow on this host: the sampling rate was reduced to about {:.0} Hz.",
                1.0 / period_s
            ),
            "Fewer samples: wider intervals on every time.",
            "Run the program for longer, or allow perf_event_open.",
        ));
    }
    let evidence = observer.recorder.finish(Ending {
        source: "ptrace",
        end_ns: if left.is_empty() { None } else { Some(monotonic_ns()) },
        cpu_s: ended.map(|(_, cpu_s)| cpu_s),
        scale: Scale::PerThread,
        frequency_hz,
        lost: 0,
        page_faults: ended.and_then(|(reaped, _)| reaped.page_faults),
        blocked_missing: None,
        warnings,
    });
    Timed { evidence, status: ended.map(|(reaped, _)| reaped.status).unwrap_or_default() }
}
