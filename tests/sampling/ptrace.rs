//! The timed pass if the kernel refuses perf_event_open: seccomp makes it answer EACCES to this test and its children.

use rprof::profile::evidence::timed::Sample;
use rprof::sample::{SampleOptions, Sampler, run};

use crate::checks;
use crate::programs;
use crate::seccomp;

/// The default options, on a thread that may not call perf_event_open.
fn without_perf(check: impl FnOnce(&SampleOptions)) {
    seccomp::refuse(&[libc::SYS_perf_event_open]);
    check(&SampleOptions::default());
}

#[test]
fn a_refused_perf_is_told_and_replaced() {
    without_perf(|options| {
        let evidence = run(programs::gated("true", &[]), options).unwrap().evidence;
        assert_eq!(evidence.source, "ptrace");
        assert_eq!(evidence.warnings[0].code, "perf-refused");
        assert!(evidence.on_cpu.is_empty());
        let perf = SampleOptions { sampler: Sampler::Perf, ..options.clone() };
        let error = run(programs::gated("true", &[]), &perf).unwrap_err();
        assert!(error.to_string().contains("Permission denied"), "{error}");
    });
}

#[test]
fn where_both_are_refused_the_program_runs_unsampled() {
    seccomp::refuse(&[libc::SYS_perf_event_open, libc::SYS_ptrace]);
    let timed = run(programs::gated("sh", &["-c", "exit 5"]), &SampleOptions::default()).unwrap();
    assert_eq!(timed.status.code(), Some(5));
    assert_eq!(timed.evidence.source, "none");
    assert!(timed.evidence.samples.is_empty() && timed.evidence.wall_s > 0.0);
    let codes: Vec<&str> = timed.evidence.warnings.iter().map(|w| w.code.as_str()).collect();
    assert_eq!(codes, ["perf-refused", "not-sampled"]);
}

#[test]
fn callers_over_a_frameless_leaf() {
    without_perf(checks::callers_over_a_frameless_leaf);
}

#[test]
fn callers_beside_a_patched_page() {
    without_perf(checks::callers_beside_a_patched_page);
}

#[test]
fn threads_apart() {
    without_perf(checks::threads_apart);
}

#[test]
fn children_are_followed() {
    without_perf(checks::children_are_followed);
}

#[test]
fn code_made_at_run_time() {
    without_perf(checks::code_made_at_run_time);
}

#[test]
fn images_for_debuggers_are_read_in_time() {
    without_perf(checks::images_for_debuggers_are_read_in_time);
}

#[test]
fn the_program_outlives_a_killed_sampler() {
    without_perf(|_| checks::the_program_outlives_a_killed_sampler("ptrace::the_program_outlives_a_killed_sampler"));
}

#[test]
fn descendants_are_left_running() {
    without_perf(checks::descendants_are_left_running);
}

#[test]
fn a_fatal_signal_is_reported() {
    without_perf(checks::a_fatal_signal_is_reported);
}

#[test]
fn an_impossible_program_fails() {
    without_perf(checks::an_impossible_program_fails);
}

#[test]
fn blocked_threads_are_seen_off_the_cpu_with_their_callers() {
    without_perf(|options| {
        let timed = run(programs::gated("sleep", &["0.5"]), options).unwrap();
        let e = &timed.evidence;
        checks::consistent(e);
        let waited: f64 = e.samples.iter().filter(|s| s.off_cpu).map(|s| s.weight_s).sum();
        assert!(waited > 0.35 && waited <= e.wall_s, "waited {waited} s of {} s", e.wall_s);
        let sleeps = Some(libc::SYS_clock_nanosleep as u32);
        let in_sleep = e.samples.iter().filter(|s| s.blocked.is_some_and(|b| b.call == sleeps));
        assert!(in_sleep.map(|s| s.weight_s).sum::<f64>() > 0.35, "not all of {waited} s asleep");
        // The loader waits, too, for its files and on a busy host for its turn: only the sleep itself is checked.
        let seconds = |callers: usize| -> f64 {
            let in_libc = |s: &&Sample| e.modules[s.stack[0].module as usize].path.contains("libc");
            let waiting = e.samples.iter().filter(|s| s.off_cpu && s.stack.len() > callers);
            waiting.filter(in_libc).map(|s| s.weight_s).sum()
        };
        let (in_libc, with_a_caller) = (seconds(0), seconds(1));
        assert!(in_libc > 0.35, "{in_libc} s of {waited} s blocked in libc");
        assert!(with_a_caller > 0.9 * in_libc, "{with_a_caller} s of {in_libc} s blocked in libc, with a caller");
    });
}

#[test]
fn signals_job_control_and_exec_from_a_thread_pass_through() {
    without_perf(|options| {
        let fixture = programs::Fixture::compile("signals", &["-O2", "-pthread"]);
        let timed = run(fixture.gated(&[]), options).unwrap();
        assert_eq!(timed.status.code(), Some(0), "see fixtures/sample/signals.c for what the status says");
        checks::consistent(&timed.evidence);
    });
}
