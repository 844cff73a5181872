//! The native part of a run that was visited.

use std::collections::HashMap;

use super::strata::{Strata, StratumId};
use crate::code_map::FunctionId;
use crate::sampled::Sampled;
use rprof_profile::evidence::counted::CountedEvidence;
use rprof_profile::evidence::timed::{OnCpu, TimedEvidence};
use rprof_profile::evidence::windows::Window;

/// Leaves out samples taken during windows and while collection was `off`.
pub fn without_windows(mut timed: TimedEvidence, windows: &[Window], off: &[(u64, u64)]) -> TimedEvidence {
    let start_ns = timed.start_ns;
    let seconds = |ns: u64| ns.saturating_sub(start_ns) as f64 * 1e-9;
    let mut apart: Vec<(f64, f64)> = windows
        .iter()
        .flat_map(|w| w.spans.iter().copied())
        .chain(off.iter().copied())
        .map(|(a, b)| (seconds(a), seconds(b)))
        .collect();
    apart.sort_by(|a, b| a.0.total_cmp(&b.0));
    apart.dedup_by(|next, kept| {
        let touches = next.0 <= kept.1;
        if touches {
            kept.1 = kept.1.max(next.1);
        }
        touches
    });
    let is_apart = |t_s: f64| {
        let after = apart.partition_point(|w| w.0 <= t_s);
        after > 0 && t_s < apart[after - 1].1
    };
    timed.samples.retain(|sample| !is_apart(sample.t_s));
    timed.on_cpu = timed.on_cpu.iter().flat_map(|stretch| cut(*stretch, &apart)).collect();
    timed.apart = apart;
    timed
}

/// Spreads the seconds that threads ran natively within windows over the samples outside of them: nothing is known of these but that.
pub fn add_uncounted(timed: &mut TimedEvidence, windows: &[Window]) {
    let sampled_s: f64 = timed.samples.iter().map(|sample| sample.weight_s).sum();
    let native_s: f64 = windows.iter().map(|w| w.native_s).sum();
    if sampled_s > 0.0 {
        timed.samples.iter_mut().for_each(|sample| sample.weight_s *= 1.0 + native_s / sampled_s);
    }
}

/// The parts of `stretch` outside of `apart`, which is in order.
fn cut(stretch: OnCpu, apart: &[(f64, f64)]) -> Vec<OnCpu> {
    let mut parts = Vec::new();
    let mut rest = stretch;
    for &(from, to) in &apart[apart.partition_point(|w| w.1 <= stretch.start_s)..] {
        if from >= stretch.end_s {
            break;
        }
        if from > rest.start_s {
            parts.push(OnCpu { end_s: from, preempted: false, ..rest });
        }
        rest.start_s = rest.start_s.max(to);
    }
    if rest.start_s < rest.end_s {
        parts.push(rest);
    }
    parts
}

/// Gives the threads of the windows the numbers that the sampler gave them.
pub fn match_threads(counted: &mut CountedEvidence, timed: &TimedEvidence) {
    let by_id: HashMap<(u32, u32), u32> = timed.threads.iter().map(|t| ((t.pid, t.tid), t.ordinal)).collect();
    let mut beyond = timed.threads.iter().map(|t| t.ordinal + 1).max().unwrap_or(0);
    for thread in &mut counted.threads {
        thread.ordinal = by_id.get(&(thread.pid, thread.tid)).copied().unwrap_or_else(|| {
            beyond += 1;
            beyond - 1
        });
    }
}

/// Time outside of windows by stratum: a function's time in the kernel is no time of its instructions.
#[derive(Debug, Default)]
pub struct NativeTime {
    /// CPU seconds.
    pub cpu_s: HashMap<StratumId, f64>,
    /// Those at work.
    pub work_s: HashMap<StratumId, f64>,
    /// Number of samples.
    pub samples: HashMap<StratumId, u32>,
}

impl NativeTime {
    /// That of all samples.
    pub fn of(sampled: &Sampled, strata: &mut Strata) -> Self {
        let mut time = NativeTime::default();
        for sample in &sampled.samples {
            let stratum = strata.of_sample(sample);
            *time.cpu_s.entry(stratum).or_default() += sample.weight_s;
            *time.samples.entry(stratum).or_default() += 1;
            if sample.works() {
                *time.work_s.entry(stratum).or_default() += sample.weight_s;
            }
        }
        time
    }
}

/// Samples by function, without those in the kernel.
pub fn samples(sampled: &Sampled) -> HashMap<FunctionId, u32> {
    let mut samples = HashMap::new();
    for sample in sampled.samples.iter().filter(|sample| !sample.in_kernel()) {
        *samples.entry(sample.function).or_default() += 1;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_on_a_cpu_are_cut_at_windows() {
        let stretch = OnCpu { thread: 0, start_s: 1.0, end_s: 4.0, preempted: true };
        let cut = |apart: &[(f64, f64)]| -> Vec<(f64, f64, bool)> {
            super::cut(stretch, apart).iter().map(|s| (s.start_s, s.end_s, s.preempted)).collect()
        };
        assert_eq!(cut(&[]), [(1.0, 4.0, true)]);
        assert_eq!(cut(&[(0.0, 0.5), (2.0, 2.5), (3.5, 9.0)]), [(1.0, 2.0, false), (2.5, 3.5, false)]);
        assert_eq!(cut(&[(0.5, 1.5)]), [(1.5, 4.0, true)]);
        assert!(cut(&[(0.5, 5.0)]).is_empty());
    }
}
