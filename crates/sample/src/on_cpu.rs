//! When each thread was on a CPU, from context-switch records, in bounded memory.
//!
//! A program that switches a hundred thousand times a second would leave more intervals than samples by orders of magnitude.
//! Beyond [`LIMIT`] intervals, rprof closes gaps of a thread that are too short to matter to any sampled figure; it sums CPU
//! time before that, so that it stays exact.

use rprof_profile::evidence::timed::OnCpu;

/// Intervals kept before short gaps are closed.
const LIMIT: usize = 1 << 20;

/// The first gap that is closed, in seconds; doubles each time the limit is met again.
const FIRST_GAP: f64 = 20e-6;

/// Intervals of all threads, in order of their ends.
#[derive(Debug)]
pub(super) struct OnCpuLog {
    intervals: Vec<OnCpu>,
    limit: usize,
    next_gap: f64,
    closed_gap: Option<f64>,
}

impl Default for OnCpuLog {
    fn default() -> Self {
        OnCpuLog { intervals: Vec::new(), limit: LIMIT, next_gap: FIRST_GAP, closed_gap: None }
    }
}

impl OnCpuLog {
    /// Adds an interval.
    pub fn push(&mut self, interval: OnCpu) {
        self.intervals.push(interval);
        if self.intervals.len() >= self.limit {
            self.coalesce();
        }
    }

    /// The gap in seconds below which a thread counts as still on its CPU; `None` if every interval is as recorded.
    pub fn closed_gap(&self) -> Option<f64> {
        self.closed_gap
    }

    /// The intervals by start time.
    pub fn into_intervals(mut self) -> Vec<OnCpu> {
        self.intervals.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        self.intervals
    }

    fn coalesce(&mut self) {
        while self.intervals.len() > self.limit / 2 {
            let gap = self.next_gap;
            self.intervals.sort_by(|a, b| a.thread.cmp(&b.thread).then(a.start_s.total_cmp(&b.start_s)));
            self.intervals.dedup_by(|next, kept| {
                let joins = next.thread == kept.thread && next.start_s - kept.end_s < gap;
                if joins {
                    kept.end_s = kept.end_s.max(next.end_s);
                    kept.preempted = next.preempted;
                }
                joins
            });
            self.closed_gap = Some(gap);
            self.next_gap = gap * 2.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_gaps_close_only_beyond_the_limit() {
        let mut log = OnCpuLog { limit: 100, ..OnCpuLog::default() };
        let interval = |i: u32| {
            let start_s = f64::from(i) * 1e-3;
            OnCpu { thread: i % 2, start_s, end_s: start_s + 0.99e-3, preempted: false }
        };
        (0..99).for_each(|i| log.push(interval(i)));
        assert_eq!((log.intervals.len(), log.closed_gap()), (99, None));
        (99..1000).for_each(|i| log.push(interval(i)));
        assert!(log.intervals.len() < 100);
        let gap = log.closed_gap().unwrap();
        assert!(gap > 1.01e-3, "alternating threads have gaps of 1.01 ms, closed {gap}");
        let intervals = log.into_intervals();
        assert!(intervals.windows(2).all(|w| w[0].start_s <= w[1].start_s));
        assert_eq!(intervals.iter().map(|i| i.end_s).fold(0.0, f64::max), 999.0 * 1e-3 + 0.99e-3);
    }
}
