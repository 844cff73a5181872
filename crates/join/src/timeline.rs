//! Elapsed time and concurrency from samples of several threads.
//!
//! A sample of thread i in function f represents `weight` CPU seconds. If k threads were in f at that moment, those k threads' samples
//! together represent one stretch of elapsed time, so the sample adds `weight / k` to f's elapsed time:
//!
//! ```text
//!  T_k    = Σ weight / k   over f's samples that saw k threads in f
//!  time_s = Σ_k T_k        concurrency[k-1] = T_k / time_s        cpu_s = Σ_k k · T_k
//! ```
//!
//! Samples in the kernel that began with a fault of f give `fault_time_s` in the same way, by the threads in such faults.
//!
//! The nearest sample of another thread shows its activity, and is up to half a period away. Code that changes place faster than that
//! would seem independent. So among samples with the same number of running peers, those with samples of their peers nearest in time
//! represent all (`elapsed`): a quarter of them, between 64 and 1,000. This needs sampling clocks that drift against each other; if the
//! clocks are locked at a distance, that distance is the resolution.
//!
//! A sample may land one instruction late (skid): this blurs the times at the edges of functions and loops by that much.

use super::attributed::{Activity, AttributedSample, Entry, Peers};
use super::waiting::Wait;
use rprof_profile::evidence::timed::OnCpu;

/// A thread's samples count as one stretch of running if they are no farther apart than this many periods.
const GAP: f64 = 0.55;

/// Fills in the peers of `samples` (in time order). `on_cpu`: stretches on a CPU, in any order; threads without any are assumed to run
/// within half a period of each of their samples.
pub fn find_peers(samples: &mut [AttributedSample], on_cpu: &[OnCpu]) {
    let peers = peers(samples, on_cpu);
    samples.iter_mut().zip(peers).for_each(|(sample, peers)| sample.peers = peers);
}

fn peers(samples: &[AttributedSample], on_cpu: &[OnCpu]) -> Vec<Peers> {
    let threads = samples.iter().map(|s| s.thread + 1).max().unwrap_or(0) as usize;
    let mut of_thread: Vec<Vec<u32>> = vec![Vec::new(); threads];
    for (i, sample) in samples.iter().enumerate() {
        of_thread[sample.thread as usize].push(i as u32);
    }
    let running = stretches(on_cpu, threads);
    // `next[j]`: position in of_thread[j] of the first sample not before the current one.
    let mut next = vec![0usize; threads];
    let active: Vec<usize> = (0..threads).filter(|t| !of_thread[*t].is_empty()).collect();
    let mut of_sample = |sample: &AttributedSample| {
        let mut peers = Peers::ALONE;
        for &j in active.iter().filter(|j| **j != sample.thread as usize) {
            let others = &of_thread[j];
            while others.get(next[j]).is_some_and(|s| samples[*s as usize].t_s < sample.t_s) {
                next[j] += 1;
            }
            let after = others.get(next[j]).map(|s| &samples[*s as usize]);
            let before = next[j].checked_sub(1).map(|p| &samples[others[p] as usize]);
            match nearest(sample.t_s, before, after, &running[j]) {
                Whereabouts::OnCpu(peer, distance) => peers.add_running(sample, peer, distance),
                Whereabouts::KeptOff(peer) => peers.add_kept_off(sample, peer),
                Whereabouts::Off => {}
            }
        }
        peers
    };
    samples.iter().map(&mut of_sample).collect()
}

impl Peers {
    fn add_running(&mut self, sample: &AttributedSample, peer: &AttributedSample, distance: f64) {
        self.running += 1;
        self.distance_s = self.distance_s.max(distance as f32);
        match peer.activity {
            Activity::Work if peer.function == sample.function => {
                self.in_function.at_work += 1;
                self.in_loop.at_work += u16::from(peer.innermost == sample.innermost);
            }
            Activity::Work => self.others_elsewhere = true,
            Activity::Kernel(Entry::Fault) if peer.function == sample.function => {
                self.in_function.others_in_fault += 1;
                self.in_loop.others_in_fault += u16::from(peer.innermost == sample.innermost);
            }
            Activity::Waiting(Wait::Lock) => self.locked_out = true,
            Activity::Waiting(Wait::Barrier | Wait::Ranks) | Activity::Kernel(_) => {}
        }
    }

    fn add_kept_off(&mut self, sample: &AttributedSample, peer: &AttributedSample) {
        if peer.works() && peer.function == sample.function {
            self.in_function.kept_off += 1;
            self.in_loop.kept_off += u16::from(peer.innermost == sample.innermost);
        }
    }
}

/// A thread's place at some time.
enum Whereabouts<'s> {
    /// On a CPU; the sample that shows its activity, and the distance to it in seconds.
    OnCpu(&'s AttributedSample, f64),
    /// Ready to run, but another thread had its CPU; its last sample before.
    KeptOff(&'s AttributedSample),
    /// Blocked, not yet or no longer there, or unknown.
    Off,
}

/// Each thread's stretches on a CPU, sorted.
pub(super) fn stretches(on_cpu: &[OnCpu], threads: usize) -> Vec<Vec<OnCpu>> {
    let mut running = vec![Vec::new(); threads];
    for stretch in on_cpu {
        if let Some(of_thread) = running.get_mut(stretch.thread as usize) {
            of_thread.push(*stretch);
        }
    }
    running.iter_mut().for_each(|s| s.sort_by(|a: &OnCpu, b| a.start_s.total_cmp(&b.start_s)));
    running
}

/// A thread's place at `t`.
fn nearest<'s>(
    t: f64,
    before: Option<&'s AttributedSample>,
    after: Option<&'s AttributedSample>,
    running: &[OnCpu],
) -> Whereabouts<'s> {
    let distance = |s: &&AttributedSample| (s.t_s - t).abs();
    if running.is_empty() {
        let candidates = [before, after].into_iter().flatten();
        let close = candidates.filter(|s| distance(s) <= GAP * s.weight_s);
        let closest = close.map(|s| (s, distance(&s))).min_by(|a, b| a.1.total_cmp(&b.1));
        return closest.map_or(Whereabouts::Off, |(s, away)| Whereabouts::OnCpu(s, away));
    }
    let begun = running.partition_point(|s| s.start_s <= t);
    let Some(stretch) = running[..begun].last() else { return Whereabouts::Off };
    if t > stretch.end_s {
        // Preempted threads come back; the last stretch of a thread that ended is no preemption.
        let comes_back = stretch.preempted && begun < running.len();
        return before.filter(|_| comes_back).map_or(Whereabouts::Off, Whereabouts::KeptOff);
    }
    let within = |s: &&AttributedSample| (stretch.start_s..=stretch.end_s).contains(&s.t_s);
    let candidates = [before, after].into_iter().flatten();
    // Running, but too briefly to be sampled: the thread's activity is unknown, most likely the same as just before.
    let inside = candidates.clone().filter(within).min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let nearest = inside.or_else(|| candidates.min_by(|a, b| distance(a).total_cmp(&distance(b))));
    match nearest.filter(|s| distance(s) <= 2.0 * s.weight_s) {
        Some(s) => Whereabouts::OnCpu(s, distance(&s)),
        None => Whereabouts::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::super::attributed::NONE;
    use super::*;

    fn sample(t_s: f64, thread: u32, function: u32) -> AttributedSample {
        AttributedSample {
            t_s,
            weight_s: 1.0,
            thread,
            cpu: None,
            path: 0,
            stack: 0,
            function,
            place: None,
            innermost: NONE,
            activity: Activity::Work,
            peers: Peers::ALONE,
        }
    }

    #[test]
    fn peers_are_seen_within_half_a_period() {
        let samples = [sample(1.0, 0, 7), sample(1.3, 1, 7), sample(2.0, 0, 7), sample(2.3, 1, 8), sample(9.0, 0, 7)];
        let seen = peers(&samples, &[]);
        let told: Vec<_> = seen.iter().map(|s| (s.running, s.in_function.at_work, s.others_elsewhere)).collect();
        assert_eq!(told, [(1, 2, false), (1, 2, false), (1, 1, true), (1, 1, true), (0, 1, false)]);
    }

    #[test]
    fn context_switches_tell_who_was_running() {
        let samples = [sample(1.0, 0, 7), sample(1.3, 1, 7), sample(2.0, 0, 7), sample(3.0, 0, 7)];
        let on_cpu = [OnCpu { thread: 1, start_s: 0.5, end_s: 2.5, preempted: false }];
        let peers: Vec<_> = peers(&samples, &on_cpu).iter().map(|s| s.running).collect();
        assert_eq!(peers, [1, 1, 1, 0]);
    }

    #[test]
    fn a_preempted_peer_is_kept_off_until_it_comes_back() {
        let samples = [sample(1.0, 0, 7), sample(1.3, 1, 7), sample(3.0, 0, 7), sample(4.3, 1, 7), sample(9.0, 0, 7)];
        let stretch = |start_s, end_s| OnCpu { thread: 1, start_s, end_s, preempted: true };
        let seen = peers(&samples, &[stretch(0.5, 2.5), stretch(4.0, 5.0)]);
        let told: Vec<_> = seen.iter().map(|s| (s.in_function.at_work, s.in_function.kept_off)).collect();
        assert_eq!(told, [(2, 0), (2, 0), (1, 1), (1, 0), (1, 0)]);
        let blocked = [OnCpu { preempted: false, ..stretch(0.5, 2.5) }, stretch(4.0, 5.0)];
        assert!(peers(&samples, &blocked).iter().all(|s| s.in_function.kept_off == 0));
    }

    #[test]
    fn waiting_peers_are_not_at_work() {
        let mut waiting = sample(1.1, 1, 9);
        waiting.activity = Activity::Waiting(Wait::Lock);
        let seen = peers(&[sample(1.0, 0, 7), waiting], &[]);
        assert_eq!((seen[0].in_function.at_work, seen[0].others_elsewhere, seen[0].locked_out), (1, false, true));
    }

    #[test]
    fn peers_in_a_fault_of_the_same_function_are_counted() {
        let in_kernel = |t_s, thread, function, entry| AttributedSample {
            activity: Activity::Kernel(entry),
            ..sample(t_s, thread, function)
        };
        let samples = [
            in_kernel(1.0, 0, 7, Entry::Fault),
            in_kernel(1.1, 1, 7, Entry::Fault),
            in_kernel(1.2, 2, 8, Entry::Fault),
            in_kernel(1.3, 3, 7, Entry::SystemCall),
        ];
        let seen: Vec<_> = peers(&samples, &[]).iter().map(|s| s.in_function.others_in_fault).collect();
        assert_eq!(seen, [1, 1, 0, 2]);
    }
}
