//! How often to stop the program: as often as asked for, but no more than its share of the program's time allows.
//!
//! A stop costs the program the time for which it is stopped. If the program has use for every CPU, it also costs the CPU time
//! that the sampler itself takes. Both are measured at each tick: `period ≥ cost of a tick / (share × threads stopped in it)`,
//! with the cost smoothed over some ticks.

use std::time::Duration;

/// Weight of the newest tick in the smoothed cost.
const NEWEST: f64 = 0.1;

/// The first period, before any cost is known.
const FIRST: Duration = Duration::from_millis(5);

/// The longest period: the greatest delay until the end of a wait is noticed, and between two looks at a program of many
/// threads.
const LONGEST: Duration = Duration::from_millis(100);

/// The rate controller.
#[derive(Debug)]
pub(super) struct Pace {
    /// Of the program's time that stops may take.
    share: f64,
    shortest_s: f64,
    cost_s: Option<f64>,
    random: u64,
}

impl Pace {
    /// For a rate of at most `frequency_hz`, and stops that take at most `share` of the program's time.
    pub fn new(frequency_hz: f64, share: f64) -> Pace {
        Pace { share, shortest_s: 1.0 / frequency_hz, cost_s: None, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// A tick cost the program `cost_s` seconds, spread over `threads` threads that ran.
    pub fn paid(&mut self, cost_s: f64, threads: usize) {
        let each = cost_s / threads.max(1) as f64;
        self.cost_s = Some(self.cost_s.map_or(each, |old| old + NEWEST * (each - old)));
    }

    /// The mean time between ticks, in seconds.
    pub fn period_s(&self) -> f64 {
        let affordable = self.cost_s.map_or(FIRST.as_secs_f64(), |cost| cost / self.share);
        affordable.max(self.shortest_s).min(LONGEST.as_secs_f64())
    }

    /// The time to the next tick: evenly distributed within a quarter of the mean, so that it cannot synchronize with a rhythm
    /// of the program.
    pub fn next(&mut self) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let unit = (self.random >> 11) as f64 / (1u64 << 53) as f64;
        Duration::from_secs_f64(self.period_s() * (0.75 + 0.5 * unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dear_stops_become_rare_and_cheap_ones_keep_the_rate() {
        let mut pace = Pace::new(1000.0, 0.025);
        (0..200).for_each(|_| pace.paid(100e-6, 2));
        assert!((pace.period_s() - 50e-6 / 0.025).abs() < 1e-6);
        (0..200).for_each(|_| pace.paid(1e-6, 1));
        assert!((pace.period_s() - 1e-3).abs() < 1e-9);
        (0..200).for_each(|_| pace.paid(1.0, 1));
        assert_eq!(pace.period_s(), LONGEST.as_secs_f64());
    }

    #[test]
    fn times_to_the_next_tick_scatter_around_the_mean() {
        let mut pace = Pace::new(100.0, 0.025);
        let times: Vec<f64> = (0..1000).map(|_| pace.next().as_secs_f64()).collect();
        let mean = times.iter().sum::<f64>() / 1000.0;
        assert!((mean / pace.period_s() - 1.0).abs() < 0.02, "{mean}");
        assert!(times.iter().any(|t| *t < 0.8 * mean) && times.iter().any(|t| *t > 1.2 * mean));
    }
}
