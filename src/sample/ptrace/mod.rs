//! The timed pass by ptrace alone, for hosts that refuse `perf_event_open`.
//!
//! A thread of rprof's own traces the program: requests on a tracee are bound to the thread that traces it, and when that
//! thread ends (or rprof is killed) the kernel lets everything run on untraced.

mod observer;
mod pace;
mod tracees;
mod tracer_cpu;
mod wait;

use std::time::{Duration, Instant};

use crate::profile::run::Warning;
use crate::tracee::clock::monotonic_ns;
use crate::tracee::launch::Gated;
use crate::tracee::thread::Running;
use crate::tracee::wake_up::WakeUp;

use super::reap::Reaped;
use super::recorder::Ending;
use super::weights::Scale;
use super::{SampleError, SampleOptions, Timed, survivors, unsampled};

use observer::Observer;

/// Releases the child, and samples until its first process has exited. If ptrace is refused, too, the program runs without
/// being sampled unless the user asked for ptrace by name.
pub(super) fn run(child: Gated, options: &SampleOptions) -> Result<Timed, SampleError> {
    let trace = || -> Result<Timed, SampleError> {
        tracer_cpu::be_quick();
        let wake_up = match WakeUp::new() {
            Ok(wake_up) => wake_up,
            Err(source) => {
                child.abandon();
                return Err(SampleError::Prepare { operation: "timer_create", source });
            }
        };
        match Running::observe(child.pid()) {
            Ok(_) => follow(child, options, wake_up),
            Err(e) if options.sampler == super::Sampler::Ptrace => {
                child.abandon();
                Err(SampleError::Refused { sampler: "ptrace", source: e.io() })
            }
            Err(e) => unsampled::run(child, &e.io()),
        }
    };
    std::thread::scope(|scope| match scope.spawn(trace).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn follow(child: Gated, options: &SampleOptions, mut wake_up: WakeUp) -> Result<Timed, SampleError> {
    let pid = child.pid();
    let frequency_hz = options.highest_hz();
    let mut observer = Observer::new(pid, frequency_hz, options.stack_bytes.max(MIN_STACK));
    child.release()?;
    let prepare = |source| SampleError::Prepare { operation: "timer_settime", source };
    wake_up.set(observer.pace.next()).map_err(prepare)?;
    let mut deadline: Option<Instant> = None;
    loop {
        let (period, anybody) = observer.step();
        if let Some(period) = period {
            wake_up.set(period).map_err(prepare)?;
        }
        if observer.ended().is_some() {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + GRACE);
            if !anybody || observer.living().is_empty() || Instant::now() > deadline {
                break;
            }
        } else if !anybody {
            break;
        }
    }
    let Some((reaped, cpu_s)) = observer.ended() else {
        return Err(SampleError::Wait { pid: pid.as_raw(), source: std::io::ErrorKind::NotFound.into() });
    };
    Ok(finish(observer, reaped, cpu_s, frequency_hz))
}

/// How long descendants may take to end after the first process.
const GRACE: Duration = survivors::GRACE;

/// Without the kernel's frame-pointer chain, unwinding needs a stack copy in any case.
const MIN_STACK: u32 = 4096;

fn finish(mut observer: Observer, reaped: Reaped, cpu_s: f64, frequency_hz: f64) -> Timed {
    let left = observer.living();
    left.iter().for_each(|tid| observer.note_cpu(*tid));
    let period_s = observer.pace.period_s();
    let mut warnings: Vec<Warning> = survivors::warning(&left).into_iter().collect();
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
        cpu_s: Some(cpu_s),
        scale: Scale::PerThread,
        frequency_hz,
        lost: 0,
        page_faults: reaped.page_faults,
        blocked_missing: None,
        warnings,
    });
    Timed { evidence, status: reaped.status }
}
