//! Parallel regions that are too short: starting and ending them takes longer than what they do.

use rprof_profile::confidence::Level;
use rprof_profile::function::Function;
use rprof_profile::vocabulary::Class;

use super::advice;
use super::candidate::{Candidate, Interval};
use super::place::Place;
use super::program::Program;

/// Libraries that start parallel regions.
const RUNTIMES: [&str; 4] = ["libgomp", "libomp", "libiomp", "libtbb"];
/// Parts of the names that compilers give to the body of a region.
const BODIES: [&str; 2] = ["._omp_fn.", ".omp_outlined"];
/// CPU seconds of a thread in one region, up to which the start of the region, some microseconds, matters.
const SHORT_S: f64 = 20e-6;
/// The least share of the threads' time in the runtime.
const MATTERS: f64 = 0.2;
/// Of the time beside the regions' bodies, the part that longer regions save at least.
const SPARED: f64 = 0.75;

/// Whether `f` belongs to a runtime of parallel regions.
pub fn is_runtime(f: &Function) -> bool {
    RUNTIMES.iter().any(|name| f.module.starts_with(name))
}

/// The region in which most is lost.
pub fn candidate(program: &Program<'_>) -> Option<Candidate> {
    let functions = &program.profile.functions;
    let bodies = functions.iter().filter(|f| is_body(f));
    let short = bodies.filter(|f| seconds_a_call(f).is_some_and(|each| each <= SHORT_S));
    let most = short.max_by(|a, b| a.cpu_s.unwrap_or(0.0).total_cmp(&b.cpu_s.unwrap_or(0.0)))?;
    let in_runtime: f64 = functions.iter().filter(|f| is_runtime(f)).map(all_s).sum();
    let all: f64 = functions.iter().map(all_s).sum();
    if in_runtime < MATTERS * all {
        return None;
    }
    let working_s: f64 = functions.iter().filter(|f| !is_runtime(f)).filter_map(|f| f.cpu_s).sum();
    let threads = f64::from(most.team.unwrap_or(1).max(1));
    let held_s = (program.wall_s - working_s / threads * program.stretch).max(0.0);
    let place = Place::of(most);
    let words = "Give its parallel regions more to do: one region around several loops, an outer loop in parallel, or fewer threads; each region costs microseconds";
    let each = 1e6 * seconds_a_call(most)?;
    Some(Candidate {
        class: Class::Waiting,
        advice: Some(advice::sentence(words, Some(&place))),
        held_s,
        saves_s: Some(Interval::narrow(SPARED * held_s, held_s, program.wall_s)),
        confidence: Level::High,
        because: vec![
            format!(
                "{:.0} % of its threads' time is the start and the end of parallel regions",
                100.0 * in_runtime / all
            ),
            format!("{} takes {each:.2} µs a thread, {} times", most.name, most.work.as_ref()?.calls?),
        ],
        place: Some(place),
    })
}

/// Uneven work of short regions is that of their starts.
pub fn drop_what_it_explains(regions: Option<&Candidate>, all: &mut Vec<Candidate>) {
    if regions.is_some() {
        all.retain(|candidate| !matches!(candidate.class, Class::LoadImbalance | Class::Threads));
    }
}

fn is_body(f: &Function) -> bool {
    BODIES.iter().any(|part| f.name.contains(part))
}

/// CPU seconds of one execution by one thread.
fn seconds_a_call(f: &Function) -> Option<f64> {
    let calls = f.work.as_ref()?.calls.filter(|calls| *calls > 0)?;
    Some(f.cpu_s? / calls as f64)
}

/// Seconds of all threads: at work, in the kernel and waiting.
fn all_s(f: &Function) -> f64 {
    f.cpu_s.unwrap_or(0.0) + f.kernel_s.unwrap_or(0.0) + f.waiting_s.unwrap_or(0.0)
}
