//! The samples taken so far, in bounded memory.
//!
//! A long run of many threads makes more samples than any figure needs. Beyond [`LIMIT`] the store drops every second sample of
//! each thread and adds its weight to the one kept. From then on it takes in only every second one; and so on.

use rprof_profile::evidence::timed::Sample;

/// Samples kept at most. Each takes some hundred bytes; half as many give the time of a function with 1 % of it to 6 %.
const LIMIT: usize = 300_000;

/// Samples in the order of their arrival.
#[derive(Debug)]
pub(super) struct Store {
    samples: Vec<Sample>,
    limit: usize,
    /// One of this many samples of a thread is kept.
    stride: u32,
    /// Samples of each thread since the last one kept.
    skipped: Vec<u32>,
}

impl Default for Store {
    fn default() -> Self {
        Store { samples: Vec::new(), limit: LIMIT, stride: 1, skipped: Vec::new() }
    }
}

impl Store {
    /// Whether the next sample of `thread` is to be kept; ask once for each sample.
    pub fn wants(&mut self, thread: u32) -> bool {
        let thread = thread as usize;
        if self.skipped.len() <= thread {
            // The first sample of a thread is kept, whatever the stride.
            self.skipped.resize(thread + 1, u32::MAX);
        }
        let skipped = &mut self.skipped[thread];
        let due = *skipped >= self.stride - 1;
        *skipped = if due { 0 } else { *skipped + 1 };
        due
    }

    /// Keeps a sample; its weight includes the samples left out.
    pub fn push(&mut self, mut sample: Sample) {
        sample.weight_s *= f64::from(self.stride);
        self.samples.push(sample);
        if self.samples.len() >= self.limit {
            self.thin();
        }
    }

    /// All samples by time.
    pub fn into_samples(mut self) -> Vec<Sample> {
        self.samples.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        self.samples
    }

    fn thin(&mut self) {
        let mut odd = vec![false; self.skipped.len()];
        self.samples.retain_mut(|sample| {
            sample.weight_s *= 2.0;
            let odd = &mut odd[sample.thread as usize];
            *odd = !*odd;
            *odd
        });
        self.stride *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_samples_keep_the_sum_of_weights_of_each_thread() {
        let mut store = Store { limit: 100, ..Store::default() };
        for i in 0..4000u32 {
            let thread = u32::from(i % 4 == 0);
            if store.wants(thread) {
                let (t_s, stack) = (f64::from(i), Vec::new());
                store.push(Sample {
                    t_s,
                    weight_s: 1.0,
                    thread,
                    stack,
                    kernel: false,
                    off_cpu: false,
                    cpu: None,
                    blocked: None,
                    path: 0,
                });
            }
        }
        let samples = store.into_samples();
        assert!(samples.len() < 100 && samples.len() > 40, "{} samples", samples.len());
        assert!(samples.windows(2).all(|w| w[0].t_s < w[1].t_s));
        for (thread, truth) in [(0, 3000.0), (1, 1000.0)] {
            let sum: f64 = samples.iter().filter(|s| s.thread == thread).map(|s| s.weight_s).sum();
            assert!((sum / truth - 1.0).abs() < 0.1, "thread {thread}: {sum} for {truth}");
        }
    }
}
