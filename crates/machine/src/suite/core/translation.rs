//! `tlb.*`: the cost of address translation.
//!
//! A hop over one line of each of N pages, less a hop over as many lines side by side:
//!
//! | N | takes longer by |
//! | --- | --- |
//! | up to `tlb.first.entries` | nothing: the first-level TLB knows all pages |
//! | up to `tlb.second.entries` | `tlb.second` |
//! | more | `tlb.second` + `tlb.walk`: the page tables, which are in the caches, have to be read |
//!
//! `tlb.walks` is the number of walks under way at once, by the time of one of several independent hops (Little's law).

use std::time::Instant;

use super::found::{Found, Unit, Value};
use super::windows::{NoStep, fastest, search, timed};
use crate::error::MachineError;
use crate::harness::ClockChain;
use crate::harness::arena::{Buffer, Pages};
use crate::host::features::Features;
use crate::kernels::x86_64::chase;
use crate::kernels::{Arguments, Kernel};

const PAGE: u64 = 4096;
const LINE: u64 = 64;

/// Pages to touch. Mapping a few again and again would be faster, but a hypervisor's translations would then be few as well: a walk took 35
/// cycles instead of 60 (a guest on an Intel server of 2024).
const MOST: usize = 6144;

/// Pages that every first level knows.
const FEW: usize = 16;

/// Numbers of pages that exceed every first level, but fit every second level, with lines that fit every L1. Their median counts, since the
/// first level knows a part of some sets.
const MORE: [usize; 5] = [160, 200, 240, 288, 336];

/// Pages that hardly any second level knows.
const MANY: [usize; 3] = [5376, 5760, MOST - 1];

/// Least hops of a run, and number of runs (the second-fastest counts).
const HOPS: usize = 2048;
const RUNS: usize = 5;

/// Cycles that are added so that the lower level is not zero.
const ABOVE_ZERO: f64 = 1.0;

/// Least number of cycles by which a walk takes longer than a second level.
const WALK: f64 = 4.0;

/// How far another measurement may lie from the values.
const SPREAD: f64 = 0.1;

/// Concurrent chases: more than any core translates at a time.
const TOGETHER: usize = 12;

const IDS: [(&str, Unit); 5] = [
    ("tlb.second", Unit::Time),
    ("tlb.walk", Unit::Time),
    ("tlb.first.entries", Unit::Count),
    ("tlb.second.entries", Unit::Count),
    ("tlb.walks", Unit::Count),
];

/// Chases over lines of pages, and over lines side by side.
struct Sets<'a> {
    buffer: Buffer,
    kernel: Kernel,
    clock: &'a ClockChain,
    end: Instant,
}

impl Sets<'_> {
    /// Address of the line of page `page`; the lines of neighbouring pages lie in different sets of the caches.
    fn line_of(&self, page: u64) -> u64 {
        self.buffer.address() + PAGE * page + LINE * ((page ^ (page >> 6)) % (PAGE / LINE))
    }

    /// Cycles of a hop over the first `count` of `places`, in scattered order.
    fn hop(&self, count: usize, place: impl Fn(u64) -> u64) -> f64 {
        link(&shuffled(count), &place);
        let hops = self.kernel.work.payload.max(1);
        let iterations = (HOPS.max(count) as u64).div_ceil(hops);
        let seconds = fastest(RUNS, |arguments| {
            if arguments.chains[0] == 0 {
                arguments.chains[0] = place(0);
            }
            // SAFETY: the chase stays in the ring.
            unsafe { timed(&self.kernel, iterations, arguments) }
        });
        seconds / hops as f64 * self.clock.hz(&mut Arguments::new())
    }

    /// Cycles of a hop over `count` pages while the other ones of [`TOGETHER`] chases are under way.
    fn hop_together(&self, count: usize, features: Features) -> Result<f64, MachineError> {
        let order = shuffled(count);
        link(&order, |page| self.line_of(page));
        let kernel = chase::chase(TOGETHER, features)?;
        let hops = kernel.work.payload.max(1);
        let seconds = fastest(RUNS, |arguments| {
            for (n, chain) in arguments.chains.iter_mut().enumerate().take(TOGETHER) {
                *chain = self.line_of(order[n * count / TOGETHER]);
            }
            // SAFETY: the chases stay in the ring.
            unsafe { timed(&kernel, (4 * HOPS) as u64 / hops, arguments) }
        });
        Ok(seconds / hops as f64 * self.clock.hz(&mut Arguments::new()))
    }

    /// Extra cycles of a hop over `count` pages, compared with one over as many lines side by side; `None`: no time is left.
    fn extra(&self, count: usize) -> Option<f64> {
        if Instant::now() >= self.end {
            return None;
        }
        Some(self.hop(count, |n| self.line_of(n)) - self.hop(count, |n| self.buffer.address() + LINE * n))
    }

    /// The median over several counts.
    fn median<const N: usize>(&self, counts: [usize; N]) -> Option<f64> {
        let mut extra = counts.into_iter().map(|count| self.extra(count)).collect::<Option<Vec<f64>>>()?;
        extra.sort_unstable_by(f64::total_cmp);
        extra.get(N / 2).copied()
    }

    /// The most pages between `first` and `last` that cost as much as the fewest.
    fn entries(&self, first: usize, last: usize) -> Result<Result<usize, NoStep>, MachineError> {
        search((first, last), f64::INFINITY, self.end, |count| Ok(self.extra(count).map(|e| e.max(0.0) + ABOVE_ZERO)))
    }
}

/// Writes the address of each place's next one into it, in this order.
fn link(order: &[u64], place: impl Fn(u64) -> u64) {
    for (n, from) in order.iter().enumerate() {
        let to = order[(n + 1) % order.len()];
        // SAFETY: places lie inside the buffer, which no other code uses.
        unsafe { (place(*from) as *mut u64).write(place(to)) };
    }
}

/// The first `count` numbers in random order: with a regular one some caches keep more than they should.
fn shuffled(count: usize) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count as u64).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for n in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(n, (state % (n as u64 + 1)) as usize);
    }
    order
}

/// Measures all of it, until `end`.
///
/// # Errors
/// A kernel that cannot be mapped.
pub fn measure(clock: &ClockChain, features: Features, end: Instant, found: &mut Found) -> Result<(), MachineError> {
    let sets =
        Sets { buffer: Buffer::new(MOST as u64 * PAGE, Pages::Small)?, kernel: chase::chase(1, features)?, clock, end };
    (0..MOST as u64).for_each(|page| {
        // SAFETY: inside the buffer, which no other code uses.
        unsafe { (sets.line_of(page) as *mut u64).write_volatile(0) };
    });
    let clock_hz = clock.hz(&mut Arguments::new());
    let value = |value: f64| Value { value, clock_hz, spread: SPREAD };
    let (Some(second), Some(both)) = (sets.median(MORE), sets.median(MANY)) else {
        IDS.iter().for_each(|(id, unit)| found.no_time(*id, *unit));
        return Ok(());
    };
    let [(second_id, time), (walk_id, _), (first_entries, count), (second_entries, _), (walks, _)] = IDS;
    if second >= ABOVE_ZERO {
        found.derived(second_id, time, value(second), "a line of each page less as many lines side by side");
        note_entries(found, first_entries, sets.entries(FEW, MORE[2])?, value);
    } else {
        found.missing(second_id, time, "a hop over some hundred pages costs no more than one over as many lines");
        found.missing(first_entries, count, "the first-level TLB knows some hundred pages");
    }
    if both - second >= WALK {
        let how = "more pages than the second-level TLB holds, less the cost of that TLB";
        let walk = both - second.max(0.0);
        found.derived(walk_id, time, value(walk), how);
        let together = sets.hop_together(MANY[2], features)?;
        let how = format!("a walk over a hop of {TOGETHER} chases at once, {together:.1} cycles");
        found.derived(walks, count, value((walk / together).max(1.0)), how);
        note_entries(found, second_entries, sets.entries(MORE[2], MANY[2])?, value);
    } else {
        let why = format!("a hop over {} pages costs no more than one over some hundred", MANY[2]);
        found.missing(walk_id, time, why.clone());
        found.missing(second_entries, count, why.clone());
        found.missing(walks, count, why);
    }
    Ok(())
}

fn note_entries(found: &mut Found, id: &str, entries: Result<usize, NoStep>, value: impl Fn(f64) -> Value) {
    match entries {
        Ok(entries) => found.measured(id, Unit::Count, value(entries as f64)),
        Err(NoStep::Late) => found.no_time(id, Unit::Count),
        Err(_) => found.missing(id, Unit::Count, "the time over the number of pages has no clear step"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_each_number_once() {
        for count in [1, 16, 1000] {
            let mut order = shuffled(count);
            assert!(count < 16 || order.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() < count / 4);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..count as u64));
        }
    }
}
