//! Candidates of the families of library functions, below the user's functions that call them.

use std::collections::BTreeMap;

use rprof_profile::confidence::Level;
use rprof_profile::function::Function;
use rprof_profile::vocabulary::Class;

use super::advice;
use super::candidate::{Candidate, Interval};
use super::family::Family;
use super::place::Place;
use super::program::Program;
use super::user::{HOT, figure};

/// Of what is spared by not calling a function: its caller still works.
const SPARED: f64 = 0.7;
/// Whoever calls it less does less around the calls, too.
const SPARED_MOST: f64 = 1.12;

/// What is known of one family.
struct Sum {
    cpu_s: f64,
    /// The user's functions below which it is, with their seconds.
    homes: Vec<(Place, f64)>,
    classes: BTreeMap<Class, f64>,
    level: Level,
    /// More than one thread calls it.
    is_shared: bool,
}

impl Sum {
    fn add(&mut self, f: &Function, seconds: f64, homes: Vec<(Place, f64)>) {
        self.cpu_s += seconds;
        for (home, share) in homes {
            Place::add(&mut self.homes, home, share * seconds);
        }
        let class = f.analysis.class;
        if let Some(class) = class.filter(|class| *class != Class::Unknown && !class.is_of_system()) {
            *self.classes.entry(class).or_default() += seconds;
        }
        self.level = self.level.min(f.analysis.confidence.as_ref().map_or(Level::Low, |c| c.level));
        self.is_shared |= f.team.is_some_and(|team| team >= 2);
    }

    /// Whatever holds the single function, it is called too often.
    fn class(&self, family: Family) -> Class {
        let most = self.classes.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(class, _)| *class);
        match (family, most) {
            (Family::Random, _) if self.is_shared => Class::Sharing,
            (Family::Interpreter, _) | (_, None | Some(Class::Peak)) => Class::InstructionMix,
            (_, Some(class)) => class,
        }
    }
}

/// All candidates: one for each family with a twentieth of the CPU time.
pub fn candidates(program: &Program<'_>) -> Vec<Candidate> {
    let sums = sums(program);
    let large = sums.iter().filter(|(_, sum)| sum.cpu_s >= HOT * program.cpu_s);
    large.map(|(family, sum)| candidate(program, *family, sum, around_s(program, *family, &sums))).collect()
}

fn sums(program: &Program<'_>) -> BTreeMap<Family, Sum> {
    let mut sums: BTreeMap<Family, Sum> = BTreeMap::new();
    let mut of = |family: Family, f: &Function, seconds: f64, homes: Vec<(Place, f64)>| {
        let blank =
            || Sum { cpu_s: 0.0, homes: Vec::new(), classes: BTreeMap::new(), level: Level::High, is_shared: false };
        sums.entry(family).or_insert_with(blank).add(f, seconds, homes);
    };
    for f in &program.profile.functions {
        let Some(seconds) = f.cpu_s.filter(|s| *s > 0.0) else { continue };
        if !program.is_own(f) {
            if let Some(family) = program.family(f) {
                of(family, f, seconds, program.homes(f));
            }
            continue;
        }
        // The frames of one family that are inlined into it nest: the longest holds the others.
        let mut inlined: BTreeMap<Family, f64> = BTreeMap::new();
        for frame in &f.inlined {
            if let Some(family) = Family::of(&frame.name, &f.module) {
                let most = inlined.entry(family).or_default();
                *most = most.max(frame.cpu_s.unwrap_or(0.0));
            }
        }
        for (family, seconds) in inlined {
            of(family, f, seconds, vec![(Place::of(f), 1.0)]);
        }
    }
    sums
}

/// CPU seconds in user mode of the functions of `family` below the user's function at `place`.
pub fn seconds_below(program: &Program<'_>, family: Family, place: &Place) -> f64 {
    let below = |f: &Function| -> f64 {
        let homes = program.homes(f).into_iter();
        let share: f64 = homes.filter(|(home, _)| home.function == place.function).map(|(_, share)| share).sum();
        share * f.cpu_s.unwrap_or(0.0)
    };
    let is_one = |f: &&Function| !program.is_own(f) && program.family(f) == Some(family);
    program.profile.functions.iter().filter(is_one).map(below).sum()
}

/// CPU seconds around the calls of the family that go with them: an interpreter compares the elements of a list in a loop of its own, and a
/// loop without calls is vectorised.
fn around_s(program: &Program<'_>, family: Family, sums: &BTreeMap<Family, Sum>) -> f64 {
    match family {
        Family::Comparing if program.script().is_some() => sums.get(&Family::Interpreter).map_or(0.0, |sum| sum.cpu_s),
        Family::Rounding => {
            let homes = sums.get(&family).map_or(&[][..], |sum| &sum.homes);
            let own = homes.iter().filter_map(|(place, _)| program.function(place)?.cpu_s);
            own.sum()
        }
        _ => 0.0,
    }
}

fn candidate(program: &Program<'_>, family: Family, sum: &Sum, around_s: f64) -> Candidate {
    let place = Place::most(&sum.homes).cloned();
    let held_s = program.elapsed(sum.cpu_s);
    let with_around_s = program.elapsed(sum.cpu_s + around_s);
    Candidate {
        class: sum.class(family),
        advice: Some(advice::sentence(family.advice(), place.as_ref())),
        place,
        held_s,
        saves_s: Some(Interval::narrow(SPARED * held_s, SPARED_MOST * with_around_s, program.wall_s)),
        confidence: sum.level.max(Level::Medium),
        because: vec![figure("of the time is", held_s / program.wall_s, family.words())],
    }
}
