//! Times, intervals, concurrency, balance and waiting.

use rprof::profile::evidence::timed::OnCpu;

use crate::join::evidence::*;

#[test]
fn one_thread_in_two_phases() {
    let samples = (0..1000).map(|i| sample(f64::from(i) * 1e-3, 0, &[at(if i < 750 { 1 } else { 2 }), at(0)]));
    let profile = joined(Some(&timed(samples.collect())), None);
    let work = function(&profile, "work");
    close(work.cpu_s, 0.75, 1e-9);
    close(work.time_s, 0.75, 1e-9);
    close(work.share, 0.75, 1e-9);
    close(work.exclusive_s, 0.75, 1e-9);
    close(work.lambda, 1.0, 1e-9);
    assert_eq!((work.team, work.concurrency.as_slice()), (Some(1), &[1.0][..]));
    // One phase has two ends, each known to a period: much better than a binomial's 27 ms.
    close(work.time_ci95_s, 1.96e-3, 1e-9);
    let main = function(&profile, "main");
    assert_eq!((main.cpu_s, main.time_s), (None, None));
    close(main.inclusive_s, 1.0, 1e-9);
    assert_eq!(main.source["cpu_s"].reason.as_deref(), Some("no sample fell in it"));
    assert_eq!(work.flops, None);
    assert_eq!(work.source["flops"].reason.as_deref(), Some("there was no counted pass"));
    assert_eq!(profile.samples.len(), 1000);
    assert_eq!(profile.stacks.len(), 3);
}

#[test]
fn the_interval_of_scattered_time_is_a_binomials() {
    // A linear congruential generator simulates a function that takes a random 30 % of the time.
    let mut state = 12345u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let n = 10_000;
    let samples = (0..n).map(|i| sample(f64::from(i) * 1e-3, 0, &[at(if random() < 0.3 { 1 } else { 2 })]));
    let profile = joined(Some(&timed(samples.collect())), None);
    let binomial = 1.96 * (f64::from(n) * 0.3 * 0.7).sqrt() * 1e-3;
    close(function(&profile, "work").time_ci95_s, binomial, 0.05);
}

#[test]
fn threads_side_by_side_share_the_elapsed_time() {
    let both = (0..500).flat_map(|i| {
        let t = f64::from(i) * 1e-3;
        [sample(t, 0, &[at(1)]), sample(t + 4e-4, 1, &[at(1)])]
    });
    let profile = joined(Some(&timed(both.collect())), None);
    let work = function(&profile, "work");
    close(work.cpu_s, 1.0, 1e-9);
    close(work.time_s, 0.5, 0.01);
    close(work.concurrency[1], 1.0, 0.01);
    close(work.lambda, 1.0, 0.01);
    assert_eq!((work.team, work.per_thread.len(), work.allowed_cpus), (Some(2), 2, Some(2)));
}

#[test]
fn a_third_of_the_work_on_one_thread_is_two_thirds_balanced() {
    let mut samples = Vec::new();
    for region in 0..20 {
        for i in 0..30 {
            let t = f64::from(region * 30 + i) * 1e-3;
            samples.push(sample(t, 0, &[at(1)]));
            let stack = if i < 10 { vec![at(1)] } else { vec![at(3), at(1)] };
            samples.push(sample(t + 3e-4, 1, &stack));
        }
    }
    let profile = joined(Some(&timed(samples)), None);
    let work = function(&profile, "work");
    close(work.time_s, 0.6, 0.01);
    close(work.lambda, 2.0 / 3.0, 0.04);
    close(work.concurrency[1], 1.0 / 3.0, 0.04);
    let barrier = function(&profile, "gomp_team_barrier_wait_end");
    assert_eq!((barrier.cpu_s, barrier.share), (None, None));
    close(barrier.waiting_s, 0.4, 1e-9);
    close(profile.functions.iter().filter_map(|f| f.share).sum::<f64>(), 1.0, 1e-9);
    assert_eq!(profile.samples.iter().filter(|s| s.waiting).count(), 400);
}

#[test]
fn alternating_imbalance_is_not_averaged_away() {
    let mut samples = Vec::new();
    for region in 0..20 {
        for i in 0..30 {
            let t = f64::from(region * 30 + i) * 1e-3;
            for thread in 0..2 {
                let busy = thread == region as u32 % 2 || i < 10;
                samples.push(sample(t + f64::from(thread) * 2e-4, thread, &[at(if busy { 1 } else { 3 })]));
            }
        }
    }
    let profile = joined(Some(&timed(samples)), None);
    close(function(&profile, "work").lambda, 2.0 / 3.0, 0.04);
}

#[test]
fn taking_turns_under_a_lock_is_no_imbalance() {
    let mut samples = Vec::new();
    for i in 0..2000u32 {
        let t = f64::from(i) * 1e-3;
        let holder = i / 10 % 2;
        samples.push(sample(t, holder, &[at(1)]));
        samples.push(sample(t + 1e-4, 1 - holder, &[at(4), at(2)]));
    }
    let profile = joined(Some(&timed(samples)), None);
    let work = function(&profile, "work");
    close(work.time_s, 2.0, 0.02);
    close(work.concurrency[0], 1.0, 0.02);
    close(work.lambda, 1.0, 0.02);
    close(function(&profile, "pthread_mutex_lock").waiting_s, 2.0, 1e-9);
}

/// Both threads are in `work` for the first half of every 0.377 ms; in the other half thread 0 does `other` alone.
/// Sampling clocks of 1 ms and 1.013 ms drift against each other.
#[test]
fn regions_shorter_than_the_period_are_told_by_the_nearest_pairs() {
    let mut samples = Vec::new();
    let place = |t: f64, thread: u32| match ((t / 3.77e-4).fract() < 0.5, thread) {
        (true, _) => at(1),
        (false, 0) => at(2),
        (false, _) => at(3),
    };
    for (thread, period) in [(0, 1e-3), (1, 1.013e-3)] {
        let mut t = 1.234e-5;
        while t < 20.0 {
            samples.push(rprof::profile::evidence::timed::Sample {
                weight_s: period,
                ..sample(t, thread, &[place(t, thread)])
            });
            t += period * (1.0 + 1e-3 * (t * 12.9).sin());
        }
    }
    let on_cpu = (0..2).map(|thread| OnCpu { thread, start_s: 0.0, end_s: 20.0, preempted: false }).collect();
    let mut evidence = timed(samples);
    evidence.on_cpu = on_cpu;
    let profile = joined(Some(&evidence), None);
    let work = function(&profile, "work");
    close(work.cpu_s, 20.0, 0.05);
    // Taking the threads for independent would give 13.3 s and one third of it together.
    close(work.time_s, 10.0, 0.1);
    assert!(work.concurrency[1] > 0.8, "{:?}", work.concurrency);
}

#[test]
fn recursion_counts_once() {
    let stack = [at(5), at(5), at(5), at(0)];
    let samples = (0..100).map(|i| sample(f64::from(i) * 1e-3, 0, &stack));
    let profile = joined(Some(&timed(samples.collect())), None);
    close(function(&profile, "fib").inclusive_s, 0.1, 1e-9);
    assert_eq!(profile.stacks.len(), 4);
    assert_eq!(profile.frames.len(), 2);
}

#[test]
fn kernel_time_is_apart_and_blocked_threads_take_none() {
    let mut samples: Vec<_> = (0..100).map(|i| sample(f64::from(i) * 1e-3, 0, &[at(1)])).collect();
    samples.iter_mut().step_by(2).for_each(|s| s.kernel = true);
    samples.iter_mut().skip(1).step_by(4).for_each(|s| s.off_cpu = true);
    let mut boot = sample(0.2, 0, &[]);
    boot.kernel = true;
    samples.push(boot);
    let profile = joined(Some(&timed(samples)), None);
    let work = function(&profile, "work");
    close(work.kernel_s, 0.05, 1e-9);
    close(work.cpu_s, 0.025, 1e-9);
    close(work.share, 1.0, 1e-9);
    close(function(&profile, "[kernel]").kernel_s, 1e-3, 1e-9);
}

#[test]
fn faults_of_threads_at_once_share_the_elapsed_time() {
    let faulting = |thread: u32, from_s: f64| {
        (0..100).map(move |i| {
            let mut sample = sample(from_s + f64::from(i) * 1e-3, thread, &[at(1)]);
            sample.kernel = i % 2 == 1;
            sample
        })
    };
    let of = |second_from_s| {
        let profile = joined(Some(&timed(faulting(0, 0.0).chain(faulting(1, second_from_s)).collect())), None);
        let work = function(&profile, "work");
        (work.fault_s, work.fault_time_s)
    };
    let (together, in_turn) = (of(2e-4), of(1.0));
    close(together.0, 0.1, 1e-9);
    close(together.1, 0.05, 1e-9);
    close(in_turn.0, 0.1, 1e-9);
    close(in_turn.1, 0.1, 1e-9);
}

#[test]
fn a_spin_loop_inside_a_function_is_found_by_its_structure() {
    // 0: addsd xmm0,xmm1; 4: dec ecx; 6: jne 0; 8: pause; a: mov eax,[rdi]; c: test eax,eax; e: je 8; 10: ret
    let code =
        vec![0xf2, 0x0f, 0x58, 0xc1, 0xff, 0xc9, 0x75, 0xf8, 0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0xf8, 0xc3];
    let samples = (0..100).map(|i| sample(f64::from(i) * 1e-3, 0, &[plus(at(1), if i < 30 { 4 } else { 0xa })]));
    let evidence = timed(samples.collect());
    let profile = joined_with(&mut Names { code }, Some(&evidence), None);
    let work = function(&profile, "work");
    close(work.cpu_s, 0.03, 1e-9);
    close(work.waiting_s, 0.07, 1e-9);
    let loops: Vec<_> = work.loops.iter().map(|l| (l.name.as_str(), l.cpu_s.is_some())).collect();
    // The first loop begins on the function's own line: its jump back gives the line.
    assert_eq!(loops, [("work:7", true), ("work:9", false)]);
    close(work.loops[1].waiting_s, 0.07, 1e-9);
}

#[test]
fn too_little_to_measure() {
    let profile = joined(Some(&timed(vec![sample(0.0, 0, &[at(1)])])), None);
    assert!(profile.run.warnings.iter().any(|w| w.code == "too-few-samples"), "{:?}", profile.run.warnings);
    let profile = joined(Some(&timed(Vec::new())), None);
    assert!(profile.functions.is_empty() && profile.run.quality.is_none());
}
