//! `window.*`, `misses.l1` and `banks.*`: how many instructions the core has under way at once, and how much caches deliver at once.
//!
//! Two misses of all caches with N other instructions between them overlap as long as the second one enters the core before the first one
//! is over. From a certain N on some resource is full: each miss waits for the other, and both together take twice as long. The kind of the
//! N instructions determines the resource: the list of all instructions under way (`rob`), a scheduler, the registers, the queues of loads
//! and stores.

mod banks;
mod fillers;
mod lines;
mod misses;
mod random;
mod step;

use std::time::Instant;

use super::found::{Found, Unit, Value};
use crate::error::MachineError;
use crate::harness::ClockChain;
use crate::host::features::Features;
use crate::kernels::{Arguments, Kernel};
use fillers::Filler;
use lines::Lines;
use random::RandomLoads;
pub(super) use step::{NoStep, between};

/// Hops of a run, number of runs (the second-fastest counts), and most instructions between two misses.
const HOPS: u64 = 32;
const RUNS: usize = 9;
const MOST: usize = 1200;

/// Number of searches; their median counts.
const SEARCHES: usize = 3;

/// A resource with at most this share of the list of all instructions under way is distinct from it.
const SMALLER: f64 = 0.97;

const RESOURCES: [(&str, Filler); 6] = [
    ("window.int", Filler::WaitingInteger),
    ("window.vector", Filler::WaitingVector),
    ("window.loads", Filler::Load),
    ("window.stores", Filler::Store),
    ("window.registers", Filler::Integer),
    ("window.vector.registers", Filler::Vector),
];

/// Bytes that fit the last level but no L2, a power of two; and the assumed size of L2 if it is unknown.
const FAR: u64 = 8 << 20;
const L2: u64 = 512 << 10;

/// Two misses that wait for each other take twice as long as one.
const TWICE: f64 = 2.0;

/// Largest difference of another measurement from a reproduced value.
const SPREAD: f64 = 0.05;

/// Measures all of them, until `end`; `l2_bytes`: the capacity of L2.
///
/// # Errors
/// A refused mapping, an instruction that cannot be encoded.
pub fn measure(
    clock: &ClockChain,
    features: Features,
    l2_bytes: Option<u64>,
    end: Instant,
    found: &mut Found,
) -> Result<(), MachineError> {
    let clock_hz = clock.hz(&mut Arguments::new());
    let value = |count: usize| Value { value: count as f64, clock_hz, spread: SPREAD };
    let search = Search { lines: Lines::new(2, HOPS)?, features, end };
    let all = match (search.window(Filler::Nop)?, search.window(Filler::Mixture)?) {
        (Ok(nops), Ok(mixture)) => {
            let all = nops.min(mixture);
            if all as f64 >= SMALLER * nops.max(mixture) as f64 {
                found.measured("window.rob", Unit::Count, value(all));
            } else {
                let reason = format!("the least of {nops} nops and {mixture} instructions of a mixture");
                found.remarked("window.rob", Unit::Count, value(all), reason);
            }
            Some(all)
        }
        (Ok(all), Err(_)) | (Err(_), Ok(all)) => {
            found.remarked("window.rob", Unit::Count, value(all), "of nops and of a mixture, one alone was found");
            Some(all)
        }
        (Err(why), Err(_)) => {
            note_missing("window.rob", why, found);
            None
        }
    };
    for (id, filler) in RESOURCES {
        match (search.window(filler)?, all) {
            (Ok(count), Some(all)) if count as f64 >= SMALLER * all as f64 => {
                found.remarked(id, Unit::Count, value(all), "no smaller than window.rob, which hides it");
            }
            (Ok(count), _) => found.measured(id, Unit::Count, value(count)),
            (Err(why), _) => note_missing(id, why, found),
        }
    }
    let loads = RandomLoads::new(FAR, features)?;
    misses::measure(clock_hz, &loads, FAR, found)?;
    let near = l2_bytes.unwrap_or(L2).max(L2) / 2;
    banks::measure(clock_hz, &loads, ("l2", 1 << near.ilog2().min(FAR.ilog2())), found)?;
    banks::measure(clock_hz, &loads, ("l3", FAR), found)
}

fn note_missing(id: &str, why: NoStep, found: &mut Found) {
    let reason = match why {
        NoStep::Flat => format!("misses overlap with {MOST} instructions between them, or never do"),
        NoStep::Noisy => "the time of misses varies too much to find a step".into(),
        NoStep::Late => return found.no_time(id, Unit::Count),
    };
    found.missing(id, Unit::Count, reason);
}

/// The means of a search for windows.
struct Search {
    lines: Lines,
    features: Features,
    end: Instant,
}

impl Search {
    /// The most instructions of one kind under way at once: the median of several searches.
    fn window(&self, filler: Filler) -> Result<Result<usize, NoStep>, MachineError> {
        let mut all = Vec::new();
        let mut why = NoStep::Late;
        for _ in 0..SEARCHES {
            match self.once(filler)? {
                Ok(count) => all.push(count),
                Err(no_step) => why = no_step,
            }
        }
        all.sort_unstable();
        Ok(all.get(all.len() / 2).copied().ok_or(why))
    }

    fn once(&self, filler: Filler) -> Result<Result<usize, NoStep>, MachineError> {
        let found = search((1, MOST), TWICE, self.end, |n| {
            let kernel = fillers::kernel(filler, n, self.features)?;
            Ok(Some(fastest(RUNS, |arguments| {
                (0..2).for_each(|ring| arguments.chains[ring] = self.lines.node(ring as u64, 0));
                self.lines.flush();
                // SAFETY: the chases stay in the rings, and the kernel was emitted for the instruction sets that were detected.
                unsafe { timed(&kernel, HOPS, arguments) }
            })))
        })?;
        Ok(found.map(|n| n + filler.beside()))
    }
}

/// [`step::find`] for measurements that may fail.
pub(super) fn search(
    ends: (usize, usize),
    most: f64,
    end: Instant,
    mut height: impl FnMut(usize) -> Result<Option<f64>, MachineError>,
) -> Result<Result<usize, NoStep>, MachineError> {
    let mut failed = None;
    let found = step::find(ends, most, |n| {
        if Instant::now() >= end {
            return None;
        }
        height(n).map_err(|error| failed = Some(error)).ok().flatten()
    });
    failed.map_or(Ok(found), Err)
}

/// The second-fastest of `runs` runs, after one that brings the code into the caches.
pub(super) fn fastest(runs: usize, mut run: impl FnMut(&mut Arguments) -> f64) -> f64 {
    let mut arguments = Arguments::new();
    run(&mut arguments);
    let mut times: Vec<f64> = (0..runs).map(|_| run(&mut arguments)).collect();
    times.sort_unstable_by(f64::total_cmp);
    times[1]
}

/// Seconds of one iteration.
///
/// # Safety
/// As [`Kernel::call`].
pub(super) unsafe fn timed(kernel: &Kernel, iterations: u64, arguments: &mut Arguments) -> f64 {
    let start = Instant::now();
    // SAFETY: says the caller.
    unsafe { kernel.call(iterations, arguments) };
    start.elapsed().as_secs_f64() / iterations as f64
}
