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
//! The nearest sample of another thread shows its activity, and is up to half a period away. Code that changes place faster than that
//! would seem independent. So among samples with the same number of running peers, the samples whose peers' samples are nearest represent
//! all (`elapsed`): a quarter of them, between 64 and 1,000. This needs sampling clocks that drift against each other; if the clocks are
//! locked at a distance, that distance is the resolution.
//!
//! A sample may land one instruction late (skid): this blurs the times at the edges of functions and loops by that much.

use crate::profile::evidence::timed::OnCpu;

use super::waiting::Wait;

/// No loop, or no function.
pub const NONE: u32 = u32::MAX;

/// Activity of a thread when it was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Its own work.
    Work,
    /// Waiting in a barrier or for a lock.
    Waiting(Wait),
    /// In the kernel.
    Kernel(Entry),
}

/// How a thread got into the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// By a system call.
    SystemCall,
    /// At any other instruction: a page fault, for the most part.
    Fault,
}

/// A sample on a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Seconds since the start of the pass.
    pub t_s: f64,
    /// CPU seconds that it represents.
    pub weight_s: f64,
    /// Thread.
    pub thread: u32,
    /// Number of the CPU it was on, if known.
    pub cpu: Option<u32>,
    /// Function it was in.
    pub function: u32,
    /// Innermost loop it was in, numbered over the whole program; [`NONE`] outside of loops.
    pub innermost: u32,
    /// Activity of the thread.
    pub activity: Activity,
}

/// The other threads, as one sample saw them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sight {
    /// Threads on a CPU at the same time.
    pub peers: u16,
    /// Threads at work in the same function, this one included.
    pub in_function: u16,
    /// Threads at work in the same loop, this one included.
    pub in_loop: u16,
    /// Threads at work in the same function whose CPU another thread had at that moment.
    pub kept_off_function: u16,
    /// Threads at work in the same loop whose CPU another thread had at that moment.
    pub kept_off_loop: u16,
    /// Another thread was at work in another function.
    pub others_elsewhere: bool,
    /// Another thread was waiting for a lock.
    pub locked_out: bool,
    /// Greatest distance to a peer's sample that was used, in seconds.
    pub distance_s: f32,
}

/// A thread's samples count as one stretch of running if they are no farther apart than this many periods.
const GAP: f64 = 0.55;

/// For each of `moments` (in time order), the other threads as it saw them. `on_cpu`: stretches on a CPU, in any order; threads without
/// any are assumed to run within half a period of each of their samples.
pub fn sights(moments: &[Moment], on_cpu: &[OnCpu]) -> Vec<Sight> {
    let threads = moments.iter().map(|m| m.thread + 1).max().unwrap_or(0) as usize;
    let mut of_thread: Vec<Vec<u32>> = vec![Vec::new(); threads];
    for (i, moment) in moments.iter().enumerate() {
        of_thread[moment.thread as usize].push(i as u32);
    }
    let running = stretches(on_cpu, threads);
    // `next[j]`: position in of_thread[j] of the first sample not before the current moment.
    let mut next = vec![0usize; threads];
    let active: Vec<usize> = (0..threads).filter(|t| !of_thread[*t].is_empty()).collect();
    moments
        .iter()
        .map(|moment| {
            let mut sight = Sight { in_function: 1, in_loop: 1, ..Sight::default() };
            for &j in active.iter().filter(|j| **j != moment.thread as usize) {
                let samples = &of_thread[j];
                while samples.get(next[j]).is_some_and(|s| moments[*s as usize].t_s < moment.t_s) {
                    next[j] += 1;
                }
                let after = samples.get(next[j]).map(|s| &moments[*s as usize]);
                let before = next[j].checked_sub(1).map(|p| &moments[samples[p] as usize]);
                match nearest(moment.t_s, before, after, &running[j]) {
                    Whereabouts::OnCpu(peer, distance) => sight.see(moment, peer, distance),
                    Whereabouts::KeptOff(peer) => sight.miss(moment, peer),
                    Whereabouts::Off => {}
                }
            }
            sight
        })
        .collect()
}

impl Sight {
    fn see(&mut self, moment: &Moment, peer: &Moment, distance: f64) {
        self.peers += 1;
        self.distance_s = self.distance_s.max(distance as f32);
        match peer.activity {
            Activity::Work if peer.function == moment.function => {
                self.in_function += 1;
                self.in_loop += u16::from(peer.innermost == moment.innermost);
            }
            Activity::Work => self.others_elsewhere = true,
            Activity::Waiting(Wait::Lock) => self.locked_out = true,
            Activity::Waiting(Wait::Barrier | Wait::Ranks) | Activity::Kernel(_) => {}
        }
    }

    fn miss(&mut self, moment: &Moment, peer: &Moment) {
        if peer.activity == Activity::Work && peer.function == moment.function {
            self.kept_off_function += 1;
            self.kept_off_loop += u16::from(peer.innermost == moment.innermost);
        }
    }
}

/// Where a thread was at some moment.
enum Whereabouts<'m> {
    /// On a CPU; the sample that shows its activity, and the distance to it in seconds.
    OnCpu(&'m Moment, f64),
    /// Ready to run, but another thread had its CPU; its last sample before.
    KeptOff(&'m Moment),
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

/// Where a thread was at `t`.
fn nearest<'m>(t: f64, before: Option<&'m Moment>, after: Option<&'m Moment>, running: &[OnCpu]) -> Whereabouts<'m> {
    let distance = |m: &&Moment| (m.t_s - t).abs();
    if running.is_empty() {
        let candidates = [before, after].into_iter().flatten();
        let close = candidates.filter(|m| (m.t_s - t).abs() <= GAP * m.weight_s);
        let closest = close.map(|m| (m, distance(&m))).min_by(|a, b| a.1.total_cmp(&b.1));
        return closest.map_or(Whereabouts::Off, |(m, away)| Whereabouts::OnCpu(m, away));
    }
    let begun = running.partition_point(|s| s.start_s <= t);
    let Some(stretch) = running[..begun].last() else { return Whereabouts::Off };
    if t > stretch.end_s {
        // Preempted threads come back; the last stretch of a thread that ended is no preemption.
        let comes_back = stretch.preempted && begun < running.len();
        return before.filter(|_| comes_back).map_or(Whereabouts::Off, Whereabouts::KeptOff);
    }
    let within = |m: &&Moment| (stretch.start_s..=stretch.end_s).contains(&m.t_s);
    let candidates = [before, after].into_iter().flatten();
    // Running, but too briefly to be sampled: the thread's activity is unknown, most likely the same as just before.
    let inside = candidates.clone().filter(within).min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let nearest = inside.or_else(|| candidates.min_by(|a, b| distance(a).total_cmp(&distance(b))));
    match nearest.filter(|m| distance(m) <= 2.0 * m.weight_s) {
        Some(m) => Whereabouts::OnCpu(m, distance(&m)),
        None => Whereabouts::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(t_s: f64, thread: u32, function: u32) -> Moment {
        Moment { t_s, weight_s: 1.0, thread, cpu: None, function, innermost: NONE, activity: Activity::Work }
    }

    #[test]
    fn peers_are_seen_within_half_a_period() {
        let moments = [moment(1.0, 0, 7), moment(1.3, 1, 7), moment(2.0, 0, 7), moment(2.3, 1, 8), moment(9.0, 0, 7)];
        let seen = sights(&moments, &[]);
        let told: Vec<_> = seen.iter().map(|s| (s.peers, s.in_function, s.others_elsewhere)).collect();
        assert_eq!(told, [(1, 2, false), (1, 2, false), (1, 1, true), (1, 1, true), (0, 1, false)]);
    }

    #[test]
    fn context_switches_tell_who_was_running() {
        let moments = [moment(1.0, 0, 7), moment(1.3, 1, 7), moment(2.0, 0, 7), moment(3.0, 0, 7)];
        let on_cpu = [OnCpu { thread: 1, start_s: 0.5, end_s: 2.5, preempted: false }];
        let peers: Vec<_> = sights(&moments, &on_cpu).iter().map(|s| s.peers).collect();
        assert_eq!(peers, [1, 1, 1, 0]);
    }

    #[test]
    fn a_preempted_peer_is_kept_off_until_it_comes_back() {
        let moments = [moment(1.0, 0, 7), moment(1.3, 1, 7), moment(3.0, 0, 7), moment(4.3, 1, 7), moment(9.0, 0, 7)];
        let stretch = |start_s, end_s| OnCpu { thread: 1, start_s, end_s, preempted: true };
        let seen = sights(&moments, &[stretch(0.5, 2.5), stretch(4.0, 5.0)]);
        let told: Vec<_> = seen.iter().map(|s| (s.in_function, s.kept_off_function)).collect();
        assert_eq!(told, [(2, 0), (2, 0), (1, 1), (1, 0), (1, 0)]);
        let blocked = [OnCpu { preempted: false, ..stretch(0.5, 2.5) }, stretch(4.0, 5.0)];
        assert!(sights(&moments, &blocked).iter().all(|s| s.kept_off_function == 0));
    }

    #[test]
    fn waiting_peers_are_not_at_work() {
        let mut waiting = moment(1.1, 1, 9);
        waiting.activity = Activity::Waiting(Wait::Lock);
        let seen = sights(&[moment(1.0, 0, 7), waiting], &[]);
        assert_eq!((seen[0].in_function, seen[0].others_elsewhere, seen[0].locked_out), (1, false, true));
    }
}
