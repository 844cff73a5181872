//! Candidates of cache lines that other threads write: the lines that the memory model saw go from core to core, times the latency between two
//! cores of this host.

use rprof_profile::confidence::Level;
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::function::Function;
use rprof_profile::vocabulary::Class;

use super::advice;
use super::candidate::{Candidate, Interval};
use super::family::Family;
use super::program::Program;
use super::unexplained::{HALF, explained};

/// The least share of a function's CPU time.
const MATTERS: f64 = 0.2;
/// With this share, lines that move take the time that nothing explains.
const NOTICED: f64 = 0.05;
/// From this share of the elapsed time on it explains what else is seen in the same function.
const EXPLAINS: f64 = 0.15;
/// A line that does not move costs a hit instead: the parts of its latency that are saved at least and at most.
const LATENCY_LEAST: f64 = 0.6;
const LATENCY_MOST: f64 = 0.95;

/// All candidates: one for each place.
pub fn candidates(program: &Program<'_>) -> Vec<Candidate> {
    let Some(latency) = program.profile.machine.core_to_core.as_ref().and_then(|pairs| pairs.pairs().first().copied())
    else {
        return Vec::new();
    };
    let blocked = program.blocked();
    let mut all: Vec<Candidate> = Vec::new();
    for f in &program.profile.functions {
        let Some((lines, cost)) = cost(f, latency, blocked) else { continue };
        let family = Family::of(&f.name, &f.module).filter(|_| !program.is_own(f));
        let words = match family {
            Some(family) => family.advice(),
            None => {
                "Give each thread's data cache lines of their own (pad to 64 bytes or more), count in locals, and put the sums together at the end"
            }
        };
        let place = program.home(f);
        let held_s = program.elapsed(cost);
        // A line that moves costs more than its latency where threads queue for it; the core model has none of that.
        let most_s = program.elapsed(f.cpu_s.unwrap_or(0.0) * (1.0 - explained(f))).max(LATENCY_MOST * held_s);
        let saves = Interval::narrow(LATENCY_LEAST * held_s, most_s, program.wall_s);
        let because = format!(
            "{lines:.2e} lines in {} come from another core, {:.0} ns each: {:.0} % of its time",
            f.name,
            1e9 * latency,
            100.0 * (cost / f.cpu_s.unwrap_or(cost)).min(1.0)
        );
        match all.iter_mut().find(|known| known.place.as_ref().is_some_and(|known| known.function == place.function)) {
            Some(known) => {
                known.held_s += held_s;
                known.saves_s = known.saves_s.map(|own| Interval::new(own.least + saves.least, own.most + saves.most));
                known.because.push(because);
            }
            None => all.push(Candidate {
                class: Class::Sharing,
                advice: Some(advice::sentence(words, Some(&place))),
                place: Some(place),
                held_s,
                saves_s: Some(saves),
                confidence: Level::Medium,
                because: vec![because],
            }),
        }
    }
    all
}

/// What the core model says of a function whose lines move between cores is not its cause, and threads that wait for lines have uneven work.
pub fn drop_what_it_explains(program: &Program<'_>, sharing: &[Candidate], all: &mut Vec<Candidate>) {
    let large: Vec<&Candidate> = sharing.iter().filter(|s| s.held_s >= EXPLAINS * program.wall_s).collect();
    let is_there = |candidate: &Candidate| large.iter().any(|s| s.place == candidate.place);
    all.retain(|candidate| {
        let of_threads = matches!(candidate.class, Class::LoadImbalance | Class::Threads);
        (large.is_empty() || !of_threads) && (candidate.class.is_of_system() || !is_there(candidate))
    });
}

/// The share of its time in which no other thread is at work.
fn alone(f: &Function) -> f64 {
    let one = f.concurrency.first().copied().unwrap_or(0.0);
    let exclusive =
        f.exclusive_s.zip(f.time_s).map_or(1.0, |(exclusive, time)| exclusive / time.max(f64::MIN_POSITIVE));
    (one * exclusive).clamp(0.0, 1.0)
}

/// Lines that came from another core, and CPU seconds that they cost, where that matters.
fn cost(f: &Function, latency: f64, blocked: f64) -> Option<(f64, f64)> {
    let cpu_s = f.cpu_s.filter(|s| *s > 0.0)?;
    f.team.filter(|team| *team >= 2)?;
    let Traffic { coherence: lines, l1_misses, .. } = f.work.as_ref()?.traffic?;
    // A thread that is at work alone waits for no other: its lines are there after the first access.
    // Where it is alone because others have the CPUs, and not because the others wait for it, it says nothing.
    let together = 1.0 - blocked * alone(f);
    let moved = (lines * latency).min(0.9 * cpu_s);
    // The counted run's threads take turns more rarely than those of the native one, so that fewer lines move than do.
    let explained = explained(f);
    let is_rest = lines > 0.5 * l1_misses && moved >= NOTICED * cpu_s && explained < HALF;
    let cost = together * if is_rest { moved.max((1.0 - explained) * cpu_s) } else { moved };
    (cost >= MATTERS * cpu_s).then_some((lines, cost))
}
