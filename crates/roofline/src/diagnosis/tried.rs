//! Candidates of changes that were tried in copies of the program: what they save was measured, and stands against the model.

use rprof_profile::confidence::Level;
use rprof_profile::function::Function;
use rprof_profile::trial::{Change, Ratio, Trial};
use rprof_profile::vocabulary::Class;

use crate::removal;

use super::advice;
use super::candidate::{Candidate, Interval};
use super::family::Family;
use super::place::Place;
use super::program::Program;

/// All candidates: one for each change that gains, at its place.
pub fn candidates(program: &Program<'_>) -> Vec<Candidate> {
    made(program).filter(|trial| trial.gains()).filter_map(|trial| candidate(program, trial)).collect()
}

/// What the model says of a place and a cause that was tried there does not count.
pub fn drop_what_was_tried(program: &Program<'_>, all: &mut Vec<Candidate>) {
    for trial in made(program).filter(|trial| trial.gains() || trial.gains_nothing()) {
        let (Some(class), Some(place)) = (class(program, trial), place(program, trial)) else { continue };
        let is_of_trial = |candidate: &Candidate| {
            candidate.class == class && candidate.place.as_ref().is_some_and(|known| known.function == place.function)
        };
        all.retain(|candidate| !is_of_trial(candidate));
    }
}

/// Causes whose removal was tried and gained nothing, each with that.
pub fn ruled_out(program: &Program<'_>) -> Vec<(Class, String)> {
    let gains = |class: Class| made(program).any(|t| t.gains() && self::class(program, t) == Some(class));
    let mut told: Vec<(Class, String)> = Vec::new();
    for trial in made(program).filter(|trial| trial.gains_nothing()) {
        let (Some(class), Some(change), Some(ratio)) = (class(program, trial), trial.change, trial.ratio) else {
            continue;
        };
        if !gains(class) && told.iter().all(|(known, _)| *known != class) {
            told.push((
                class,
                format!(
                    "tried in copies, no gain: with {change} {} takes {} of its time",
                    trial.function,
                    shares(ratio)
                ),
            ));
        }
    }
    told
}

fn made<'p>(program: &Program<'p>) -> impl Iterator<Item = &'p Trial> {
    program.profile.trials.iter().flat_map(|trials| &trials.made)
}

fn function<'p>(program: &Program<'p>, trial: &Trial) -> Option<&'p Function> {
    program.profile.functions.iter().find(|f| f.is_called(&trial.function) && f.module == trial.module)
}

fn place(program: &Program<'_>, trial: &Trial) -> Option<Place> {
    let found = function(program, trial).map(|f| program.home(f));
    Some(found.unwrap_or_else(|| Place {
        function: trial.function.clone(),
        symbol: Some(trial.function.clone()),
        module: trial.module.clone(),
        file: trial.file.clone(),
        line: trial.line,
    }))
}

/// The cause that the change removes at its place.
fn class(program: &Program<'_>, trial: &Trial) -> Option<Class> {
    let change = trial.change?;
    let function = function(program, trial);
    let by_model = function.and_then(|f| f.analysis.class);
    match change {
        Change::OtherThreadsStopped => Some(match function.and_then(|f| Family::of(&f.name, &f.module)) {
            Some(Family::Random | Family::Allocation) => Class::Waiting,
            _ if by_model == Some(Class::DramBandwidth) => Class::DramBandwidth,
            _ => Class::Sharing,
        }),
        Change::LoadsFromL1 => {
            Some(by_model.filter(|class| removal::is_of_memory(*class)).unwrap_or(Class::DramLatency))
        }
        _ => change.cause(),
    }
}

fn candidate(program: &Program<'_>, trial: &Trial) -> Option<Candidate> {
    let (change, ratio) = (trial.change?, trial.ratio?);
    let place = place(program, trial)?;
    let (least, most) = trial.saves_s?;
    let saves = Interval::new(program.elapsed(least.max(0.0)), program.elapsed(most.max(0.0)));
    // What need not keep the meaning is an upper bound.
    let saves = if change.keeps_meaning() { saves } else { Interval::new(0.5 * saves.least, saves.most) };
    let because = format!(
        "tried in {} pairs of copies: with {change} {} takes {} of its time",
        trial.pairs.len(),
        trial.function,
        shares(ratio)
    );
    Some(Candidate {
        class: class(program, trial)?,
        advice: Some(advice::sentence(words(change), Some(&place))),
        place: Some(place),
        held_s: saves.most,
        saves_s: Some(saves),
        confidence: if change.keeps_meaning() { Level::High } else { Level::Medium },
        because: vec![because],
    })
}

/// `0.48 (0.46–0.50)`
fn shares(ratio: Ratio) -> String {
    format!("{:.2} ({:.2}–{:.2})", ratio.value, ratio.least, ratio.most)
}

/// The change in the source.
fn words(change: Change) -> &'static str {
    match change {
        Change::FlushDenormals => {
            "Flush denormal numbers to zero (-ffast-math, _MM_SET_FLUSH_ZERO_MODE), or keep them from arising"
        }
        Change::HugePages => "Put its data on huge pages (madvise, transparent huge pages)",
        Change::OtherThreadsStopped => {
            "Give each thread's data cache lines and locks of their own, and put results together at the end: alone it runs faster"
        }
        Change::ZeroedDestinations => {
            "Clear the register before conversions and square roots (xorps), or compile for another target: they wait for its old value"
        }
        Change::LoadsFromL1 => "Keep its data closer: smaller, in blocks that stay in the caches, or prefetched",
        Change::NoDivisions => "Multiply by reciprocals that are computed once, instead of dividing",
    }
}
