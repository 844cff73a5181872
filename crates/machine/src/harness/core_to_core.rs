//! How long a cache line takes from one CPU to another: two threads hand a counter to and fro.
//!
//! ```text
//! first:   waits for 0, writes 1 ·· waits for 2, writes 3 ··
//! second:        waits for 1, writes 2 ·· waits for 3, writes 4 ··      least time of a few bursts / hand-overs in one
//! ```

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Team;
use crate::error::MachineError;
use rprof_profile::core_to_core::CoreToCore;

/// Returns of the counter in one burst, and bursts. Together some tens of microseconds.
const RETURNS: u32 = 32;
const BURSTS: u32 = 3;

/// Largest number of CPUs for which all pairs are timed; of more CPUs, only the first ones are.
const MOST: usize = 8;

/// Reads of the counter between two reads of the time.
const LOOKS: u32 = 256;

/// A counter on a cache line of its own (two, since neighbouring lines are fetched together).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Ball(AtomicU32);

/// Data that one pair of CPUs shares.
#[derive(Debug, Default)]
struct Pair {
    ball: Ball,
    abandoned: AtomicBool,
}

impl Pair {
    /// Waits until the counter is at `turn`; returns whether it was before `end`.
    fn wait(&self, turn: u32, end: Instant) -> bool {
        loop {
            for _ in 0..LOOKS {
                if self.ball.0.load(Ordering::Acquire) == turn {
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.abandoned.load(Ordering::Relaxed) {
                return false;
            }
            if Instant::now() > end {
                self.abandoned.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Plays one side; returns the least time of one hand-over in seconds, `None` if the other thread did not come in time.
    fn play(&self, first: bool, patience: Duration) -> Option<f64> {
        let mut turn = u32::from(!first);
        let end = Instant::now() + patience;
        let mut pass = |times: u32| {
            for _ in 0..times {
                if !self.wait(turn, end) {
                    return false;
                }
                self.ball.0.store(turn + 1, Ordering::Release);
                turn += 2;
            }
            true
        };
        // Until both are there.
        if !pass(1) {
            return None;
        }
        let mut least = f64::INFINITY;
        for _ in 0..BURSTS {
            let start = Instant::now();
            if !pass(RETURNS) {
                return None;
            }
            least = least.min(start.elapsed().as_secs_f64() / f64::from(2 * RETURNS));
        }
        Some(least)
    }
}

/// Times every pair of `team`'s CPUs; `None` if there is only one, or if two did not meet within `patience`.
///
/// # Errors
/// [`MachineError::Thread`].
pub fn measure(team: &Team, patience: Duration) -> Result<Option<CoreToCore>, MachineError> {
    let cpus = team.size().min(MOST);
    if cpus < 2 {
        return Ok(None);
    }
    let sides: Vec<(usize, usize)> = (0..cpus).flat_map(|a| (a + 1..cpus).map(move |b| (a, b))).collect();
    let pairs: Vec<Pair> = sides.iter().map(|_| Pair::default()).collect();
    let times = Arc::new(Mutex::new(Vec::with_capacity(sides.len())));
    let (count, all) = (sides.len(), times.clone());
    let job = move |rank: usize| {
        for ((a, _), pair) in sides.iter().zip(&pairs).filter(|((a, b), _)| rank == *a || rank == *b) {
            let time = pair.play(rank == *a, patience);
            if rank == *a
                && let (Some(time), Ok(mut all)) = (time, all.lock())
            {
                all.push(time);
            }
        }
    };
    team.run(cpus, Arc::new(job))?;
    let times = times.lock().map(|t| t.clone()).unwrap_or_default();
    Ok((times.len() == count).then(|| CoreToCore::of(times)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_longer_than_an_access_to_l1_and_less_than_a_page_fault() {
        let cpus = crate::host::limits::Limits::read().cpus;
        let team = Team::new(&cpus).expect("threads on the CPUs of this process");
        let all = measure(&team, Duration::from_secs(5)).expect("runs");
        let Some(all) = all else { return println!("SKIPPED: cpus: one CPU, or its CPUs were never there together") };
        let cpus = cpus.len().min(MOST);
        assert_eq!(all.pairs().len(), cpus * (cpus - 1) / 2);
        assert!(all.pairs().iter().all(|s| *s > 1e-9 && *s < 1e-3), "{all:?}");
    }

    #[test]
    fn one_who_waits_alone_gives_up() {
        let pair = Pair::default();
        assert_eq!(pair.play(false, Duration::from_millis(2)), None);
        assert_eq!(pair.play(true, Duration::from_secs(5)), None, "the other has left");
    }
}
