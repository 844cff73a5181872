//! Profiles a process that runs already, and leaves it running.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::sample::{self, Gate};
use crate::tracee::foreground::{self, Foreground};
use crate::tracee::own_limits;
use crate::tracee::permission::try_to_trace;
use crate::tracee::proc_status::{read_start_ticks, read_state, read_status, threads_of};

use super::end::ProgramEnd;
use super::error::stream;
use super::evidence::Evidence;
use super::options::{Budget, RunOptions};
use super::outcome::Outcome;
use super::output::OutputFolder;
use super::progress::{self, Notices};
use super::single::{self, Span};
use super::{SessionError, assemble, ceilings, passes, preflight};

/// Interval between two looks whether it is time to end.
const LOOK: Duration = Duration::from_millis(5);

/// Profiles the process `pid` until it ends, until `options.collected` is over, or until rprof is asked to end.
///
/// # Errors
/// It is gone, is not for this machine, or may not be traced; the output folder cannot be written.
pub fn profile(options: &RunOptions, pid: i32) -> Result<Outcome, SessionError> {
    let notices = Notices::new(options.quiet);
    let held = Foreground::hold(Pid::from_raw(0)).map_err(stream("signals"))?;
    Foreground::hold_beside();
    preflight::own_proc()?;
    preflight::own_room()?;
    let refuse = |reason: String| SessionError::CannotAttach { pid, reason };
    let process = Pid::from_raw(pid);
    check(process).map_err(refuse)?;
    own_limits::open_descriptors();
    let folder = OutputFolder::create(options.output.as_deref(), &[])?;
    let mut evidence = Evidence { runs_on: true, ..Evidence::default() };
    let machine = ceilings::for_a_run(&notices, &mut evidence.warnings);
    let until = match options.collected.to_s {
        Some(to_s) => format!("for {to_s} s"),
        None => "until Ctrl-C or its end".into(),
    };
    notices.say(&format!(
        "profiles process {pid} {until}; it runs on, counted in windows that may slow it down by {} %",
        progress::in_percent(options.budget_share())
    ));
    let command = command_line(pid);
    let began = read_start_ticks(process);
    let gate = Gate::default();
    let visits = single::start(
        single::Program::Found(process),
        gate.clone(),
        passes::sinks(options, &machine),
        Budget { share: options.budget_share(), least_s: 0.0 },
        Span::of(options),
    );
    let ender = {
        let (gate, to_s) = (gate.clone(), options.collected.to_s);
        std::thread::spawn(move || {
            let begun = Instant::now();
            while !gate.is_over() {
                let is_late = to_s.is_some_and(|to_s| begun.elapsed().as_secs_f64() >= to_s);
                if is_late || foreground::interruptions() > 0 {
                    gate.end();
                }
                std::thread::sleep(LOOK);
            }
        })
    };
    let sampled = sample::attach(process, &passes::sampling(options), &gate);
    gate.end();
    let visited = visits.join();
    // It only sleeps.
    let _ = ender.join();
    let is_gone = read_start_ticks(process) != began;
    let mut timed = match sampled {
        Ok(sampled) => sampled.evidence,
        Err(error) if is_gone || error.is_of_no_process() => {
            return Err(refuse("it ended before rprof had attached".into()));
        }
        Err(e) => return Err(SessionError::Pass { pass: "single", reason: e.to_string() }),
    };
    options.collected.cut(&mut timed);
    evidence.runs_on = !is_gone;
    match passes::visited(visited) {
        Ok(visited) => evidence.take_visited(timed, visited, &machine, 1),
        Err(reason) => evidence.without_windows(timed, reason),
    }
    let end = ProgramEnd::Exited(0);
    if is_gone {
        evidence.warnings.push(crate::profile::run::Warning::new(
            "process-ended",
            format!("process {pid} ended while rprof was attached to it"),
            "how it ended is known to its parent alone",
            "start it with rprof to have its exit status",
        ));
    }
    let options = RunOptions { program: command, ..options.clone() };
    let profile = assemble::profile(&options, None, None, machine, evidence);
    Ok(Outcome { end, profile, folder, rank: None, held })
}

/// Why `pid` cannot be attached to.
fn check(pid: Pid) -> Result<(), String> {
    let status = read_status(pid).map_err(|_| "there is no such process; check the number with ps".to_owned())?;
    if status.tgid != pid.as_raw() {
        return Err(format!("it is a thread of process {}; give that number", status.tgid));
    }
    if pid.as_raw() == std::process::id() as i32 {
        return Err("it is rprof itself".into());
    }
    if status.tracer != 0 {
        return Err(format!("process {} traces it, and a process can have only one tracer", status.tracer));
    }
    if read_state(pid) == Some('Z') && threads_of(pid).len() > 1 {
        return Err("its first thread has ended (zombie) while others run: rprof finds the program's files by the first thread; start \
                    it with rprof instead"
            .into());
    }
    if std::fs::read_link(format!("/proc/{pid}/exe")).is_err_and(|e| e.raw_os_error() == Some(libc::ENOENT)) {
        return Err("it is a thread of the kernel, or has ended and waits for its parent (zombie)".into());
    }
    try_to_trace(pid).map_err(|e| {
        let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        match scope.trim() {
            "1" | "2" => format!("{e}; run rprof as root, or allow it with sysctl kernel.yama.ptrace_scope=0"),
            "3" => format!("{e}; this host forbids it to everybody (kernel.yama.ptrace_scope=3)"),
            _ => format!("{e}; run rprof as the user of that process or as root, in a container with CAP_SYS_PTRACE"),
        }
    })
}

/// Its command line, as it shows it.
fn command_line(pid: i32) -> Vec<OsString> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|b| *b == 0).filter(|word| !word.is_empty());
    words.map(|word| OsString::from_vec(word.to_vec())).collect()
}
