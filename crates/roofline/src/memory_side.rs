//! Evidence of hardware counters on the memory side (A.3): uneven controllers, and room for software prefetching.
//!
//! ```text
//! memory-imbalance   T = T_dram / balance                        balance = mean / greatest load of the controllers
//! prefetching        gains at most (stalled − full) · cycle      cycles stalled on memory, cycles with a full miss queue
//! ```

use super::deficiency::Removed;
use super::host::Trace;
use super::terms::{Subject, TermId};

/// The origin listed for a ceiling that the controllers' balance lowers.
pub const BALANCE: &str = "controller balance";
/// A ceiling that is below the measured rate by more than this is no ceiling.
const TOLERANCE: f64 = 0.05;
/// Events that count cycles of stalls on memory, the farthest level first.
const STALLS: [&str; 3] = ["stall_l3", "stall_l2", "stall_l1"];
const FULL: &str = "queue_full";
const CYCLE: &str = "cycle";

/// How much software prefetching can gain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room {
    /// Share of the cycles stalled on memory in which the queue of misses was not full.
    pub share: f64,
    /// Elapsed seconds of these.
    pub seconds: f64,
}

/// The controllers' balance, if it can have applied to one function: it was measured over the whole run, and a function that was
/// faster than the balance allows was not subject to it. `even`: the function without it.
pub fn of_function(even: &Subject<'_>) -> Option<f64> {
    let balance = even.host.controller_balance()?;
    let time = even.function.time_s?;
    let dram = even.term(TermId::Dram, Removed::NONE).seconds?;
    (dram > 0.0 && dram / balance <= time * (1.0 + TOLERANCE)).then_some(balance)
}

/// From its counters, if they have both kinds of cycles.
pub fn room(subject: &Subject<'_>) -> Option<Room> {
    let sum = |role: &str| {
        // An event may count requests or slots instead, which no cycles can be taken from.
        let of_role = subject.function.counters.iter().filter(|c| c.role == role && c.unit == CYCLE);
        of_role.map(|c| c.value).reduce(|a, b| Some(a? + b?)).flatten()
    };
    let stalled = STALLS.iter().find_map(|role| sum(role)).filter(|n| *n > 0.0)?;
    let share = 1.0 - (sum(FULL)? / stalled).min(1.0);
    let cycle = subject.host.cycle(&mut Trace::default())?;
    Some(Room { share, seconds: share * stalled * cycle / subject.team.mean() })
}
