//! Times a repetition in pieces and uses the faster ones, which nothing interrupted.
//!
//! On some hosts the cores are interrupted for a microsecond or less, tens of thousands of times a second, for seconds at a time. That is
//! too often for any repetition of a tenth of a millisecond to escape, and too short to show as stolen time or a preemption. Observed on a
//! guest on Zen 1: at such times half of the repetitions of 20 µs were as fast as ever and the others lost 2 %, with additions as with FMA,
//! while those of 100 µs all lost 1.5 %. Kernels that use the divider lost up to 9 %, since its users fall out of step and stay so; of
//! pieces of 6 µs half were within 0.2 % of the least there, too.

use std::time::{Duration, Instant};

/// The first piece beyond the fastest 1 / `FASTER` of all pieces counts.
const FASTER: usize = 4;

/// Fewest pieces that can show which of them are fast.
const FEWEST: u64 = 8;

/// The times of one repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// When it started.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Seconds that the whole repetition takes if nothing interrupts it.
    pub seconds: f64,
}

/// Times `iterations` iterations of `run` in at most `pieces` pieces, or as a whole if these are too few. Reading the timer adds
/// `overhead_s` to each piece. Only the later half of the pieces counts, since the clock is measured after them.
pub fn timed(iterations: u64, pieces: u64, overhead_s: f64, mut run: impl FnMut(u64)) -> Timed {
    let each = iterations.div_ceil(pieces.max(1)).max(1);
    let pieces = iterations / each;
    if pieces < FEWEST {
        let start = Instant::now();
        run(iterations);
        let end = Instant::now();
        return Timed { start, end, seconds: (end - start).as_secs_f64() };
    }
    let mut took = Vec::with_capacity(pieces as usize);
    let start = Instant::now();
    // The remainder of the division belongs to the repetition that other threads see.
    let rest = iterations - each * pieces;
    if rest > 0 {
        run(rest);
    }
    let mut from = Instant::now();
    for _ in 0..pieces {
        run(each);
        let to = Instant::now();
        took.push(to - from);
        from = to;
    }
    let later = took.len() / 2;
    let seconds = (faster(&mut took[later..]).as_secs_f64() - overhead_s) * iterations as f64 / each as f64;
    Timed { start, end: from, seconds }
}

/// The first time beyond the faster quarter.
fn faster(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took.get(took.len() / FASTER).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_something_interrupted_do_not_count() {
        let ms = Duration::from_millis;
        assert_eq!(faster(&mut [9, 4, 9, 1, 4, 9, 4, 9].map(ms)), ms(4), "nor does one that was too short");
        assert_eq!(faster(&mut []), Duration::ZERO);
    }

    #[test]
    fn all_iterations_are_done_however_they_divide() {
        for (iterations, pieces, calls) in
            [(100, 16, 15), (7, 16, 1), (8, 16, 8), (31, 16, 16), (32, 16, 16), (5, 1, 1), (9, 0, 1)]
        {
            let (mut done, mut called) = (0, 0);
            let timed = timed(iterations, pieces, 0.0, |n| (done, called) = (done + n, called + 1));
            assert_eq!((done, called), (iterations, calls), "in {pieces}");
            assert!(timed.seconds >= 0.0 && timed.end >= timed.start);
        }
    }

    #[test]
    fn a_repetition_takes_what_the_faster_of_its_later_pieces_say() {
        let mut calls = 0;
        let timed = timed(16 * 1000, 16, 0.0, |_| {
            calls += 1;
            let slow = calls <= 8 || calls % 2 == 0;
            std::thread::sleep(Duration::from_millis(if slow { 40 } else { 10 }));
        });
        assert!((0.16..0.5).contains(&timed.seconds), "{timed:?}");
        assert!((timed.end - timed.start).as_secs_f64() > 0.5, "{timed:?}");
    }
}
