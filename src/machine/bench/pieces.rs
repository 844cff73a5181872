//! A repetition in pieces, the faster of which nothing interrupted.
//!
//! Something takes some hosts' cores for a microsecond or less, tens of thousands of times a second, for seconds at a time: too often
//! for any repetition of a tenth of a millisecond to be without it, and too short to be told as stolen time or a preemption. Seen on a
//! guest on Zen 1: at such times half of the repetitions of 20 µs were as fast as ever and the others lost 2 %, of additions as of FMA,
//! while those of 100 µs all lost 1.5 %. What uses the divider lost up to 9 %, since its users fall out of step and stay so; of pieces
//! of 6 µs half were within 0.2 % of the least there, too.

use std::time::{Duration, Instant};

/// The quarter of the pieces that counts is judged by its slowest, since the time of one piece is told in steps.
const FASTER: usize = 4;

/// Which time a repetition took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// When it started.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Seconds that all of it takes where nothing interrupts it.
    pub seconds: f64,
}

/// Times `run`, which does so many of `iterations`, in `pieces`, of which reading the time adds `overhead_s` to each; with one
/// piece as a whole.
pub fn timed(iterations: u64, pieces: u64, overhead_s: f64, mut run: impl FnMut(u64)) -> Timed {
    let start = Instant::now();
    let pieces = pieces.min(iterations);
    if pieces <= 1 {
        run(iterations);
        let end = Instant::now();
        return Timed { start, end, seconds: (end - start).as_secs_f64() };
    }
    let each = iterations / pieces;
    let (mut took, mut from) = (Vec::with_capacity(pieces as usize), start);
    for _ in 0..pieces {
        run(each);
        let to = Instant::now();
        took.push(to - from);
        from = to;
    }
    // What cannot be divided belongs to the repetition that other threads see.
    let rest = iterations - each * pieces;
    if rest > 0 {
        run(rest);
    }
    let seconds = (faster(&mut took).as_secs_f64() - overhead_s) * iterations as f64 / each as f64;
    Timed { start, end: Instant::now(), seconds }
}

/// What the faster quarter of the pieces kept within.
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
        assert_eq!(faster(&mut [ms(3)]), ms(3));
        assert_eq!(faster(&mut []), Duration::ZERO);
    }

    #[test]
    fn all_iterations_are_done_however_they_divide() {
        for (iterations, pieces) in [(100, 8), (7, 8), (8, 8), (5, 1), (9, 0)] {
            let mut done = 0;
            let timed = timed(iterations, pieces, 0.0, |n| done += n);
            assert_eq!(done, iterations, "in {pieces}");
            assert!(timed.seconds >= 0.0 && timed.end >= timed.start);
        }
    }

    #[test]
    fn a_repetition_takes_what_its_faster_pieces_say() {
        let mut calls = 0;
        let timed = timed(8 * 1000, 8, 0.0, |_| {
            calls += 1;
            std::thread::sleep(Duration::from_millis(if calls > 4 { 60 } else { 1 }));
        });
        assert!((0.008..0.4).contains(&timed.seconds), "{timed:?}");
        assert!((timed.end - timed.start).as_secs_f64() > 0.24, "{timed:?}");
    }
}
