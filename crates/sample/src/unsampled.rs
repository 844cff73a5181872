//! The timed pass if the host allows neither perf nor ptrace: elapsed and CPU time of the whole program, and no samples.

use std::io;
use std::time::Duration;

use rprof_profile::run::Warning;
use rprof_tracee::clock::monotonic_ns;
use rprof_tracee::launch::Gated;

use super::reap;
use super::recorder::{Ending, Recorder};
use super::weights::Scale;
use super::{SampleError, Timed};

/// Time between two looks at the program.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Why a program is not sampled if perf is refused.
pub(super) enum Why {
    /// So is ptrace.
    Refused(io::Error),
    /// The program may trace others, which it could not if rprof traced them.
    MayTrace,
}

impl Why {
    fn warning(&self) -> Warning {
        let (text, hint) = match self {
            Why::Refused(refusal) => (
                format!("ptrace is refused here, too ({refusal}): the program ran without being sampled."),
                "Allow perf_event_open or ptrace (the container's seccomp profile, kernel.yama.ptrace_scope).",
            ),
            Why::MayTrace => (
                "The program has ptrace, and a process can have only one tracer: it ran without being sampled.".into(),
                "Allow perf_event_open (the container's seccomp profile), by which rprof traces nobody.",
            ),
        };
        Warning::new("not-sampled", text, "No function has a time.", hint)
    }
}

/// Releases the child and waits for it.
pub(super) fn run(child: Gated, why: &Why) -> Result<Timed, SampleError> {
    let pid = child.release()?;
    let (first, mut recorder) = (pid.as_raw() as u32, Recorder::new());
    recorder.exec(monotonic_ns(), first, first);
    let reaped = loop {
        match reap::try_reap(pid) {
            Ok(Some(reaped)) => break reaped,
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(source) => return Err(SampleError::Wait { pid: pid.as_raw(), source }),
        }
    };
    recorder.exit(monotonic_ns(), first);
    let evidence = recorder.finish(Ending {
        source: "none",
        end_ns: None,
        cpu_s: Some(reaped.cpu_s),
        scale: Scale::AsSampled,
        frequency_hz: 0.0,
        lost: 0,
        page_faults: reaped.page_faults,
        blocked_missing: None,
        warnings: vec![why.warning()],
    });
    Ok(Timed { evidence, status: reaped.status })
}
