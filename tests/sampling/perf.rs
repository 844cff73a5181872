//! The timed pass through perf on real programs.

use rprof::sample::{SampleError, SampleOptions, Sampler, USUAL_HZ, run};

use crate::checks;
use crate::programs;

/// Options for perf; `None`, with a line that says so, if this host refuses it.
fn perf() -> Option<SampleOptions> {
    let options = SampleOptions { frequency_hz: Some(USUAL_HZ), sampler: Sampler::Perf, ..SampleOptions::default() };
    match run(programs::gated("true", &[]), &options) {
        Err(e @ SampleError::Refused { .. }) => {
            println!("SKIPPED: perf: {e}");
            None
        }
        _ => Some(options),
    }
}

#[test]
fn callers_over_a_frameless_leaf() {
    perf().inspect(checks::callers_over_a_frameless_leaf);
}

#[test]
fn callers_beside_a_patched_page() {
    perf().inspect(checks::callers_beside_a_patched_page);
}

#[test]
fn threads_apart() {
    perf().inspect(checks::threads_apart);
}

#[test]
fn children_are_followed() {
    perf().inspect(checks::children_are_followed);
}

#[test]
fn code_made_at_run_time() {
    perf().inspect(checks::code_made_at_run_time);
}

#[test]
fn images_for_debuggers_are_read_in_time() {
    perf().inspect(checks::images_for_debuggers_are_read_in_time);
}

#[test]
fn the_program_outlives_a_killed_sampler() {
    perf().inspect(|_| checks::the_program_outlives_a_killed_sampler("perf::the_program_outlives_a_killed_sampler"));
}

#[test]
fn descendants_are_left_running() {
    perf().inspect(checks::descendants_are_left_running);
}

#[test]
fn a_fatal_signal_is_reported() {
    perf().inspect(checks::a_fatal_signal_is_reported);
}

#[test]
fn an_impossible_program_fails() {
    perf().inspect(checks::an_impossible_program_fails);
}

#[test]
fn cpu_time_is_the_sum_of_the_intervals_on_a_cpu() {
    let Some(options) = perf() else { return };
    let fixture = programs::Fixture::compile("threads", &["-O2", "-pthread"]);
    let e = run(fixture.gated(&["3", "0.1"]), &options).unwrap().evidence;
    let intervals: f64 = e.on_cpu.iter().map(|i| i.end_s - i.start_s).sum();
    assert!((intervals / e.cpu_s - 1.0).abs() < 1e-6, "{intervals} s in intervals, {} s CPU", e.cpu_s);
    let weights: f64 = e.samples.iter().filter(|s| !s.off_cpu).map(|s| s.weight_s).sum();
    assert!(weights <= e.cpu_s * (1.0 + 1e-9) && weights > 0.9 * e.cpu_s, "{weights} of {} s", e.cpu_s);
}

#[test]
fn frame_pointers_alone_are_followed_without_stack_copies() {
    let Some(options) = perf() else { return };
    let options = SampleOptions { stack_bytes: 0, ..options };
    let fixture = programs::Fixture::compile("callers", &["-O0"]);
    let e = run(fixture.gated(&["0.5"]), &options).unwrap().evidence;
    checks::consistent(&e);
    let function = |code| fixture.function(&e, code);
    let leaves = e.samples.iter().filter(|s| s.stack.first().and_then(function) == Some("leaf"));
    let (with_caller, all) = leaves.fold((0, 0), |(with, all), s| {
        let caller = s.stack.get(1).and_then(function);
        (with + usize::from(matches!(caller, Some("even" | "odd"))), all + 1)
    });
    assert!(all > 30 && with_caller * 20 > all * 19, "{with_caller} of {all}");
}
