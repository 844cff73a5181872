//! Misses that a change avoids, level by level, and the latency that they cost if nothing hides it.

use rprof_profile::evidence::memory::{LINE_BYTES, Traffic};

use super::super::deficiency::{Deficiency, Removed};
use super::super::host::Trace;
use super::Subject;

/// Lines that come no more from L2, L3 and memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Avoided {
    pub l2: f64,
    pub l3: f64,
    pub dram: f64,
}

/// The misses of `subject` that the removal of `d` alone avoids.
pub fn avoided(subject: &Subject<'_>, d: Deficiency) -> Avoided {
    let Some(t) = subject.function.work.as_ref().and_then(|work| work.traffic) else { return Avoided::default() };
    match d {
        Deficiency::CapacityMisses => Avoided { dram: t.capacity, ..Avoided::default() },
        Deficiency::ConflictMisses => Avoided { dram: t.conflict, ..Avoided::default() },
        Deficiency::PrivateConflicts => Avoided { l2: t.l1_conflict, l3: t.l2_conflict, dram: 0.0 },
        Deficiency::SeparatePasses => {
            let again = t.capacity * subject.reuse.shared();
            Avoided { l2: again.min(t.l1_misses), l3: again.min(t.l2_misses), dram: again }
        }
        Deficiency::Strides => strided(&t),
        _ => Avoided::default(),
    }
}

/// Unit stride uses whole lines: of the lines that strided accesses bring, the function would need only as many as their bytes
/// fill.
///
/// `needed = L1 bytes / 64`      at each level at most the part of the misses that is strided goes
fn strided(t: &Traffic) -> Avoided {
    let known = t.lines_of_known_order();
    if known <= 0.0 {
        return Avoided::default();
    }
    let (share, needed) = (t.strided_lines / known, (t.l1_read + t.l1_write) / LINE_BYTES);
    let beyond = |misses: f64| (share * misses).min(misses - needed).max(0.0);
    Avoided { l2: beyond(t.l1_misses), l3: beyond(t.l2_misses), dram: beyond(t.l3_misses) }
}

/// The deficiencies that cause misses.
pub const KINDS: [Deficiency; 5] = [
    Deficiency::CapacityMisses,
    Deficiency::ConflictMisses,
    Deficiency::PrivateConflicts,
    Deficiency::SeparatePasses,
    Deficiency::Strides,
];

/// The traffic without the misses due to the deficiencies in `removed`. Traffic past the caches has no misses.
pub fn without(subject: &Subject<'_>, mut t: Traffic, removed: Removed) -> Traffic {
    let mut gone = Avoided::default();
    for d in KINDS.into_iter().filter(|d| removed.has(*d)) {
        let one = avoided(subject, d);
        gone = Avoided { l2: gone.l2 + one.l2, l3: gone.l3 + one.l3, dram: gone.dram + one.dram };
    }
    let keep = |gone: f64, all: f64| if all > 0.0 { (1.0 - gone / all).clamp(0.0, 1.0) } else { 1.0 };
    let l2 = keep(gone.l2, t.l1_misses);
    t.l2_read *= l2;
    t.l2_write *= l2;
    let l3 = keep(gone.l3, t.l2_misses);
    t.l3_read *= l3;
    t.l3_write = t.dram_nt + l3 * (t.l3_write - t.dram_nt).max(0.0);
    let dram = keep(gone.dram, t.misses());
    t.dram_read *= dram;
    t.dram_write = t.dram_nt + dram * (t.dram_write - t.dram_nt).max(0.0);
    t.dram_fill *= dram;
    t.dram_overwritten *= dram;
    t.dram_used_again *= dram;
    t
}

/// Seconds that misses out of order take if they come one after the other: (in L2 and L3, in memory).
pub fn out_of_order_s(subject: &Subject<'_>, t: &Traffic) -> (f64, f64) {
    let known = t.lines_of_known_order();
    let share = if known > 0.0 { 1.0 - t.unit_lines / known } else { 0.0 };
    let mut trace = Trace::default();
    let mut of = |lines: f64, id: &str| share * lines.max(0.0) * subject.host.latency(id, &mut trace).unwrap_or(0.0);
    let cache = of(t.l1_misses - t.l2_misses, "lat.l2") + of(t.l2_misses - t.l3_misses, "lat.l3");
    let threads = subject.team.mean().max(1.0);
    (cache / threads, of(t.l3_misses, "lat.dram") / threads)
}

/// Seconds that the misses which the removal of `d` avoids take if they come one after the other: the most that it can save.
pub fn latency_s(subject: &Subject<'_>, d: Deficiency) -> f64 {
    let lines = avoided(subject, d);
    let mut trace = Trace::default();
    let mut of = |lines: f64, id: &str| lines * subject.host.latency(id, &mut trace).unwrap_or(0.0);
    let seconds = of(lines.l2, "lat.l2") + of(lines.l3, "lat.l3") + of(lines.dram, "lat.dram");
    seconds / subject.team.mean().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Ceilings, Host};
    use crate::surroundings::Surroundings;
    use rprof_profile::function::Work;
    use rprof_profile::{Function, Machine};

    #[test]
    fn what_goes_past_the_caches_or_comes_from_another_core_is_no_miss_to_be_avoided() {
        let lines = |n: f64| 64.0 * n;
        let t = Traffic {
            dram_read: lines(100.0),
            dram_write: lines(350.0),
            dram_fill: lines(50.0),
            dram_nt: lines(300.0),
            compulsory: 20.0,
            capacity: 80.0,
            coherence: 900.0,
            ..Traffic::default()
        };
        let work = Work { traffic: Some(t), ..Work::default() };
        let function = Function { work: Some(work), ..Function::default() };
        let (machine, around) = (Machine::default(), Surroundings::default());
        let ceilings = Ceilings::of(&machine);
        let subject = Subject::new(&function, Host::new(&ceilings), &around);
        let blocked = without(&subject, t, Removed::only(Deficiency::CapacityMisses));
        let bytes = [blocked.dram_read, blocked.dram_write, blocked.dram_fill, blocked.dram_nt];
        for (bytes, expected) in bytes.into_iter().zip([20.0, 300.0 + 10.0, 10.0, 300.0].map(lines)) {
            assert!((bytes - expected).abs() < 1e-6, "{bytes} {expected}");
        }
        assert_eq!(without(&subject, t, Removed::NONE).dram_read, lines(100.0));
    }

    #[test]
    fn unit_stride_needs_as_many_lines_as_its_bytes_fill() {
        // A column of doubles: each of 1000 accesses brings a line to L1, each of which L2 has still when the next column comes.
        let t = Traffic {
            l1_read: 8000.0,
            l1_misses: 1000.0,
            l2_misses: 130.0,
            l3_misses: 125.0,
            strided_lines: 1000.0,
            ..Traffic::default()
        };
        assert_eq!(strided(&t), Avoided { l2: 875.0, l3: 5.0, dram: 0.0 });
        assert_eq!(strided(&Traffic { unit_lines: 1000.0, strided_lines: 0.0, ..t }), Avoided::default());
    }
}
