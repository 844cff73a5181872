//! Time of one function or loop: CPU, elapsed with its interval, concurrency, balance.

use std::collections::BTreeMap;

use super::attributed::{Activity, AttributedSample, Entry, Team};

/// Half the width of a 95 % interval in standard deviations.
const Z95: f64 = 1.96;

/// Among the samples of several threads at least this many represent all,
const FEWEST_NEAR: usize = 64;
/// and at most this many except for ties.
const MOST_NEAR: usize = 1000;

/// `λ` counts one member's part of a region if there are at least this many samples a thread and region on average.
const SAMPLES_A_REGION: f64 = 50.0;

/// The figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Elapsed {
    /// Samples at work.
    pub samples: u64,
    /// CPU seconds at work.
    pub cpu_s: f64,
    /// Seconds in which at least one thread was at work.
    pub time_s: f64,
    /// Half width of the 95 % interval of `cpu_s`.
    pub cpu_ci95_s: f64,
    /// Share of `time_s` with k threads at work, at index k − 1.
    pub concurrency: Vec<f64>,
    /// Seconds in which no other function was at work.
    pub exclusive_s: f64,
    /// Thread-seconds in which a member ready for work had lost its CPU to another thread while others were at work.
    pub kept_off_s: f64,
    /// CPU seconds spinning or waiting in it.
    pub waiting_s: f64,
    /// CPU seconds in the kernel on its behalf.
    pub kernel_s: f64,
    /// Those that did not begin with a system call.
    pub fault_s: f64,
    /// Seconds in which at least one thread was in such a fault.
    pub fault_time_s: f64,
    /// CPU seconds at work by thread.
    pub per_thread: BTreeMap<u32, f64>,
    /// Half width of the part of `time_s`'s interval that comes from the unknown number of threads at work.
    spread_ci95_s: f64,
    /// Of the time alone, the share in which a peer waited for a lock.
    locked_share: f64,
    /// Σ over regions of the busiest thread's seconds, and how many samples a region and thread has on average.
    regions: Regions,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Regions {
    busiest_s: f64,
    samples_each: f64,
}

/// Whether figures are of a function or of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of a function.
    Function,
    /// Of a loop.
    Loop,
}

impl Scope {
    /// The threads in the function or loop of `sample` at its time.
    fn team(self, sample: &AttributedSample) -> Team {
        match self {
            Scope::Function => sample.peers.in_function,
            Scope::Loop => sample.peers.in_loop,
        }
    }
}

/// That of functions without a sample.
pub static UNSAMPLED: Elapsed = Elapsed {
    samples: 0,
    cpu_s: 0.0,
    time_s: 0.0,
    cpu_ci95_s: 0.0,
    concurrency: Vec::new(),
    exclusive_s: 0.0,
    kept_off_s: 0.0,
    waiting_s: 0.0,
    kernel_s: 0.0,
    fault_s: 0.0,
    fault_time_s: 0.0,
    per_thread: BTreeMap::new(),
    spread_ci95_s: 0.0,
    locked_share: 0.0,
    regions: Regions { busiest_s: 0.0, samples_each: 0.0 },
};

impl Elapsed {
    /// Sums up the samples of one function or loop, in time order. `runs`: how often a thread's sequence of samples entered it.
    pub fn of(samples: &[&AttributedSample], scope: Scope, runs: u64) -> Self {
        let mut elapsed = Elapsed::default();
        let mut work: Vec<&AttributedSample> = Vec::with_capacity(samples.len());
        for sample in samples {
            let weight = sample.weight_s;
            match sample.activity {
                Activity::Work => {
                    elapsed.cpu_s += weight;
                    *elapsed.per_thread.entry(sample.thread).or_default() += weight;
                    work.push(sample);
                }
                Activity::Waiting(_) => elapsed.waiting_s += weight,
                Activity::Kernel(entry) => {
                    elapsed.kernel_s += weight;
                    if entry == Entry::Fault {
                        elapsed.fault_s += weight;
                        elapsed.fault_time_s += weight / f64::from(1 + scope.team(sample).others_in_fault);
                    }
                }
            }
        }
        elapsed.samples = work.len() as u64;
        if work.is_empty() {
            return elapsed;
        }
        let period = elapsed.cpu_s / work.len() as f64;
        // Variance of a systematic sample by successive differences (Wolter 1985): w²/2 · Σ (x_i+1 − x_i)², and every
        // run has two ends.
        elapsed.cpu_ci95_s = Z95 * period * (runs.max(1) as f64).sqrt();
        elapsed.spread_over_threads(&mut work, scope, period);
        elapsed.find_regions(&work, period);
        elapsed
    }

    /// λ = Σ busy / (n · Σ_r max_t busy): 1 for a team of one.
    ///
    /// A member that another program keeps off its CPU still has work: such seconds count as busy.
    ///
    /// Members of a region start together, so that the busiest one's seconds equal the time with any member at work:
    /// Σ_r max_t busy(r,t) = time_s. This fails if members take turns under a lock;
    /// then the gaps between regions separate them, if they hold enough samples.
    pub fn lambda(&self, team: u32) -> Option<f64> {
        if team == 0 || self.time_s <= 0.0 {
            return None;
        }
        let takes_turns = self.locked_share > 0.2 && self.regions.samples_each >= SAMPLES_A_REGION;
        let (busy, busiest) = if takes_turns {
            (self.cpu_s, self.regions.busiest_s)
        } else {
            (self.cpu_s + self.kept_off_s, self.time_s)
        };
        Some((busy / (f64::from(team) * busiest)).min(1.0))
    }

    /// Half width of the 95 % interval of `time_s`: from the CPU time, and from its spread over threads.
    pub fn time_ci95_s(&self) -> f64 {
        let of_cpu = if self.cpu_s > 0.0 { self.cpu_ci95_s * self.time_s / self.cpu_s } else { 0.0 };
        of_cpu.hypot(self.spread_ci95_s)
    }

    /// Fills `time_s`, `concurrency` and `exclusive_s`: samples with equally many peers are represented by those with samples of their
    /// peers nearest in time.
    fn spread_over_threads(&mut self, work: &mut [&AttributedSample], scope: Scope, period: f64) {
        let key = |s: &AttributedSample| (s.peers.running, s.peers.distance_s);
        work.sort_by(|a, b| key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1)));
        let (mut alone, mut locked, mut variance) = (0.0, 0.0, 0.0);
        for class in work.chunk_by(|a, b| a.peers.running == b.peers.running) {
            let chosen = nearest(class, period);
            let weight = |part: &[&AttributedSample]| part.iter().map(|s| s.weight_s).sum::<f64>();
            let scale = weight(class) / weight(chosen);
            variance += (weight(class)).powi(2) * variance_of_share(chosen, scope) / chosen.len() as f64;
            for sample in chosen {
                let team = scope.team(sample);
                let k = usize::from(team.at_work);
                let seconds = scale * sample.weight_s / k as f64;
                self.kept_off_s += seconds * f64::from(team.kept_off);
                if self.concurrency.len() < k {
                    self.concurrency.resize(k, 0.0);
                }
                self.concurrency[k - 1] += seconds;
                self.time_s += seconds;
                if !sample.peers.others_elsewhere {
                    self.exclusive_s += seconds;
                }
                if k == 1 {
                    alone += seconds;
                    locked += if sample.peers.locked_out { seconds } else { 0.0 };
                }
            }
        }
        self.concurrency.iter_mut().for_each(|share| *share /= self.time_s);
        self.spread_ci95_s = Z95 * f64::sqrt(variance);
        self.locked_share = if alone > 0.0 { locked / alone } else { 0.0 };
        work.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    }

    /// Regions: stretches of samples no more than two periods apart.
    fn find_regions(&mut self, work: &[&AttributedSample], period: f64) {
        let regions = work.chunk_by(|a, b| b.t_s - a.t_s <= 2.0 * period);
        let mut count = 0;
        for region in regions {
            let mut busy: BTreeMap<u32, f64> = BTreeMap::new();
            for sample in region {
                *busy.entry(sample.thread).or_default() += sample.weight_s;
            }
            self.regions.busiest_s += busy.values().copied().fold(0.0, f64::max);
            count += busy.len();
        }
        self.regions.samples_each = work.len() as f64 / count.max(1) as f64;
    }
}

/// Among samples sorted by the distance of their peers' samples, those that represent all: the nearest quarter, but no more than shares to
/// a few percent require, and all that are equally near.
fn nearest<'c, 's>(class: &'c [&'s AttributedSample], period: f64) -> &'c [&'s AttributedSample] {
    let wanted = class.len().div_ceil(4).clamp(FEWEST_NEAR.min(class.len()), MOST_NEAR);
    let limit = f64::from(class[wanted - 1].peers.distance_s) + period / 256.0;
    &class[..class.partition_point(|s| f64::from(s.peers.distance_s) <= limit)]
}

/// Variance of 1 / (threads at work) among `chosen`.
fn variance_of_share(chosen: &[&AttributedSample], scope: Scope) -> f64 {
    let share = |s: &&AttributedSample| 1.0 / f64::from(scope.team(s).at_work);
    let n = chosen.len() as f64;
    let mean = chosen.iter().map(share).sum::<f64>() / n;
    chosen.iter().map(|s| (share(s) - mean).powi(2)).sum::<f64>() / n
}
