//! The program's diagnosis: the cause that costs most, where it is, the change that helps, and how much time that change saves.
//!
//! ```text
//!  functions on a CPU ─▶ user ───┐       calls through pointers: their callers'
//!  parallel regions ─▶ regions ──┤
//!  libraries below them ▶ libraries
//!  lines of other threads ▶ sharing
//!  time in the kernel ─▶ kernel ─┼─▶ candidates ─▶ that which saves most ─▶ Diagnosis
//!  threads off a CPU ─▶ waiting ─┤                 the others: ruled out, or next
//!  trials in copies ──▶ tried ───┘
//! ```
//!
//! Seconds are elapsed seconds of the native run: CPU seconds of threads that ran at once count once, and where other programs took the
//! CPUs a saving grows with the time that the program itself lost to them ([`program`]).

mod advice;
mod candidate;
mod family;
mod indirect;
mod kernel;
mod libraries;
mod ownership;
mod place;
mod precedence;
mod processes;
mod program;
mod regions;
mod sharing;
mod tried;
mod unexplained;
mod user;
mod waiting;

use rprof_profile::Profile;
use rprof_profile::confidence::Level;
use rprof_profile::vocabulary::Class;

pub use candidate::{Candidate, Interval};
pub use place::Place;

use program::Program;

/// Below this share of the elapsed time a candidate is not mentioned.
const MENTIONED: f64 = 0.05;
/// Causes that are looked at in any case, and told to be none.
const LOOKED_AT: [Class; 6] = [
    Class::Mispredict,
    Class::DramLatency,
    Class::DramBandwidth,
    Class::PageFaults,
    Class::SystemCalls,
    Class::Waiting,
];

/// What holds a program, and what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The cause; [`Class::Unknown`] where the evidence names none.
    pub cause: Class,
    /// Where.
    pub place: Option<Place>,
    /// The change, in one sentence of at most 200 characters.
    pub advice: Option<String>,
    /// Elapsed seconds that the change saves.
    pub saves_s: Option<Interval>,
    /// Elapsed seconds of the native run.
    pub of_s: f64,
    /// How sure the cause is.
    pub confidence: Level,
    /// The figures that it rests on.
    pub because: Vec<String>,
    /// Causes that were looked at, and why they are not it.
    pub ruled_out: Vec<(Class, String)>,
    /// Further candidates, those that save most first.
    pub others: Vec<Candidate>,
}

/// The diagnosis of `profile`; `None` without a timed pass, or where it saw too little.
pub fn of(profile: &Profile) -> Option<Diagnosis> {
    let program = Program::of(profile)?;
    let mut all = user::candidates(&program);
    all.retain(|candidate| candidate.class != Class::Threads || candidate.saves_s.is_some());
    indirect::give_to_callers(&program, &mut all);
    all.extend(libraries::candidates(&program));
    let sharing = sharing::candidates(&program);
    sharing::drop_what_it_explains(&program, &sharing, &mut all);
    all.extend(sharing);
    all.extend(kernel::candidates(&program));
    let regions = regions::candidate(&program);
    regions::drop_what_it_explains(regions.as_ref(), &mut all);
    all.extend(regions);
    let waiting = waiting::candidate(&program);
    waiting::drop_what_only_waits(&program, waiting.as_ref(), &mut all);
    all.extend(waiting);
    tried::drop_what_was_tried(&program, &mut all);
    all.extend(tried::candidates(&program));
    let mut all: Vec<Candidate> = all.into_iter().map(|candidate| candidate.within(program.wall_s)).collect();
    all.retain(|candidate| candidate.held_s >= MENTIONED * program.wall_s);
    all.sort_by(|a, b| b.worth().total_cmp(&a.worth()));
    precedence::put_lower_rungs_first(&program, &mut all);
    let mut all = all.into_iter();
    let first = all.next().unwrap_or_else(|| Candidate::unknown(program.hottest()));
    let others: Vec<Candidate> = all.collect();
    let ruled_out = ruled_out(&program, first.class, &others);
    Some(Diagnosis {
        cause: first.class,
        place: first.place,
        advice: first.advice,
        saves_s: first.saves_s,
        of_s: program.wall_s,
        confidence: first.confidence,
        because: first.because,
        ruled_out,
        others,
    })
}

/// The causes that cost less than what was chosen, or next to nothing.
fn ruled_out(program: &Program<'_>, cause: Class, others: &[Candidate]) -> Vec<(Class, String)> {
    let mut told: Vec<(Class, String)> = tried::ruled_out(program);
    told.retain(|(class, _)| *class != cause);
    for candidate in others {
        if candidate.class == cause || told.iter().any(|(c, _)| *c == candidate.class) {
            continue;
        }
        let at_most = candidate.saves_s.map_or(candidate.held_s, |saves| saves.most);
        told.push((
            candidate.class,
            format!("at most {:.0} % of the time", 100.0 * (at_most / program.wall_s).min(1.0)),
        ));
    }
    for class in LOOKED_AT {
        let is_known = told.iter().any(|(c, _)| *c == class) || class == cause;
        if !is_known {
            told.push((class, format!("less than {:.0} % of the time", 100.0 * MENTIONED)));
        }
    }
    told
}
