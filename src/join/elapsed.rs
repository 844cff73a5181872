//! Time of one function or loop: CPU, elapsed with its interval, concurrency, balance.

use std::collections::BTreeMap;

use super::timeline::{Activity, Entry, Moment, Sight};

/// Half the width of a 95 % interval in standard deviations.
const Z95: f64 = 1.96;

/// Among the samples of several threads at least this many represent all,
const FEWEST_NEAR: usize = 64;
/// and at most this many except for ties.
const MOST_NEAR: usize = 1000;

/// Where `λ` counts one member's part of a region: at least this many samples a thread and region on average.
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

/// One sample of the function or loop with its view of other threads.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'s> {
    /// The sample.
    pub moment: &'s Moment,
    /// Its view of the other threads.
    pub sight: &'s Sight,
    /// Threads at work in it at that moment, this one included.
    pub together: u16,
    /// Threads that were at work in it and had lost their CPU to another thread.
    pub kept_off: u16,
}

impl Elapsed {
    /// Sums up the samples of one function, in time order. `runs`: how often a thread's sequence of samples entered it.
    pub fn of(seen: &[Seen], runs: u64) -> Self {
        let mut elapsed = Elapsed::default();
        let mut work: Vec<Seen> = Vec::with_capacity(seen.len());
        for entry in seen {
            let weight = entry.moment.weight_s;
            match entry.moment.activity {
                Activity::Work => {
                    elapsed.cpu_s += weight;
                    *elapsed.per_thread.entry(entry.moment.thread).or_default() += weight;
                    work.push(*entry);
                }
                Activity::Waiting(_) => elapsed.waiting_s += weight,
                Activity::Kernel(entry) => {
                    elapsed.kernel_s += weight;
                    elapsed.fault_s += if entry == Entry::Fault { weight } else { 0.0 };
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
        elapsed.spread_over_threads(&mut work, period);
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

    /// Fills `time_s`, `concurrency` and `exclusive_s`: samples with equally many peers are represented by those whose peers' samples are
    /// nearest.
    fn spread_over_threads(&mut self, work: &mut [Seen], period: f64) {
        let key = |s: &Seen| (s.sight.peers, s.sight.distance_s);
        work.sort_by(|a, b| key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1)));
        let (mut alone, mut locked, mut variance) = (0.0, 0.0, 0.0);
        for class in work.chunk_by(|a, b| a.sight.peers == b.sight.peers) {
            let chosen = nearest(class, period);
            let weight = |part: &[Seen]| part.iter().map(|s| s.moment.weight_s).sum::<f64>();
            let scale = weight(class) / weight(chosen);
            variance += (weight(class)).powi(2) * variance_of_share(chosen) / chosen.len() as f64;
            for Seen { moment, sight, together, kept_off } in chosen {
                let k = usize::from((*together).max(1));
                let seconds = scale * moment.weight_s / k as f64;
                self.kept_off_s += seconds * f64::from(*kept_off);
                if self.concurrency.len() < k {
                    self.concurrency.resize(k, 0.0);
                }
                self.concurrency[k - 1] += seconds;
                self.time_s += seconds;
                if !sight.others_elsewhere {
                    self.exclusive_s += seconds;
                }
                if k == 1 {
                    alone += seconds;
                    locked += if sight.locked_out { seconds } else { 0.0 };
                }
            }
        }
        self.concurrency.iter_mut().for_each(|share| *share /= self.time_s);
        self.spread_ci95_s = Z95 * f64::sqrt(variance);
        self.locked_share = if alone > 0.0 { locked / alone } else { 0.0 };
        work.sort_by(|a, b| a.moment.t_s.total_cmp(&b.moment.t_s));
    }

    /// Regions: stretches of samples no more than two periods apart.
    fn find_regions(&mut self, work: &[Seen], period: f64) {
        let regions = work.chunk_by(|a, b| b.moment.t_s - a.moment.t_s <= 2.0 * period);
        let mut count = 0;
        for region in regions {
            let mut busy: BTreeMap<u32, f64> = BTreeMap::new();
            for Seen { moment, .. } in region {
                *busy.entry(moment.thread).or_default() += moment.weight_s;
            }
            self.regions.busiest_s += busy.values().copied().fold(0.0, f64::max);
            count += busy.len();
        }
        self.regions.samples_each = work.len() as f64 / count.max(1) as f64;
    }
}

/// Among samples sorted by the distance of their peers' samples, those that represent all: the nearest quarter, but no more than shares to
/// a few percent require, and all that are equally near.
fn nearest<'c, 's>(class: &'c [Seen<'s>], period: f64) -> &'c [Seen<'s>] {
    let wanted = class.len().div_ceil(4).clamp(FEWEST_NEAR.min(class.len()), MOST_NEAR);
    let limit = f64::from(class[wanted - 1].sight.distance_s) + period / 256.0;
    &class[..class.partition_point(|s| f64::from(s.sight.distance_s) <= limit)]
}

/// Variance of 1 / (threads at work) among `chosen`.
fn variance_of_share(chosen: &[Seen]) -> f64 {
    let share = |s: &Seen| 1.0 / f64::from(s.together.max(1));
    let n = chosen.len() as f64;
    let mean = chosen.iter().map(share).sum::<f64>() / n;
    chosen.iter().map(|s| (share(s) - mean).powi(2)).sum::<f64>() / n
}
