//! The cost of a sample to the program on this host, and the rate at which it is small. In a virtual machine a timer interrupt
//! takes ten times as long as on bare metal (measured: 12 to 20 µs), and at 1 kHz more than 1 % of the program's time.

use std::time::{Duration, Instant};

use super::open::{Terms, greatest_rate, on_this_thread};
use crate::USUAL_HZ;

/// The part of a program's time that its samples may take. Their after-effects (cold caches) are not measured, so it stays
/// below the promise of 1 %.
const SHARE: f64 = 0.009;
/// Rates to choose from: few, so that the runs of a program on one host have the same.
const RATES: [f64; 6] = [USUAL_HZ, 700.0, 500.0, 350.0, 250.0, 100.0];
/// The number of samples of this thread for the measurement, and their rate per second if the kernel allows it.
const SAMPLES: usize = 48;
const TRIAL_HZ: f64 = 4000.0;
/// How often it is tried: another thread may have the CPU.
const TRIALS: usize = 5;
/// Between two readings of the clock nothing shorter is an interrupt.
const SHORTEST: Duration = Duration::from_nanos(400);

/// The highest of our rates at which samples on those terms cost little; `None` if the measurement fails.
pub(super) fn affordable_rate(terms: Terms) -> Option<f64> {
    (0..TRIALS).find_map(|_| price(gaps(terms)?)).map(rate_at)
}

/// Samples this thread, which only reads the clock: the gaps between two readings.
fn gaps(terms: Terms) -> Option<Vec<Duration>> {
    let frequency_hz = TRIAL_HZ.min(greatest_rate().max(USUAL_HZ));
    let trial = Duration::from_secs_f64(SAMPLES as f64 / frequency_hz);
    let mut sampler = on_this_thread(Terms { frequency_hz, ..terms }).ok()?;
    sampler.enable().ok()?;
    let begin = Instant::now();
    let (mut before, mut gaps) = (begin, Vec::new());
    while before - begin < trial {
        let now = Instant::now();
        if now - before < SHORTEST {
            before = now;
            continue;
        }
        gaps.push(now - before);
        // Room for the next samples, which would cost less if the kernel dropped them.
        sampler.discard();
        before = Instant::now();
    }
    Some(gaps)
}

/// The median of the longest gaps, as many as there should be samples: shorter ones are something else, and a few were lengthened
/// by others.
fn price(mut gaps: Vec<Duration>) -> Option<Duration> {
    gaps.sort_unstable();
    let longest = gaps.split_off(gaps.len().saturating_sub(SAMPLES));
    // An event that hardly ever interrupts gives no price.
    (longest.len() * 2 >= SAMPLES).then(|| longest[longest.len() / 2])
}

fn rate_at(price: Duration) -> f64 {
    let costs_little = |hz: &f64| hz * price.as_secs_f64() <= SHARE;
    RATES.into_iter().find(costs_little).unwrap_or(RATES[RATES.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::super::open::Trigger;
    use super::*;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn the_rate_is_the_highest_that_costs_less_than_one_percent() {
        let rates = [2, 8, 12, 13, 17, 25, 35, 1000].map(|n| rate_at(us(n)));
        assert_eq!(rates, [1000.0, 1000.0, 700.0, 500.0, 500.0, 350.0, 250.0, 100.0]);
        assert!(RATES.windows(2).all(|pair| pair[0] > pair[1]), "{RATES:?}");
    }

    #[test]
    fn neither_what_is_short_nor_what_is_rare_and_long_changes_the_price() {
        let mut gaps = vec![us(13); 40];
        gaps.extend([us(1); 100]);
        gaps.extend([us(4000); 8]);
        assert_eq!(price(gaps), Some(us(13)));
        assert_eq!(price(vec![us(13); SAMPLES / 2 - 1]), None, "half of the samples are missing");
        assert_eq!(price(Vec::new()), None);
    }

    #[test]
    fn a_sample_of_this_host_has_a_price() {
        let terms =
            Terms { trigger: Trigger::CpuClock, kernel: false, frequency_hz: 0.0, build_id: false, stack_bytes: 8192 };
        if on_this_thread(Terms { frequency_hz: TRIAL_HZ, ..terms }).is_err() {
            println!("SKIPPED: perf: perf_event_open is refused here");
            return;
        }
        // All other tests run beside it.
        let found = (0..20).find_map(|_| price(gaps(terms)?));
        let price = found.expect("an interrupt of a timer is seen");
        println!("a sample costs {:.1} µs here", price.as_secs_f64() * 1e6);
        assert!(price > SHORTEST && price < Duration::from_millis(5), "{price:?}");
    }
}
