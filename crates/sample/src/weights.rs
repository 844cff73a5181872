//! The time that each sample represents.
//!
//! A thread's samples share its CPU time in proportion to their periods:
//! `weight = period × cpu_s(thread) / Σ periods of the thread`.
//! This turns cycles into seconds whatever the clock did, takes the rounding of a thread's first and last period out of
//! every sum, and keeps Σ weight of a thread equal to the CPU time that the scheduler accounted to it. It needs samples of
//! *all* of its CPU time; if the kernel's part was not sampled, one factor for the run is used instead.

use rprof_profile::evidence::ThreadInfo;
use rprof_profile::evidence::timed::Sample;

/// The CPU time that the samples of a run are spread over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// Every part of each thread's CPU time was sampled: per thread.
    PerThread,
    /// The samples together represent this many seconds.
    Total(f64),
    /// The weights are seconds already.
    AsSampled,
}

/// Turns the weights of on-CPU samples from periods (any unit) into CPU seconds.
pub(super) fn scale(samples: &mut [Sample], threads: &[ThreadInfo], scale: Scale) {
    let on_cpu = |s: &&mut Sample| !s.off_cpu;
    match scale {
        Scale::AsSampled => {}
        Scale::Total(seconds) => {
            let sum: f64 = samples.iter().filter(|s| !s.off_cpu).map(|s| s.weight_s).sum();
            if sum > 0.0 {
                samples.iter_mut().filter(on_cpu).for_each(|s| s.weight_s *= seconds / sum);
            }
        }
        Scale::PerThread => {
            let mut sums = vec![0.0; threads.len()];
            samples.iter().filter(|s| !s.off_cpu).for_each(|s| sums[s.thread as usize] += s.weight_s);
            for s in samples.iter_mut().filter(on_cpu) {
                let thread = s.thread as usize;
                s.weight_s *= threads[thread].cpu_s / sums[thread];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(thread: u32, weight_s: f64, off_cpu: bool) -> Sample {
        let (stack, cpu, blocked) = (Vec::new(), None, None);
        Sample { t_s: 0.0, weight_s, thread, stack, kernel: false, off_cpu, cpu, blocked, path: 0 }
    }

    fn thread(cpu_s: f64) -> ThreadInfo {
        let (ordinal, pid, tid, name) = (0, 1, 1, None);
        ThreadInfo { ordinal, pid, tid, name, start_s: 0.0, end_s: 1.0, cpu_s, allowed_cpus: None }
    }

    #[test]
    fn weights_sum_to_the_cpu_time_that_they_are_spread_over() {
        let threads = [thread(3.0), thread(0.5)];
        let samples = [sample(0, 10.0, false), sample(0, 20.0, false), sample(1, 7.0, false), sample(1, 9.0, true)];
        let mut scaled = samples.to_vec();
        scale(&mut scaled, &threads, Scale::PerThread);
        assert_eq!(scaled.iter().map(|s| s.weight_s).collect::<Vec<_>>(), [1.0, 2.0, 0.5, 9.0]);
        let mut scaled = samples.to_vec();
        scale(&mut scaled, &threads, Scale::Total(74.0));
        assert_eq!(scaled.iter().map(|s| s.weight_s).collect::<Vec<_>>(), [20.0, 40.0, 14.0, 9.0]);
        let mut scaled = samples.to_vec();
        scale(&mut scaled, &threads, Scale::AsSampled);
        assert_eq!(scaled, samples);
    }
}
